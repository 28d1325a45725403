"""How much each token of the input adds to the log probability of an output.

    integrated      a(i) = (x_i - b_i) . integral_0^1 dF(b + s (x - b)) / dx_i ds     Sundararajan et al. 2017, 3
    gradient        a(i) = (x_i - b_i) . dF(x) / dx_i                                 Shrikumar et al. 2017
    erasure         a(i) = F(x) - F(x, of which x_i is b_i)                           Li et al. 2016

x are the embeddings of all tokens, b those of tokens that say nothing: see `readings`. F is log P of a token or of a
class or, in a contrast, log P(A) - log P(B) (Yin and Neubig 2022). Integrated gradients are complete: over all tokens
they sum to F(x) - F(b).

Shape letters of this file: K  points of the path, or copies    T  predictions    S  tokens of an input
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.errors import UserError
from heedful.explain.explanation import Array, Measured, TokenSequence
from heedful.explain.readings import Reading, chunks_of
from heedful.native.int8 import is_int8

AttributionKind = Literal["integrated", "gradient", "erasure"]
KINDS: Final[tuple[AttributionKind, ...]] = get_args(AttributionKind)
MOST_PREDICTIONS: Final = 256  # each costs backward passes
_NODES: Final = 4  # of Gauss and Legendre in each interval of the path
_INTERVALS: Final = 4  # at first
_LEAST: Final = 2.0**-20  # length of an interval that is not halved again
_MOST_INTERVALS: Final = 512

_Parts = dict[str, Tensor]  # by name of a sequence
_Interval = tuple[float, float]  # of the path, from 0 to 1


@dataclass(frozen=True, eq=False)
class Attribution(Measured):
    """What each token of the input adds to each prediction, in natural logarithms of probabilities; it may be negative.

    A number that a regressor predicts is attributed itself. `differences` are F(x) - F(b), to which integrated
    gradients sum.
    """

    name: ClassVar[str] = "attribution"

    kind: AttributionKind
    outputs: TokenSequence  # the predictions that are explained
    against: tuple[str, ...]  # what each is compared with, in a contrast
    inputs: dict[str, TokenSequence]
    values: dict[str, Array]  # by name of an input: prediction x token
    differences: NDArray[np.float64]  # of each prediction
    shared: NDArray[np.float64]  # how much of each integral missed, and was shared out among tokens: see `attribute`

    def to_json(self) -> dict[str, Any]:
        """Return all values, exactly."""
        return {
            "kind": self.kind,
            "outputs": list(self.outputs.pieces),
            "against": list(self.against),
            "axes": ["output", "token"],
            "inputs": {
                name: {"pieces": list(self.inputs[name].pieces), "values": values.tolist()}
                for name, values in self.values.items()
            },
            "differences": self.differences.tolist(),
            "shared": self.shared.tolist(),
        }


def attribute(reading: Reading, kind: AttributionKind, tolerance: float = 0.05) -> Attribution:
    """Return what each token of the input adds to each prediction of a reading.

    Integrated gradients are sums over intervals of the path, whose differences of F are known. What sums miss is shared
    out among tokens, in proportion to what they have there: no more than `tolerance` in all for each prediction. With a
    greater one, fewer gradients are computed. Where F jumps, as with attention that chooses, more is missed.
    """
    if kind not in KINDS:
        raise UserError(f"`{kind}` is not a kind of attribution: use `{'`, `'.join(KINDS[:-1])}` or `{KINDS[-1]}`.")
    if kind != "erasure" and is_int8(reading.network):
        raise UserError(
            "A model in int8 has no gradients: load it in the precision `float32`, or use the kind `erasure`."
        )
    if len(reading.chosen) > MOST_PREDICTIONS:
        raise UserError(
            f"There are {len(reading.chosen):,} predictions to attribute, but at most {MOST_PREDICTIONS} are: shorten "
            "the text."
        )
    blank_T, whole_T = _values_along(reading, [0.0, 1.0])
    shared_T = torch.zeros_like(whole_T)
    match kind:
        case "integrated":
            parts, shared_T = _integrate(reading, tolerance)
        case "gradient":
            parts = {name: steps_KTS[0] for name, steps_KTS in _slopes(reading, [1.0]).items()}
        case "erasure":
            parts = _erase(reading)
    return Attribution(
        kind,
        reading.outputs,
        reading.against,
        dict(reading.inputs),
        {name: parts[name].cpu().numpy().astype(np.float32) for name in reading.inputs},
        (whole_T - blank_T).double().cpu().numpy(),
        shared_T.double().cpu().numpy(),
    )


def _integrate(reading: Reading, tolerance: float) -> tuple[_Parts, Tensor]:
    """Integrate interval by interval: one that misses the difference of its ends, which is known, is halved.

    The slope jumps where units of a network turn on, and a norm makes it steep near a vector of zeros: no number of
    equal steps suits all networks.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    waiting = [(number / _INTERVALS, (number + 1) / _INTERVALS) for number in range(_INTERVALS)]
    found: dict[_Interval, _Parts] = {}
    missed: dict[_Interval, Tensor] = {}  # of each prediction
    known: dict[float, Tensor] = {}
    while waiting:
        ends = [end for end in dict.fromkeys(end for pair in waiting for end in pair) if end not in known]
        known.update(zip(ends, _values_along(reading, ends), strict=True))
        slopes = _slopes(reading, [low + (high - low) * (1 + float(x)) / 2 for low, high in waiting for x in nodes])
        for number, (low, high) in enumerate(waiting):
            own = slice(number * _NODES, (number + 1) * _NODES)
            parts = {name: _weighted((high - low) / 2 * weights, steps_KTS[own]) for name, steps_KTS in slopes.items()}
            sums_T, sizes_T = (
                torch.cat(list(some), dim=1).sum(dim=1) for some in (parts.values(), map(torch.abs, parts.values()))
            )
            rest_T = known[high] - known[low] - sums_T
            missed[low, high] = rest_T.abs()
            shares_T1 = (rest_T / sizes_T.clamp(min=1e-30)).unsqueeze(1)
            found[low, high] = {name: part + part.abs() * shares_T1 for name, part in parts.items()}
        waiting = []
        for low, high in _worst(missed, tolerance):
            del found[low, high], missed[low, high]
            waiting += [(low, (low + high) / 2), ((low + high) / 2, high)]
    summed = {name: torch.stack([parts[name] for parts in found.values()]).sum(dim=0) for name in reading.inputs}
    return summed, torch.stack(list(missed.values())).sum(dim=0)


