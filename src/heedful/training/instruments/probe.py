"""What a fixed probe batch shows of a network: the entropy of each attention head.

Shape letters of this file: Q  queries
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.data.epochs.loader import RowFeed, TrainingFeed
from heedful.data.epochs.redrawn import RedrawnFeed
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.recurrent.attention import AttendedMemory, RecurrentAttention
from heedful.training.instruments.parts import layer_of
from heedful.training.objectives import Objective, StatefulObjective

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


def attention_entropies(
    model: nn.Module, objective: Objective[Any], batch: Any, device: torch.device
) -> list[HeadEntropies]:
    """Return the entropies of all heads, averaged over the queries of a batch; none if the network has no attention.

    The batch is on the device: to copy it there each time would wait for all that the device still has to do.
    The network runs without dropout, and leaves no trace: neither random generators nor objectives change.
    """
    sums: dict[tuple[str, str], _Sums] = {}
    training = model.training
    carried = dict(objective.state_dict()) if isinstance(objective, StatefulObjective) else {}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad():
        try:
            model.eval()
            with _watching(model, sums):
                objective(model, batch)
        finally:
            model.train(training)
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
