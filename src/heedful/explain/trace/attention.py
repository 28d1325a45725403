"""One head of attention, step by step, with the numbers of the model.

    q . k  ->  / sqrt(D)  ->  + bias  ->  mask  ->  softmax  ->  sum of weights times values

Steps that a head does not have are left out; other alignments have a score in the place of the first two.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.base.packed import Layout
from heedful.explain.capture import between_tokens, find_head
from heedful.explain.explanation import Array, AttentionKind, Explanation
from heedful.explain.recorded_states import hook_calls, hooked
from heedful.nn.alignments.base import Alignment
from heedful.nn.attention.any_alignment import AlignedCrossAttention, AlignedSelfAttention
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.attention.relative_positions import PositionScheme
from heedful.nn.evaluation_mode import by_equation, evaluation_mode
from heedful.nn.padding import pad, unpad
from heedful.nn.recurrent.attention import RecurrentAttention


@dataclass(frozen=True, eq=False)
class Step:
    """A number for each query and key: query x key; minus infinity where a query does not see a key."""

    name: str
    meaning: str
    values: Array


@dataclass(frozen=True, eq=False)
class AttentionTrace:
    """What a head computes for every query; layer and head are counted from 0."""

    kind: AttentionKind
    layer: int
    head: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    q: Array  # query x component
    k: Array  # key x component
    v: Array
    steps: tuple[Step, ...]
    output: Array  # query x component of a value

    @property
    def weights(self) -> Array:
        """The weights of the keys, the last step before the sum."""
        return self.steps[-1].values

    def to_json(self) -> dict[str, Any]:
        """Return everything as lists; null stands for minus infinity, which JSON does not have."""
        return {
            "kind": self.kind,
            "layer": self.layer + 1,
            "head": self.head + 1,
            "queries": self.queries,
            "keys": self.keys,
            "q": self.q.tolist(),
            "k": self.k.tolist(),
            "v": self.v.tolist(),
            "steps": [{"name": one.name, "meaning": one.meaning, "values": _finite(one.values)} for one in self.steps],
            "output": self.output.tolist(),
        }


def trace_attention(
    network: nn.Module, explain: Callable[[], Explanation], kind: AttentionKind, layer: int, head: int
) -> AttentionTrace:
    """Trace one head while `explain` runs the network on a text."""
    stepped = [one for one in network.modules() if isinstance(one, RecurrentAttention)]
    if kind == "cross" and stepped:
        return _trace_recurrent(stepped, explain, layer, head)
    module = find_head(network, (kind, layer, head))
    calls: list[Any] = []
    with hooked([hook_calls(module, lambda module, inputs, output: calls.append(inputs))]):
        found = explain()
    with torch.no_grad(), evaluation_mode(network), by_equation():
        steps, vectors, output = _of_head(module, calls[-1], head)
    named = found.attention(kind)
    queries, keys = (found.sequences[name].pieces for name in (named.queries, named.keys))
    q, k, v = map(_array, vectors)
    return AttentionTrace(kind, layer, head, queries, keys, q, k, v, tuple(steps), _array(output))


def _of_head(
    module: SelfAttention | CrossAttention, inputs: Any, head: int
) -> tuple[list[Step], tuple[Tensor, ...], Tensor]:
    """Return the steps of a call, the vectors of queries, keys and values, and what queries read."""
    if isinstance(module, SelfAttention):
        x, layout = inputs
        q, k, v = module.split.split_all(module.project(x))
        q, k = module.positions.encode(q, k, layout.positions, layout.bound)
        keys, scheme, causal, radius = layout, module.positions, module.causal, module.radius
    else:
        x, layout, memory, keys = inputs
        q = module.project_query(x).unflatten(1, (module.heads, -1))
        k, v = module.split.split_memory(module.project_memory(memory))
        scheme, causal, radius = PositionScheme(), False, None
    q_BHQD, k_BHLD, v_BHLU = (pad(some, of).transpose(1, 2) for some, of in ((q, layout), (k, keys), (v, keys)))
    scores = list(_scores(module, q_BHQD, k_BHLD, v_BHLU, keys))
    bias = scheme.bias(q_BHQD, keys.bound)
    if bias is not None:
        scores.append(("+ bias", "the positions of query and key", scores[-1][2] + bias))
    device = scores[-1][2].device
    distance_QL = torch.arange(keys.bound, device=device) - torch.arange(layout.bound, device=device).unsqueeze(1)
    hidden = distance_QL > 0 if causal else torch.zeros_like(distance_QL, dtype=torch.bool)
    hidden_QL = hidden if radius is None else hidden | (distance_QL.abs() > radius)
    if hidden_QL.any():
        masked = scores[-1][2].masked_fill(hidden_QL, -math.inf)
        scores.append(("mask", "keys that the query may not see", masked))
    weights = module.weights(*inputs)
    y_BHQU = scheme.read(weights @ v_BHLU, weights)
    steps = [
        Step(name, meaning, _array(between_tokens(values, layout, keys, -math.inf)[head]))
        for name, meaning, values in scores
    ]
    name, meaning = _distribution(module)
    steps.append(Step(name, meaning, _array(between_tokens(weights, layout, keys)[head])))
    output = unpad(y_BHQU.transpose(1, 2), layout)[:, head]
    return steps, (q[:, head], k[:, head], v[:, head]), output


def _scores(
    module: SelfAttention | CrossAttention, q_BHQD: Tensor, k_BHLD: Tensor, v_BHLU: Tensor, keys: Layout
) -> list[tuple[str, str, Tensor]]:
    if not isinstance(module, AlignedSelfAttention | AlignedCrossAttention):
        products, width = q_BHQD @ k_BHLD.mT, q_BHQD.shape[-1]
        return [
            ("q . k", "the products of components, added up", products),
            (f"/ sqrt({width})", "divided by the square root of the number of components", products / math.sqrt(width)),
        ]
    alignment = module.reading.alignment
    _refuse_spans(alignment)
    candidates = alignment.prepare(k_BHLD, v_BHLU, None if keys.even else keys.keep)
    return [("score", _first_line(alignment), alignment(q_BHQD, candidates))]


def _trace_recurrent(
    modules: list[RecurrentAttention], explain: Callable[[], Explanation], layer: int, head: int
) -> AttentionTrace:
    """Trace the attention of a recurrent decoder, which has one layer and one head: a call for each step."""
    if layer or head:
        raise UserError(
            f"There is no head {head + 1} in layer {layer + 1} of `cross`: the model has 1 layer of 1 head, as "
            "its decoder is recurrent."
        )
    (module,) = modules
    _refuse_spans(module.alignment)
    calls: list[tuple[Any, Any]] = []
    with hooked([hook_calls(module, lambda module, inputs, output: calls.append((inputs, output)))]):
        found = explain()
    named = found.attention("cross")
    pieces = found.sequences[named.queries].pieces, found.sequences[named.keys].pieces
    steps = calls[-len(pieces[0]) :]  # those before are of the search
    queries, scores, weights, read = [], [], [], []
    for (q_BQE, memory, _), (y_BQD, weights_BQC) in steps:
        queries.append(q_BQE[0])
        scores.append(module.alignment(q_BQE.unsqueeze(1), memory.candidates)[0, 0].detach())
        weights.append(weights_BQC[0].detach())
        read.append(y_BQD[0].detach())
    candidates = steps[-1][0][1].candidates
    made = (
        Step("score", _first_line(module.alignment), _array(torch.cat(scores))),
        Step(*_distribution(module), _array(torch.cat(weights))),
    )
    q, k, v = torch.cat(queries), candidates.keys[0, 0], candidates.values[0, 0]
    return AttentionTrace("cross", 0, 0, *pieces, _array(q), _array(k), _array(v), made, _array(torch.cat(read)))


def _refuse_spans(alignment: Alignment) -> None:
    if not alignment.one_to_one:
        raise UserError(
            f"The alignment of this model, {type(alignment).__name__}, scores spans of keys: only alignments that "
            "score single keys are traced."
        )


def _distribution(module: nn.Module) -> tuple[str, str]:
    """Return the name of what turns scores into weights, and its equation."""
    if isinstance(module, AlignedSelfAttention | AlignedCrossAttention):
        used: Any = module.reading.distribution
    else:
        used = getattr(module, "distribution", None)
    if used is None:
        return "softmax", "p = exp(x) / sum exp(x)"
    return getattr(used, "__name__", type(used).__name__), _first_line(used)


def _first_line(of: Any) -> str:
    """Return the equation in a docstring, without its paper."""
    return " ".join((inspect.getdoc(of) or "").splitlines()[0].split("      ")[0].split())


def _array(values: Tensor) -> Array:
    made: Array = values.detach().float().cpu().numpy()
    return made


def _finite(values: Array) -> list[list[float | None]]:
    return [[value if math.isfinite(value) else None for value in row] for row in values.tolist()]