def _worst(missed: dict[_Interval, Tensor], tolerance: float) -> list[_Interval]:
    """Return the intervals to halve: those that miss most; none when all together miss little enough."""
    if float(torch.stack(list(missed.values())).sum(dim=0).max()) <= tolerance or len(missed) >= _MOST_INTERVALS:
        return []
    by = {pair: float(one.max()) for pair, one in missed.items()}
    most = max(by.values())
    return [(low, high) for (low, high), one in by.items() if one > most / 8 and high - low > _LEAST]


def _weighted(weights: NDArray[np.float64], steps_KTS: Tensor) -> Tensor:
    """Return the weighted sum over points of the path."""
    return torch.einsum(
        "k,kts->ts", torch.as_tensor(weights, dtype=steps_KTS.dtype, device=steps_KTS.device), steps_KTS
    )


def _along(shares_K: Tensor, name: str, whole: Tensor, blank: Tensor) -> Tensor:
    """Return b + s (x - b) for each copy of a sequence."""
    share = shares_K.to(whole.dtype).repeat_interleave(len(whole) // len(shares_K)).unsqueeze(1)
    return torch.lerp(blank, whole, share)


def _values_along(reading: Reading, shares: Sequence[float]) -> list[Tensor]:
    """Return F at each of some points of the path."""
    found: list[Tensor] = []
    for some in chunks_of(reading, len(shares)):
        shares_K = torch.tensor([shares[number] for number in some], device=reading.device)
        with reading.computing(), reading.embedding_as(partial(_along, shares_K)):
            found += reading.values(len(some))
    return found


def _slopes(reading: Reading, shares: Sequence[float]) -> _Parts:
    """Return (x - b) . dF / dx at each of some points of the path, for each token: K x T x S."""
    chunks = [
        _slopes_at(reading, torch.tensor([shares[number] for number in some], device=reading.device))
        for some in chunks_of(reading, len(shares))
    ]
    return {name: torch.cat([chunk[name] for chunk in chunks]) for name in reading.inputs}


def _slopes_at(reading: Reading, shares_K: Tensor) -> _Parts:
    points: list[Tensor] = []
    steps: list[tuple[str, Tensor]] = []

    def walk(name: str, whole: Tensor, blank: Tensor) -> Tensor:
        points.append(_along(shares_K, name, whole, blank).requires_grad_())
        steps.append((name, whole - blank))
        return points[-1]

    copies = len(shares_K)
    with reading.deriving(), reading.embedding_as(walk):
        values_KT = reading.values(copies)
        rows: dict[str, list[Tensor]] = {name: [] for name in reading.inputs}
        for values_K in values_KT.unbind(dim=1):
            gradients = torch.autograd.grad(values_K.sum(), points, retain_graph=True, allow_unused=True)
            sums = {name: values_KT.new_zeros(copies, len(reading.inputs[name])) for name in rows}
            for (name, step), gradient in zip(steps, gradients, strict=True):
                if gradient is not None:
                    sums[name] += (gradient * step).sum(dim=1).unflatten(0, (copies, -1)).to(values_KT.dtype)
            for name, own in rows.items():
                own.append(sums[name])
        return {name: torch.stack(own, dim=1).detach() for name, own in rows.items()}


def _erase(reading: Reading) -> _Parts:
    """Replace one token after the other by one that says nothing."""
    places = [(name, place) for name, sequence in reading.inputs.items() for place in range(len(sequence))]
    with reading.computing():
        (whole_T,) = reading.values()
    found: list[Tensor] = []
    for some in chunks_of(reading, len(places)):
        erased = [places[number] for number in some]

        def erase(name: str, whole: Tensor, blank: Tensor, erased: list[tuple[str, int]] = erased) -> Tensor:
            read = whole.unflatten(0, (len(erased), -1)).clone()
            silent = blank.unflatten(0, (len(erased), -1))
            for copy, (of, place) in enumerate(erased):
                if of == name:
                    read[copy, place] = silent[copy, place]
            return read.flatten(0, 1)

        with reading.computing(), reading.embedding_as(erase):
            found += whole_T - reading.values(len(erased))
    lengths = [len(sequence) for sequence in reading.inputs.values()]
    return dict(zip(reading.inputs, torch.stack(found, dim=1).split(lengths, dim=1), strict=True))
