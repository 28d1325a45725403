"""The [decode] and [evaluate] tables of a recipe, and the options of a search that only a call has.

A search option is declared here, once: in `Decode` if recipes have it too. The command line and the keywords of Python
derive from it, `DecodeOptions` by `make reference`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Annotated, Final, Literal, TypedDict

from pydantic import BeforeValidator, Field, NonNegativeFloat

from heedful.base.arguments import check_text, check_texts, check_whole
from heedful.base.errors import UserError, by_caller, option
from heedful.base.options import Option, options_of
from heedful.config.section import BatchTokens, Section, as_tuple, written_meaning

LEAST_OF_TREE: Final = 3  # tokens of a tree besides its words: an opening bracket, a closing one and `</s>`
MetricName = Literal["bleu", "chrf", "ter", "exact_match", "edit_distance", "per", "wer"]  # scores of outputs
_BOUNDS: Final = ("ge", "le")  # of a key, as pydantic calls them
_MOST: Final = 10_000  # hypotheses of a sentence; sizes that no machine holds are refused before a search begins


class Decode(Section):
    """Settings of a trained model in use: its search and its precision; options of the command line take precedence."""

    beam: Annotated[int, Field(ge=1, le=10_000)] = 4
    """Beam size; 1 is greedy search."""
    length_penalty: NonNegativeFloat = 0.6
    """Alpha of the length penalty; higher values favour longer translations."""
    length_penalty_kind: Literal["wu", "shifted"] = "wu"
    """Length penalty of n tokens: wu is ((5 + n) / 6)^alpha, shifted is ((1 + n) / (1 + shift))^alpha."""
    length_shift: NonNegativeFloat = 0.0
    """Shift of the "shifted" length penalty."""
    coverage: NonNegativeFloat = 0.0
    """Beta of the coverage penalty, which discourages leaving out source words (Wu et al. 2016); 0 disables it."""
    no_repeat: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Length of the n-grams that are never repeated; 0 allows repetition."""
    min_length: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Minimum output length in tokens."""
    max_extra: Annotated[int, Field(ge=1, le=100_000)] = 50
    """Maximum output length, in tokens more than the source has."""
    max_source: Annotated[int, Field(ge=1, le=100_000)] = 4000
    """Maximum length of a source in tokens; a longer line is refused, as its translation would take minutes."""
    batch_tokens: BatchTokens = 4096
    """Budget of a batch: source tokens times the beam size."""
    mbr: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Minimum Bayes risk decoding: number of samples, of which the one closest to all others is chosen; 0 searches."""
    mbr_utility: Literal["chrf", "bleu"] = "chrf"
    """How close two samples are: chrF or BLEU of one with the other as the reference."""
    mbr_temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Temperature of these samples; below 1 favours likely tokens."""
    mbr_min_p: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Minimum probability of a sampled token, as a fraction of that of the most likely one; 0 allows all."""
    mbr_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of these samples; the same seed draws the same."""
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    """Precision in which the trained model is used, whatever its task; int8 is for a CPU.

    It is chosen when the model is loaded, by `--precision` or by this key. auto is bfloat16 on a GPU and float32 on a
    CPU; on a GPU int8 is auto. `heedful quantize` writes a model for which it is int8.
    """


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


OF_LOADING: Final = ("precision",)  # keys of [decode] that are chosen when a model is loaded, not by each call


# --- keywords of a call -----------------------------------------------------------------------------------------------


def _of_recipe(key: str) -> Option:
    """Return a key of [decode] as an option, with the meaning and the bounds of the key."""
    rules, meaning = Decode.model_fields[key].metadata, written_meaning(Decode, key).partition("\n")[0]
    least, most = (next((getattr(rule, bound) for rule in rules if hasattr(rule, bound)), None) for bound in _BOUNDS)
    return Option(meaning, least=least, most=most, of_recipe=True)


class DecodeOptions(TypedDict, total=False):
    """Keys of the recipe's [decode] that a call has too; one that is left out, or None, has the recipe's value."""

    # Written from `Decode` by `make reference`.
    beam: Annotated[int | None, _of_recipe("beam")]
    length_penalty: Annotated[float | None, _of_recipe("length_penalty")]
    length_penalty_kind: Annotated[Literal["wu", "shifted"] | None, _of_recipe("length_penalty_kind")]
    length_shift: Annotated[float | None, _of_recipe("length_shift")]
    coverage: Annotated[float | None, _of_recipe("coverage")]
    no_repeat: Annotated[int | None, _of_recipe("no_repeat")]
    min_length: Annotated[int | None, _of_recipe("min_length")]
    max_extra: Annotated[int | None, _of_recipe("max_extra")]
    max_source: Annotated[int | None, _of_recipe("max_source")]
    batch_tokens: Annotated[int | None, _of_recipe("batch_tokens")]
    mbr: Annotated[int | None, _of_recipe("mbr")]
    mbr_utility: Annotated[Literal["chrf", "bleu"] | None, _of_recipe("mbr_utility")]
    mbr_temperature: Annotated[float | None, _of_recipe("mbr_temperature")]
    mbr_min_p: Annotated[float | None, _of_recipe("mbr_min_p")]
    mbr_seed: Annotated[int | None, _of_recipe("mbr_seed")]


def _check_samples(name: str, value: object) -> int:
    number, shown = check_whole(name, value), by_caller("The number of samples", f"`{name}`")
    if number < 1:
        raise UserError(f"{shown} is {number}, but must be at least 1.")
    if number > _MOST:
        raise UserError(f"{shown} is {number:,}, but must be at most {_MOST:,}: draw them in parts.")
    return number


@dataclass(frozen=True)
class Sampling:
    """How to sample: `samples` independent targets per sentence, in the order in which they are drawn.

    P_t(v) ~ exp(score_v / temperature), among the k most probable (Fan et al. 2018),
             and of these among the fewest that have p of the probability (Holtzman et al. 2020),
             and of these among those with at least `min_p` times the greatest probability (Nguyen et al. 2024)
    """

    temperature: Annotated[
        float,
        Option(
            "Below 1 favours likely tokens, above 1 unlikely ones.",
            above=0,
            must_be="more than 0: greedy search is a beam of 1 without sampling",
        ),
    ] = 1.0
    top_k: Annotated[
        int,  # tokens as probable as the last one are kept too
        Option("Sample from the k most likely tokens; 0 is all.", least=0, must_be="1 or more, or 0 for all tokens"),
    ] = 0
    top_p: Annotated[
        float,
        Option(
            "Nucleus sampling: the smallest set of tokens with this total probability; 1 is all.",
            above=0,
            most=1,
            must_be="more than 0 and at most 1, which is all tokens",
        ),
    ] = 1.0
    samples: Annotated[int, Option("Number of targets to draw.", reader=_check_samples)] = 1
    seed: Annotated[
        int,
        Option(
            "Random seed: the same one draws the same samples of a text, whatever other texts there are.",
            least=0,
            most=2**64 - 1,
            must_be="0 or more, and less than 2^64",
        ),
    ] = 0
    min_p: Annotated[
        float,
        Option(
            "Sample from tokens with at least this share of the greatest probability; 0 is all.",
            least=0,
            most=1,
            must_be="from 0, which is all tokens, to 1",
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        for name, declared in options_of(Sampling).items():
            declared.check(name, getattr(self, name))


def _check_one_or_each(name: str, value: object) -> str | list[str]:
    return check_text(value, f"`{name}`") if isinstance(value, str) else check_texts(value, name)


def _check_sampling(name: str, value: object) -> Sampling:
    if not isinstance(value, Sampling):
        raise UserError(f"`{name}` is {shortened(value)}, but must be a heedful.Sampling(temperature=0.8) or the like.")
    return value


def _check_terms(name: str, value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise UserError(f"`{name}` is {shortened(value)}, but must be a dictionary of terms and their translations.")
    sides = [_check_words(name, list(side)) for side in (value.keys(), value.values())]
    return dict(zip(*sides, strict=True))


def _check_words(name: str, value: object) -> list[str]:
    words = [value] if isinstance(value, str) else check_texts(value, name)
    for number, word in enumerate(words, start=1):
        if not word.strip():
            raise UserError(f"{option(name)}, word {number:,} is blank: leave it out.")
    return [check_text(word, f"`{name}`") for word in words]


def _check_required(name: str, value: object) -> list[str] | list[list[str]]:
    if not isinstance(value, str) and isinstance(value, Sequence) and any(not isinstance(some, str) for some in value):
        return [_check_words(name, some) for some in value]
    return _check_words(name, value)


SAMPLING: Final = Option("Sample at random instead of searching for the best.", reader=_check_sampling)


class WordOptions(TypedDict, total=False):
    """Words that translations must contain, or must not."""

    terms: Annotated[
        Mapping[str, str] | None,
        Option(
            "Fixed translations: where a source has one of these terms, its translation contains the term's.",
            reader=_check_terms,
        ),
    ]
    require: Annotated[
        str | Sequence[str] | Sequence[Sequence[str]] | None,
        Option(
            "Words that every translation must contain.\nA list of lists has the words of each text.",
            reader=_check_required,
        ),
    ]
    forbid: Annotated[str | Sequence[str] | None, Option("Words that no translation may contain.", reader=_check_words)]


class SearchOptions(DecodeOptions, WordOptions, total=False):
    """All options of a call that translates: keys of the recipe's [decode], and options that a recipe does not have."""

    to: Annotated[
        str | Sequence[str] | None,
        Option(
            "Target language, for a model that has several.\nA list has that of each text.",
            reader=_check_one_or_each,
        ),
    ]
    raw: Annotated[bool, Option("Read and write ordinary text with a model of tokenized text (Moses rules).", False)]
    prefix: Annotated[
        str | Sequence[str] | None,
        Option("Start every translation with this text.\nA list has the start of each.", reader=_check_one_or_each),
    ]
    shortlist: Annotated[
        bool,
        Option(
            "Search among likely translations of the source's tokens only: faster on a CPU.\nThey are those that "
            "`heedful.learn_shortlist` found.",
            False,
        ),
    ]
    sampling: Annotated[Sampling | None, SAMPLING]
    aligned: Annotated[bool, Option("Also find the source pieces that each target piece attended to.", False)]
