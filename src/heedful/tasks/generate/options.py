"""The options of a call that generates text, and what they ask of a search."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict

from heedful.base.arguments import check_flag, check_number, check_text, check_texts, check_whole
from heedful.base.errors import UserError, by_caller, option, suggestion
from heedful.decode.constraints.factories import penalise_repetition
from heedful.decode.settings import Sampling, SearchSettings
from heedful.tasks.shared.shown_options import Option, options_of

_TEMPERATURE: Final = 0.8
_OF_SAMPLING: Final = ("top_k", "top_p", "min_p")


class GenerateOptions(TypedDict, total=False):
    """Options of `generate`; None is the default."""

    max_tokens: Annotated[int | None, Option("Maximum number of new tokens (default: 200).")]
    temperature: Annotated[
        float | None,
        Option(f"Below 1 favours likely tokens, above 1 unlikely ones; 0 is greedy search (default: {_TEMPERATURE})."),
    ]
    top_k: Annotated[int | None, Option("Sample from the k most likely tokens; 0 is all (default: 0).")]
    top_p: Annotated[
        float | None,
        Option("Nucleus sampling: the smallest set of tokens with this total probability (default: 1, all)."),
    ]
    min_p: Annotated[
        float | None,
        Option("Sample from tokens with at least this share of the greatest probability (default: 0, all)."),
    ]
    repetition_penalty: Annotated[
        float | None, Option("Makes tokens that occurred before less likely; 1.2 is usual (default: 1, none).")
    ]
    stop: Annotated[str | Sequence[str] | None, Option("A string, or several, before which a text ends.")]
    beam: Annotated[int | None, Option("Beam size of a search for the most likely text, instead of sampling.")]
    samples: Annotated[int | None, Option("Number of texts per prompt; with a beam the best ones (default: 1).")]
    seed: Annotated[
        int | None,
        Option("The same seed and prompt give the same text, whatever other prompts there are (default: 0)."),
    ]
    slide: Annotated[
        bool | None,
        Option("Whether the window slides when a text fills it, instead of ending the text (default: True)."),
    ]
    batch_tokens: Annotated[
        int | None, Option("Maximum tokens of prompts and texts in a batch (default: the recipe's).")
    ]


@dataclass(frozen=True)
class GenerateRequest:
    """The options of a call, resolved."""

    settings: SearchSettings
    max_tokens: int
    samples: int
    stop: tuple[str, ...]
    slide: bool
    batch_tokens: int


def _check_stop(name: str, value: object) -> tuple[str, ...]:
    found = (check_text(value, f"`{name}`"),) if isinstance(value, str) else tuple(check_texts(value, name))
    if "" in found:
        raise UserError(
            f"{by_caller('--stop', '`stop`')} has an empty string, before which every text would end at once: leave it "
            "out."
        )
    return found


_CHECKS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "max_tokens": lambda name, value: check_whole(name, value, least=1),
    "temperature": check_number,
    "top_k": check_whole,
    "top_p": check_number,
    "min_p": check_number,
    "repetition_penalty": check_number,
    "stop": _check_stop,
    "beam": lambda name, value: check_whole(name, value, least=1),
    "samples": lambda name, value: check_whole(name, value, least=1),
    "seed": check_whole,
    "slide": check_flag,
    "batch_tokens": lambda name, value: check_whole(name, value, least=1),
}


def resolve(options: GenerateOptions, batch_tokens: int) -> GenerateRequest:
    """Complete the options; `batch_tokens` is the recipe's."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _CHECKS:
            raise TypeError(f"`{name}` is not an option.{suggestion(name, list(options_of(GenerateOptions)))}")
        if value is not None:
            given[name] = _CHECKS[name](name, value)
    beam, samples = given.get("beam", 1), given.get("samples", 1)
    sampling = _sampling(given, beam)
    if sampling is None and samples > beam:
        searched = f"a beam of {beam} finds no more than {beam}" if beam > 1 else "greedy search finds one text"
        raise UserError(
            f"{option('samples')} is {samples}, but {searched}: set {option('beam')} to {samples} or more, or sample "
            f"with a {option('temperature')} above 0."
        )
    penalty = given.get("repetition_penalty", 1.0)
    if not 1 <= penalty < math.inf:
        raise UserError(f"{option('repetition_penalty')} is {penalty:g}, but must be 1, which is none, or more.")
    settings = SearchSettings(
        beam=beam,
        nbest=1 if sampling else samples,
        sampling=sampling,
        constraints=(penalise_repetition(penalty),) if penalty > 1 else (),
    )
    return GenerateRequest(
        settings,
        given.get("max_tokens", 200),
        samples,
        given.get("stop", ()),
        given.get("slide", True),
        given.get("batch_tokens", batch_tokens),
    )


def _sampling(given: Mapping[str, Any], beam: int) -> Sampling | None:
    """Return how to sample one text; None if the options ask for a search."""
    temperature = given.get("temperature", 0.0 if beam > 1 else _TEMPERATURE)
    if temperature > 0 and beam > 1:
        raise UserError(
            f"{option('temperature')} applies to sampling, but a beam of {beam} searches for the most likely text: "
            "leave out one of the two."
        )
    if temperature != 0:
        chosen = {name: given[name] for name in (*_OF_SAMPLING, "seed") if name in given}
        return Sampling(temperature, **chosen)
    idle = next((name for name in _OF_SAMPLING if name in given), None)
    if idle is not None:
        way_out = f"leave out {option('beam')}" if beam > 1 else f"set {option('temperature')} above 0"
        raise UserError(f"{option(idle)} applies to sampling: leave it out, or {way_out}.")
    Sampling(seed=given.get("seed", 0))  # refuses what is not a seed
    return None
