"""The options of a call that translates, and how they are resolved against the recipe's [decode]."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from heedful.config.decode import Decode
from heedful.decode.penalties import LengthPenalty, Shifted, Wu
from heedful.decode.settings import Sampling, SearchSettings
from heedful.errors import UserError, suggestion
from heedful.tasks.translate.text_codec import Languages


class DecodeOptions(TypedDict, total=False):
    """Keys of the recipe's [decode]; a key that is left out, or None, has the recipe's value."""

    beam: int | None  # 1 is greedy search
    length_penalty: float | None
    length_penalty_kind: str | None  # "wu" or "shifted"
    length_shift: float | None  # shift of the "shifted" kind
    coverage: float | None
    no_repeat: int | None  # length of the n-grams that are never repeated; 0 allows repetition
    min_length: int | None  # minimum output length in tokens
    max_extra: int | None  # maximum output length: source length + max_extra
    batch_tokens: int | None


class SearchOptions(DecodeOptions, total=False):
    """All options of a call: keys of the recipe's [decode], and options that a recipe does not have."""

    to: Languages  # target language of all texts, or of each; None if there is only one, or the texts have tags
    raw: bool  # read and write ordinary text with a model of tokenized text
    prefix: str | Sequence[str] | None  # start of all translations, or of each
    sampling: Sampling | None  # sample at random instead of searching for the best
    aligned: bool  # also find the source pieces that each target piece attended to


@dataclass(frozen=True)
class SearchRequest:
    """The options of a call, resolved."""

    to: Languages
    raw: bool
    prefix: str | Sequence[str] | None
    settings: SearchSettings
    batch_tokens: int


PENALTIES: Final[Mapping[str, Callable[[float, float], LengthPenalty]]] = {
    "wu": lambda alpha, shift: Wu(alpha),
    "shifted": Shifted,
}
_OF_A_CALL: Final = {"to": None, "raw": False, "prefix": None, "sampling": None, "aligned": False}  # not in recipes


def resolve(options: SearchOptions, decode: Decode, nbest: int, never: Iterable[int]) -> SearchRequest:
    """Complete the options from the recipe; `never` are tokens that no translation may contain."""
    chosen = {**_OF_A_CALL, **decode.model_dump()}
    for name, value in options.items():
        if name not in chosen:
            raise TypeError(f"`{name}` is not an option.{suggestion(name, list(chosen))}")
        chosen[name] = chosen[name] if value is None else value
    if chosen["sampling"] is not None and options.get("beam") is None:
        chosen["beam"] = 1  # the recipe's beam is for searching
    kind = chosen["length_penalty_kind"]
    if kind not in PENALTIES:
        raise UserError(f"`length_penalty_kind` is `{kind}`, but must be one of {', '.join(PENALTIES)}.")
    settings = SearchSettings(
        beam=chosen["beam"],
        nbest=nbest,
        max_extra=chosen["max_extra"],
        penalty=PENALTIES[kind](chosen["length_penalty"], chosen["length_shift"]),
        coverage=chosen["coverage"],
        no_repeat=chosen["no_repeat"],
        min_length=chosen["min_length"],
        sampling=chosen["sampling"],
        aligned=chosen["aligned"],
        never=tuple(never),
    )
    return SearchRequest(chosen["to"], chosen["raw"], chosen["prefix"], settings, chosen["batch_tokens"])
