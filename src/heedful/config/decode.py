"""The [decode] and [evaluate] tables of a recipe."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from heedful.config.section import Section


class Decode(Section):
    """Settings of the search for translations; options of the command line take precedence."""

    beam: PositiveInt = 4  # beam size; 1 is greedy search
    length_penalty: NonNegativeFloat = 0.6  # alpha of the length penalty
    length_penalty_kind: Literal["wu", "shifted"] = "wu"  # ((5 + n) / 6)^alpha, or ((1 + n) / (1 + shift))^alpha
    length_shift: NonNegativeFloat = 0.0  # shift of the "shifted" length penalty
    coverage: NonNegativeFloat = 0.0  # beta of the coverage penalty (Wu et al. 2016); 0 disables it
    no_repeat: Annotated[int, Field(ge=0)] = 0  # length of the n-grams that are never repeated; 0 allows repetition
    min_length: Annotated[int, Field(ge=0)] = 0  # minimum output length in tokens
    max_extra: PositiveInt = 50  # maximum output length: source length + max_extra
    batch_tokens: PositiveInt = 4096  # budget of a batch: source tokens times the beam size


class Evaluate(Section):
    """How scores are computed."""

    bleu_tokenize: Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"] = "13a"  # sacreBLEU tokenizer
    detokenize: bool = False  # with `data.tokenized`, detokenize before scoring, as published scores usually do
