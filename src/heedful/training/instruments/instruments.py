"""The instruments of a run: what they measure, when, and the record that is made of it.

A measurement only reads: a run has the same weights with instruments and without them. It is made around an update
however that is computed, as the weights and the summed gradients of every computation are those of the parameters.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.config.train.instruments import Instruments as Table
from heedful.data.epochs.loader import TrainingFeed
from heedful.nn.recurrent.gradient_norms import gradients_by_distance
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.training.instruments.parts import layer_of, weight_parts
from heedful.training.instruments.probe import HeadEntropies, attention_entropies, probe_batch
from heedful.training.instruments.steps import (
    BINS,
    LOWEST,
    PER_DECADE,
    StepMeter,
    StepNorms,
)
from heedful.training.objectives import Objective

# --- how far back a recurrent network learns from, at the weights of a moment: the gradient norm by distance ----------


_ROWS, _STEPS, _SEED = 8, 64, 1
DISTANCES: Final = (0, 1, 2, 4, 8, 16, 32, 63)


@dataclass(frozen=True, eq=False)
class DistanceNorms:
    """Norms of the gradient by inputs at `DISTANCES` from the loss, relative to that of the last input."""

    layer: str
    norms: Float[Tensor, "D"]


def gradient_distances(model: nn.Module) -> list[DistanceNorms]:
    """Return the norms of every recurrent stack of a network, over random inputs that are always the same.

    It is the arithmetic of `heedful gradients`, with the weights that the network has now and without dropout. No
    gradients are left in the parameters.
    """
    found = []
    for name, stack in model.named_modules():
        if isinstance(stack, RecurrentStack):
            norms = _norms(stack)
            found.append(DistanceNorms(layer_of(name), norms[list(DISTANCES)] / norms[0]))
    return found


def _norms(stack: RecurrentStack) -> Tensor:
    weight = next(stack.parameters())
    width, training = cast(nn.RNNBase, stack.layers[0]).input_size, stack.training
    cuda = [weight.device] if weight.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.enable_grad():
        torch.manual_seed(_SEED)
        inputs = torch.randn(_ROWS, _STEPS, width).to(weight)
        try:
            stack.eval()
            return gradients_by_distance(stack, inputs)
        finally:
            stack.train(training)


# --- the instruments of a run: what they measure, when, and the record that is made of it -----------------------------


VERSION: Final = 1  # of the records
Record = Mapping[str, Any]


class Instruments:
    """Measures chosen updates of a model, and passes on a record of each."""

    def __init__(
        self,
        table: Table,
        model: nn.Module,
        objective: Objective[Any],
        feed: TrainingFeed[Any],
        device: torch.device,
        record: Callable[[Record], None],
    ) -> None:
        self._table, self._model, self._objective, self._device, self._record = table, model, objective, device, record
        self._parts = weight_parts(model)
        self._at = frozenset(table.at)
        self._meter = StepMeter(self._parts)
        self._probe = probe_batch(feed).to(device) if table.probe else None

    def due(self, step: int) -> bool:
        """Whether the update with this number is measured; the first one has the number 1."""
        return step % self._table.every == 0 or step in self._at

    def around(self, step: int, units: int, rate: float, update: Callable[[], Tensor]) -> Tensor:
        """Make an update, measured if it is due, from gradients that were summed over `units`; return what it does."""
        if not self.due(step) or not self._parts:
            return update()
        before = self._meter.before(units)
        norm = update()
        after = self._meter.after(before)
        heads: Sequence[HeadEntropies] = ()
        distances: Sequence[DistanceNorms] = ()
        if self._probe is not None:
            heads = attention_entropies(self._model, self._objective, self._probe, self._device)
            distances = gradient_distances(self._model)
        counts = [self._meter.histograms(before.negative)] if self._table.histograms else []
        measured = self._read(after, counts, heads, distances)
        self._record({"version": VERSION, "step": step, "learning_rate": rate, **measured})
        return norm

    def _read(
        self,
        after: StepNorms,
        counts: Sequence[Tensor],
        heads: Sequence[HeadEntropies],
        distances: Sequence[DistanceNorms],
    ) -> dict[str, Any]:
        """Read a measurement from the device."""
        norms = [after.weight_P, after.gradient_P, after.update_P]
        entropies = [torch.cat([head.entropy_H, head.uniform.reshape(1)]) for head in heads]
        values = iter(_to_host([*norms, *counts, *entropies, *(one.norms for one in distances)]))
        weight, gradient, update = (next(values) for _ in norms)
        binned = next(values) if counts else []
        weights = []
        for place, part in enumerate(self._parts):
            row: dict[str, Any] = {
                "layer": part.layer,
                "kind": part.kind,
                "size": part.size,
                "weight": _finite(weight[place]),
                "gradient": _finite(gradient[place]),
                "update": _finite(update[place]),
                "update_to_weight": _ratio(update[place], weight[place]),
                "gradient_to_weight": _ratio(gradient[place], weight[place]),
            }
            if counts:
                row["histogram"] = _sparse([int(n) for n in binned[place * BINS : (place + 1) * BINS]], part.size)
            weights.append(row)
        attention = []
        for head in heads:
            *entropy, uniform = map(_finite, next(values))
            attention.append({"layer": head.layer, "kind": head.kind, "entropy": entropy, "uniform": uniform})
        far = [
            {"layer": one.layer, "distance": list(DISTANCES), "gradient": [_finite(norm) for norm in next(values)]}
            for one in distances
        ]
        return {"weights": weights, "attention": attention, "distances": far}


def _to_host(tensors: Sequence[Tensor]) -> list[list[float]]:
    """Return the values of tensors, which are read together."""
    flat: list[float] = torch.cat([tensor.detach().double().flatten() for tensor in tensors]).tolist()
    ends = list(accumulate(tensor.numel() for tensor in tensors))
    return [flat[end - tensor.numel() : end] for tensor, end in zip(tensors, ends, strict=True)]


def _finite(value: float) -> float | None:
    """Return a number with six digits; None for one that JSON cannot hold."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _ratio(above: float, below: float) -> float | None:
    return _finite(above / below) if below else None


def _sparse(counts: list[int], size: int) -> dict[str, Any]:
    """Return the bins from the first to the last one that is not empty, and the number of zeros."""
    used = [place for place, count in enumerate(counts) if count]
    first, last = (used[0], used[-1]) if used else (0, -1)
    return {"zeros": size - sum(counts), "from": LOWEST + first / PER_DECADE, "counts": counts[first : last + 1]}
