"""The instruments of a run: what they measure, when, and the record that is made of it.

A measurement only reads: a run has the same weights with instruments and without them. It is made around an update
however that is computed, as the weights and the summed gradients of every computation are those of the parameters.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Final, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.config.train.table import Instruments as Table
from heedful.data.epochs.bpe_dropout import RedrawnFeed
from heedful.data.epochs.loader import RowFeed, TrainingFeed
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.recurrent.attention import AttendedMemory, RecurrentAttention
from heedful.nn.recurrent.gradient_norms import gradients_by_distance
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.training.instruments.parts import layer_of, weight_parts
from heedful.training.instruments.steps import (
    BINS,
    LOWEST,
    PER_DECADE,
    StepMeter,
    StepNorms,
)
from heedful.training.objectives import Objective, StatefulObjective

# --- what a fixed probe batch shows of a network: the entropy of each attention head ----------------------------------
#
# Shape letters of this file: Q  queries


PROBE_ROWS: Final = 8  # sentences


@dataclass(frozen=True, eq=False)
class HeadEntropies:
    """The entropy of the weights of each head of one attention, in nats, and that of equal weights."""

    layer: str
    kind: str  # "self" or "cross"
    entropy_H: Float[Tensor, "H"]
    uniform: Float[Tensor, ""]


def probe_batch(feed: TrainingFeed[Any]) -> Any:
    """Return a small batch of the training data, always the same: some rows of the first micro-batch, if it has rows.

    Other feeds, such as those of running text, give a whole micro-batch.
    """
    plain = feed.placed(None, False)
    rows = plain.feed if isinstance(plain, RedrawnFeed) else plain
    planned = next(iter(rows.plan(0)))
    return rows.batch(planned[:PROBE_ROWS] if isinstance(rows, RowFeed) else planned)


@contextmanager
def _without_dropout(model: nn.Module) -> Iterator[None]:
    """Measure in evaluation mode inside the block, and continue as before: only training goes back to its mode."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def attention_entropies(
    model: nn.Module, objective: Objective[Any], batch: Any, device: torch.device
) -> list[HeadEntropies]:
    """Return the entropies of all heads, averaged over the queries of a batch; none if the network has no attention.

    The batch is on the device: to copy it there each time would wait for all that the device still has to do.
    The network runs without dropout, and leaves no trace: neither random generators nor objectives change.
    """
    sums: dict[tuple[str, str], _Sums] = {}
    carried = dict(objective.state_dict()) if isinstance(objective, StatefulObjective) else {}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad():
        try:
            with _without_dropout(model), _watching(model, sums):
                objective(model, batch)
        finally:
            if carried and isinstance(objective, StatefulObjective):
                objective.load_state_dict(carried)
    return [
        HeadEntropies(layer, kind, sum(s.entropies) / s.queries, sum(s.uniforms) / s.queries)
        for (layer, kind), s in sums.items()
    ]


@dataclass
class _Sums:
    """Sums over queries; those of a decoder that reads step by step are added up."""

    entropies: list[Tensor] = field(default_factory=list)
    uniforms: list[Tensor] = field(default_factory=list)
    queries: Any = 0  # a tensor

    def add(self, weights_BHQL: Float[Tensor, "B H Q L"], seen_BQL: Bool[Tensor, "B Q L"]) -> None:
        """Add the queries of a call: rows of `seen` without a key are not queries."""
        asked_BQ = seen_BQL.any(2)
        entropy_BHQ = entropy_of(weights_BHQL.float() * seen_BQL.unsqueeze(1))
        self.entropies.append((entropy_BHQ * asked_BQ.unsqueeze(1)).sum((0, 2)))
        self.uniforms.append(seen_BQL.sum(2).clamp(min=1).float().log().sum())
        self.queries = self.queries + asked_BQ.sum()


def entropy_of(weights: Float[Tensor, "*rows L"]) -> Float[Tensor, "*rows"]:
    """Return -sum p log p in nats, where p are the absolute weights divided by their sum; 0 for rows of zeros.

    Distributions other than a softmax may give weights that are negative, or do not sum to 1.
    """
    sizes = weights.abs()
    shares = sizes / sizes.sum(-1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)
    return -torch.special.xlogy(shares, shares).sum(-1)


@contextmanager
def _watching(model: nn.Module, sums: dict[tuple[str, str], _Sums]) -> Iterator[None]:
    """Observe the calls of all attention inside the block."""
    hooks, wrapped = [], []
    for name, module in model.named_modules():
        match module:
            case SelfAttention():
                own = sums.setdefault((layer_of(name), "self"), _Sums())
                hooks.append(module.register_forward_hook(partial(_after_self, own)))
            case CrossAttention():
                own = sums.setdefault((layer_of(name), "cross"), _Sums())
                hooks.append(module.register_forward_hook(partial(_after_cross, own)))
            case RecurrentAttention():
                own = sums.setdefault((layer_of(name), "cross"), _Sums())
                vars(module)["weigh"] = partial(_weigh, own, module, module.weigh)
                wrapped.append(module)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for module in wrapped:
            del vars(module)["weigh"]
    for key in [key for key, own in sums.items() if not own.entropies]:  # parts that this objective does not use
        del sums[key]


def _after_self(sums: _Sums, module: SelfAttention, inputs: tuple[Tensor, Layout], output: Tensor) -> None:
    x, layout = inputs
    keep_BL = layout.keep
    seen_BQL = keep_BL.unsqueeze(2) & keep_BL.unsqueeze(1)
    if module.causal:
        seen_BQL = seen_BQL.tril()
    if module.radius is not None:
        places = torch.arange(layout.bound, device=x.device)
        seen_BQL = seen_BQL & ((places - places.unsqueeze(1)).abs() <= module.radius)
    sums.add(module.weights(x, layout), seen_BQL)


def _after_cross(
    sums: _Sums, module: CrossAttention, inputs: tuple[Tensor, Layout, Tensor, Layout], output: Tensor
) -> None:
    _, layout, _, memory_layout = inputs
    sums.add(module.weights(*inputs), layout.keep.unsqueeze(2) & memory_layout.keep.unsqueeze(1))


def _weigh(
    sums: _Sums,
    module: RecurrentAttention,
    weigh: Callable[..., Tensor],
    scores_BQC: Tensor,
    q_BQE: Tensor,
    readable: AttendedMemory,
    positions_Q: Tensor,
) -> Tensor:
    """Weigh as the module does, and add what comes of it."""
    weights_BQC = weigh(scores_BQC, q_BQE, readable, positions_Q)
    weights_B1QL = module.alignment.position_weights(weights_BQC.unsqueeze(1), readable.places)
    keep_BL = torch.arange(readable.places, device=weights_B1QL.device) < readable.lengths_B.unsqueeze(1)
    sums.add(weights_B1QL, keep_BL.unsqueeze(1).expand(-1, weights_B1QL.shape[2], -1))
    return weights_BQC


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
        if not isinstance(stack, RecurrentStack):
            continue
        weight, width = next(stack.parameters()), cast(nn.RNNBase, stack.layers[0]).input_size
        cuda = [weight.device] if weight.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda), torch.enable_grad(), _without_dropout(stack):
            torch.manual_seed(_SEED)
            norms = gradients_by_distance(stack, torch.randn(_ROWS, _STEPS, width).to(weight))
        found.append(DistanceNorms(layer_of(name), norms[list(DISTANCES)] / norms[0]))
    return found


# --- the instruments --------------------------------------------------------------------------------------------------


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
