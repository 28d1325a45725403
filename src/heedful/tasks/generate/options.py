"""What the options of a call that generates text ask of a search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heedful.base.errors import UserError, option
from heedful.base.options import complete
from heedful.config.decode import Sampling
from heedful.decode.constraints.tokens import PenaliseRepetition
from heedful.decode.settings import SearchSettings
from heedful.tasks.generate.generation import OF_SAMPLING, GenerateOptions


@dataclass(frozen=True)
class GenerateRequest:
    """The options of a call, resolved."""

    settings: SearchSettings
    max_tokens: int
    samples: int
    stop: tuple[str, ...]
    slide: bool
    batch_tokens: int


def resolve(options: GenerateOptions, batch_tokens: int) -> GenerateRequest:
    """Complete the options; `batch_tokens` is the recipe's."""
    chosen = complete(options, GenerateOptions, {"batch_tokens": batch_tokens})
    given = {name: chosen[name] for name, value in options.items() if value is not None}
    beam, samples = chosen["beam"] or 1, chosen["samples"]
    sampling = _sampling(chosen, given, beam)
    if sampling is None and samples > beam:
        searched = f"a beam of {beam} finds no more than {beam}" if beam > 1 else "greedy search finds one text"
        raise UserError(
            f"{option('samples')} is {samples}, but {searched}: set {option('beam')} to {samples} or more, or sample "
            f"with a {option('temperature')} above 0."
        )
    penalty = chosen["repetition_penalty"]
    settings = SearchSettings(
        beam=beam,
        nbest=1 if sampling else samples,
        sampling=sampling,
        constraints=(PenaliseRepetition(penalty),) if penalty > 1 else (),
    )
    others = {name: chosen[name] for name in ("max_tokens", "samples", "slide", "batch_tokens")}
    return GenerateRequest(settings, stop=tuple(chosen["stop"] or ()), **others)


def _sampling(chosen: Mapping[str, Any], given: Mapping[str, Any], beam: int) -> Sampling | None:
    """Return how to sample one text; None if the options ask for a search."""
    if beam > 1 and given.get("temperature", 0) > 0:
        raise UserError(
            f"{option('temperature')} applies to sampling, but a beam of {beam} searches for the most likely text: "
            "leave out one of the two."
        )
    if beam == 1 and chosen["temperature"] > 0:
        return Sampling(chosen["temperature"], seed=chosen["seed"], **{name: chosen[name] for name in OF_SAMPLING})
    idle = next((name for name in OF_SAMPLING if name in given), None)
    if idle is not None:
        way_out = f"leave out {option('beam')}" if beam > 1 else f"set {option('temperature')} above 0"
        raise UserError(f"{option(idle)} applies to sampling: leave it out, or {way_out}.")
    return None
