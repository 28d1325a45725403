"""The [decode] and [evaluate] tables of a recipe."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from heedful.config.section import Section


class Decode(Section):
    """How translations are searched; the command line can say otherwise."""

    beam: PositiveInt = 4
    length_penalty: NonNegativeFloat = 0.6  # alpha
    length_penalty_kind: Literal["wu", "shifted"] = "wu"  # ((5 + n) / 6)^alpha, or ((1 + n) / (1 + shift))^alpha
    length_shift: NonNegativeFloat = 0.0  # of the shifted kind
    coverage: NonNegativeFloat = 0.0  # beta of the coverage penalty, Wu et al. 2016; 0 is none
    no_repeat: Annotated[int, Field(ge=0)] = 0  # no so many pieces in a row twice in a translation; 0 allows all
    min_length: Annotated[int, Field(ge=0)] = 0  # the fewest pieces
    max_extra: PositiveInt = 50  # at most this many tokens more than the source has
    batch_tokens: PositiveInt = 4096


class Evaluate(Section):
    """How scores are computed."""

    bleu_tokenize: Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"] = "13a"
    detokenize: bool = False  # score ordinary text where `data.tokenized`, as others' systems are scored
