"""The options of a call that translates, and how they are resolved against the recipe's [decode]."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Annotated, Any, Final, TypedDict

from heedful.base.arguments import check_flag, check_number, check_text, check_texts, check_whole
from heedful.base.errors import UserError, by_caller, option, suggestion
from heedful.config.decode import MOST, Decode
from heedful.config.reading.describing.meanings import brief_meaning
from heedful.decode.penalties import LengthPenalty, Shifted, Wu
from heedful.decode.settings import Sampling, SearchSettings
from heedful.tasks.shared.sequences.minimum_bayes_risk import UTILITIES, Found, MinimumBayesRisk
from heedful.tasks.shared.sequences.text_codec import Languages
from heedful.tasks.shared.shown_options import Option, options_of


def _of_recipe(key: str) -> Option:
    return Option(f"{brief_meaning(Decode, key).removesuffix('.')} (default: the recipe's).")


class DecodeOptions(TypedDict, total=False):
    """Keys of the recipe's [decode]; a key that is left out, or None, has the recipe's value."""

    beam: Annotated[int | None, _of_recipe("beam")]
    length_penalty: Annotated[float | None, _of_recipe("length_penalty")]
    length_penalty_kind: Annotated[str | None, _of_recipe("length_penalty_kind")]
    length_shift: Annotated[float | None, _of_recipe("length_shift")]
    coverage: Annotated[float | None, _of_recipe("coverage")]
    no_repeat: Annotated[int | None, _of_recipe("no_repeat")]
    min_length: Annotated[int | None, _of_recipe("min_length")]
    max_extra: Annotated[int | None, _of_recipe("max_extra")]
    max_source: Annotated[int | None, _of_recipe("max_source")]
    batch_tokens: Annotated[int | None, _of_recipe("batch_tokens")]
    mbr: Annotated[int | None, _of_recipe("mbr")]
    mbr_utility: Annotated[str | None, _of_recipe("mbr_utility")]
    mbr_temperature: Annotated[float | None, _of_recipe("mbr_temperature")]
    mbr_min_p: Annotated[float | None, _of_recipe("mbr_min_p")]
    mbr_seed: Annotated[int | None, _of_recipe("mbr_seed")]


class WordOptions(TypedDict, total=False):
    """Words that translations must contain, or must not."""

    terms: Annotated[
        Mapping[str, str] | None,
        Option("Fixed translations: where a source has one of these terms, its translation contains the term's."),
    ]
    require: Annotated[
        str | Sequence[str] | Sequence[Sequence[str]] | None,
        Option("Words that all translations must contain, or a list of them for each text."),
    ]
    forbid: Annotated[str | Sequence[str] | None, Option("Words that no translation may contain.")]


class SearchOptions(DecodeOptions, WordOptions, total=False):
    """All options of a call: keys of the recipe's [decode], and options that a recipe does not have."""

    to: Annotated[Languages, Option("Target language of all texts, or of each, for a model of several languages.")]
    raw: Annotated[bool, Option("Read and write ordinary text with a model of tokenized text.", False)]
    prefix: Annotated[str | Sequence[str] | None, Option("Start of all translations, or of each.")]
    sampling: Annotated[Sampling | None, Option("Sample at random instead of searching for the best.")]
    aligned: Annotated[bool, Option("Also find the source pieces that each target piece attended to.", False)]


@dataclass(frozen=True)
class SearchRequest:
    """The options of a call, resolved."""

    to: Languages
    raw: bool
    prefix: str | Sequence[str] | None
    settings: SearchSettings
    batch_tokens: int
    max_source: int
    terms: Mapping[str, str]  # empty where there are none
    require: list[str] | list[list[str]]  # for all texts, or for each
    forbid: list[str]
    risk: MinimumBayesRisk | None = None  # how one of several samples is chosen; None where all results are returned

    def choose(self, found: Iterable[list[Found]]) -> Iterator[list[Found]]:
        """Yield the results of each source that were asked for."""
        return iter(found) if self.risk is None else map(self.risk.choose, found)

    @property
    def memory_advice(self) -> str:
        """What to do if the memory is full while such a request is answered."""
        beam, tokens = self.settings.beam, self.batch_tokens
        which = by_caller(f"--batch-tokens {tokens} and --beam {beam}", f"`batch_tokens={tokens}` and `beam={beam}`")
        return f"{which} are too much for this model: lower one of them"


PENALTIES: Final[Mapping[str, Callable[[float, float], LengthPenalty]]] = {
    "wu": lambda alpha, shift: Wu(alpha),
    "shifted": Shifted,
}
_OF_A_CALL: Final = {  # defaults of the options that recipes do not have
    name: option.default for name, (_, option) in options_of(SearchOptions).items() if name not in Decode.model_fields
}


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


