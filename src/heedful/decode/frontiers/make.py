"""The frontier that the settings ask for."""

from collections.abc import Sequence

import torch

from heedful.decode.constraints import Constraint, MinLength, Never, NoRepeat, Prefix
from heedful.decode.frontiers.attended import Attended
from heedful.decode.frontiers.beam import Beam
from heedful.decode.frontiers.independent import Greedy, IndependentRows
from heedful.decode.frontiers.protocol import Frontier
from heedful.decode.frontiers.sampling import Draws
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.packed import Layout


def frontier_of(
    sentences: Sequence[Query], sources: Layout, settings: SearchSettings, device: torch.device
) -> Frontier:
    """Begin the hypotheses of a batch; `sources` is its layout on the device."""
    limits = [sentence.limit for sentence in sentences]
    constraints = constraints_of(settings, device, [sentence.prefix for sentence in sentences])
    attended = Attended.begin(sources, settings.rows) if settings.attentive else None
    if settings.sampling is not None:
        numbers = [sentence.number for sentence in sentences]
        draws = Draws.of(settings.sampling, numbers, max(limits), device)
        return IndependentRows.begin(limits, settings, draws, constraints, device, attended)
    if settings.beam == 1:
        return IndependentRows.begin(limits, settings, Greedy(), constraints, device, attended)
    return Beam.begin(limits, settings, constraints, device, attended)


def constraints_of(
    settings: SearchSettings, device: torch.device, prefixes: Sequence[Sequence[int]] = ()
) -> tuple[Constraint, ...]:
    """All that the settings forbid, and the prefixes where there are any."""
    constraints: tuple[Constraint, ...] = (Never.of(settings.never, device),)
    if settings.no_repeat:
        constraints += (NoRepeat(settings.no_repeat),)
    if settings.min_length:
        constraints += (MinLength(settings.min_length),)
    if any(prefixes):
        constraints = (Prefix.of(prefixes, device, others=constraints),)
    return constraints
