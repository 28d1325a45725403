"""The [decode] and [evaluate] tables of a recipe."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat

from heedful.config.section import BatchTokens, Section, as_tuple

MOST: Final[Mapping[str, int]] = {  # sizes of a search that no machine holds are refused before it begins
    "beam": 10_000,
    "no_repeat": 100_000,
    "min_length": 100_000,
    "max_extra": 100_000,
    "max_source": 100_000,
    "mbr": 10_000,
}
LEAST_OF_TREE: Final = 3  # tokens of a tree besides its words: an opening bracket, a closing one and `</s>`
MetricName = Literal["bleu", "chrf", "ter", "exact_match", "edit_distance", "per", "wer"]  # scores of outputs


class Decode(Section):
    """Settings of the search for translations; options of the command line take precedence."""

    beam: Annotated[int, Field(ge=1, le=MOST["beam"])] = 4
    """Beam size; 1 is greedy search."""
    length_penalty: NonNegativeFloat = 0.6
    """Alpha of the length penalty; higher values favour longer translations."""
    length_penalty_kind: Literal["wu", "shifted"] = "wu"
    """Length penalty of n tokens: wu is ((5 + n) / 6)^alpha, shifted is ((1 + n) / (1 + shift))^alpha."""
    length_shift: NonNegativeFloat = 0.0
    """Shift of the "shifted" length penalty."""
    coverage: NonNegativeFloat = 0.0
    """Beta of the coverage penalty (Wu et al. 2016); 0 disables it."""
    no_repeat: Annotated[int, Field(ge=0, le=MOST["no_repeat"])] = 0
    """Length of the n-grams that are never repeated; 0 allows repetition."""
    min_length: Annotated[int, Field(ge=0, le=MOST["min_length"])] = 0
    """Minimum output length in tokens."""
    max_extra: Annotated[int, Field(ge=1, le=MOST["max_extra"])] = 50
    """Maximum output length: source length + max_extra."""
    max_source: Annotated[int, Field(ge=1, le=MOST["max_source"])] = 4000
    """Maximum length of a source in tokens; a longer line is refused, as its translation would take minutes."""
    batch_tokens: BatchTokens = 4096
    """Budget of a batch: source tokens times the beam size."""
    mbr: Annotated[int, Field(ge=0, le=MOST["mbr"])] = 0
    """Minimum Bayes risk decoding: number of samples, of which the one closest to all others is chosen; 0 searches."""
    mbr_utility: Literal["chrf", "bleu"] = "chrf"
    """How close two samples are: chrF or BLEU of one with the other as the reference."""
    mbr_temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Temperature of these samples; below 1 favours likely tokens."""
    mbr_min_p: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Minimum probability of a sampled token, as a fraction of that of the most likely one; 0 allows all."""
    mbr_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of these samples; the same seed draws the same."""


class Evaluate(Section):
    """How scores are computed."""

    bleu_tokenize: Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"] = "13a"
    """Tokenizer of sacreBLEU."""
    detokenize: bool = False
    """Whether text is detokenized before scoring, as published scores usually are; needs `data.tokenized`."""
    metrics: Annotated[tuple[MetricName, ...], BeforeValidator(as_tuple)] = ("bleu", "chrf")
    """Scores of outputs to report, besides exact matches and perplexity."""
    one_word: bool = False
    """Whether an output is the phonemes of one word, so that WER is the share of wrong outputs."""