_CHECKS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "beam": check_whole,
    "length_penalty": check_number,
    "length_penalty_kind": lambda name, value: check_text(value, f"`{name}`"),
    "length_shift": check_number,
    "coverage": check_number,
    "no_repeat": check_whole,
    "min_length": check_whole,
    "max_extra": check_whole,
    "max_source": lambda name, value: check_whole(name, value, least=1),
    "batch_tokens": lambda name, value: check_whole(name, value, least=1),
    "mbr": lambda name, value: check_whole(name, value, least=0),
    "mbr_utility": lambda name, value: check_text(value, f"`{name}`"),
    "mbr_temperature": check_number,
    "mbr_min_p": check_number,
    "mbr_seed": lambda name, value: check_whole(name, value, least=0),
    "to": _check_one_or_each,
    "raw": check_flag,
    "prefix": _check_one_or_each,
    "sampling": _check_sampling,
    "aligned": check_flag,
    "terms": _check_terms,
    "require": _check_required,
    "forbid": _check_words,
}


def resolve(options: SearchOptions, decode: Decode, nbest: int, never: Iterable[int]) -> SearchRequest:
    """Complete the options from the recipe; `never` are tokens that no translation may contain."""
    chosen = {**_OF_A_CALL, **decode.model_dump()}
    for name, value in options.items():
        if name not in chosen:
            raise TypeError(f"`{name}` is not an option.{suggestion(name, list(chosen))}")
        chosen[name] = chosen[name] if value is None else _CHECKS[name](name, value)
    risk = _minimum_bayes_risk(chosen, options, nbest)
    if risk is not None:
        nbest = 1  # of the samples, which are all needed
    if chosen["sampling"] is not None and options.get("beam") is None:
        chosen["beam"] = 1  # the recipe's beam is for searching
    kind = chosen["length_penalty_kind"]
    if kind not in PENALTIES:
        raise UserError(f"`length_penalty_kind` is `{kind}`, but must be one of {', '.join(PENALTIES)}.")
    settings = SearchSettings(
        beam=chosen["beam"],
        nbest=check_whole("nbest", nbest),
        max_extra=chosen["max_extra"],
        penalty=PENALTIES[kind](chosen["length_penalty"], chosen["length_shift"]),
        coverage=chosen["coverage"],
        no_repeat=chosen["no_repeat"],
        min_length=chosen["min_length"],
        sampling=chosen["sampling"],
        aligned=chosen["aligned"],
        never=tuple(never),
    )
    if chosen["max_source"] > MOST["max_source"]:
        raise UserError(f"`max_source` is {chosen['max_source']:,}, but must be at most {MOST['max_source']:,}.")
    return SearchRequest(
        chosen["to"],
        chosen["raw"],
        chosen["prefix"],
        settings,
        chosen["batch_tokens"],
        chosen["max_source"],
        chosen["terms"] or {},
        chosen["require"] or [],
        chosen["forbid"] or [],
        risk,
    )


def _minimum_bayes_risk(chosen: dict[str, Any], options: SearchOptions, nbest: int) -> MinimumBayesRisk | None:
    """Return how to choose among samples, and put the way to draw them into the chosen options; None to search.

    A call that sets a beam or samples itself does not use the recipe's `mbr`.
    """
    asked = options.get("mbr") is not None
    if asked and chosen["mbr"] and options.get("sampling") is not None:
        raise UserError(
            f"{option('mbr')} draws samples of its own, but sampling is set too: leave one of them out; "
            f"{option('mbr_temperature')}, {option('mbr_min_p')} and {option('mbr_seed')} change how they are drawn."
        )
    if asked and chosen["mbr"] and (options.get("beam") or 1) > 1:
        raise UserError(
            f"{option('mbr')} draws samples, but {option('beam')} is {options['beam']}, which searches: leave one of "
            "them out."
        )
    if not chosen["mbr"] or (not asked and (options.get("sampling") or options.get("beam")) is not None):
        return None
    utility = next((name for name in UTILITIES if name == chosen["mbr_utility"]), None)
    if utility is None:
        raise UserError(
            f"{option('mbr_utility')} is `{chosen['mbr_utility']}`, but must be one of {', '.join(UTILITIES)}."
        )
    if nbest > chosen["mbr"]:
        raise UserError(
            f"{option('nbest')} is {nbest}, but {option('mbr')} draws no more than {chosen['mbr']} samples: "
            f"set {option('mbr')} to {nbest} or more."
        )
    chosen["sampling"] = Sampling(
        chosen["mbr_temperature"], samples=chosen["mbr"], seed=chosen["mbr_seed"], min_p=chosen["mbr_min_p"]
    )
    return MinimumBayesRisk(utility, nbest)


def refuse_nbest(options: SearchOptions, method: str) -> None:
    """Refuse `nbest` in a call that returns the best translation alone."""
    if "nbest" in options:
        raise UserError(f"`{method}` returns the best translation alone: `nbest` is for `{method}_detailed`.")
