"""What a caller asks of a model, and how it is resolved against the recipe's [decode]."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from heedful.config.decode import Decode
from heedful.decode.frontiers.sampling import Sampling
from heedful.decode.penalties import LengthPenalty, Shifted, Wu
from heedful.decode.settings import SearchSettings
from heedful.errors import UserError, suggestion
from heedful.tasks.translate.text_codec import Languages


class SearchOptions(TypedDict, total=False):
    """What to ask for; a way to search that is left out, or None, is as the recipe's [decode] says."""

    to: Languages  # the target language of all texts, or of each; None where there is one, or texts begin with tags
    raw: bool  # ordinary text in and out of a model of tokenized text
    prefix: str | Sequence[str] | None  # what all translations, or each, begin with
    beam: int | None  # 1 is greedy search
    length_penalty: float | None
    length_penalty_kind: str | None  # "wu" or "shifted"
    length_shift: float | None  # of the "shifted" kind
    coverage: float | None
    no_repeat: int | None  # no so many pieces in a row twice
    min_length: int | None
    max_extra: int | None
    batch_tokens: int | None
    sampling: Sampling | None  # draw at random instead of searching for the best
    aligned: bool  # also which source pieces each target piece attended to


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
_ALONE: Final = {"to": None, "raw": False, "prefix": None, "sampling": None, "aligned": False}  # not in recipes


def resolve(options: SearchOptions, decode: Decode, nbest: int, never: Iterable[int]) -> SearchRequest:
    """Fill in what the options leave open; `never` are pieces that no translation may have."""
    chosen = {**_ALONE, **decode.model_dump()}
    for name, value in options.items():
        if name not in chosen:
            raise TypeError(f"`{name}` is not an option.{suggestion(name, list(chosen))}")
        chosen[name] = chosen[name] if value is None else value
    if chosen["sampling"] is not None and options.get("beam") is None:
        chosen["beam"] = 1  # the recipe's is for searching
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
