"""The weights of a network by layer and kind: what instruments measure, and what messages name.

One matrix may hold several kinds: attention projects queries, keys and values by the rows of one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from torch import Tensor, nn

from heedful.nn.alignments.base import Alignment
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.feedforward import FeedForward, SwiGLU

_NUMBERED: Final = ("blocks", "layers")  # lists of layers
_SILENT: Final = ("pooled", "wiring", "stack", "network")  # names that say nothing about where a layer is

Rows = tuple[int, int]


@dataclass(frozen=True, eq=False)
class WeightPart:
    """The weights of one kind in one layer: some rows of parameters."""

    layer: str
    kind: str
    slices: tuple[tuple[nn.Parameter, Rows | None], ...]

    @cached_property
    def size(self) -> int:
        """The number of weights."""
        return sum(weight.numel() for weight in self.weights())

    def weights(self) -> list[Tensor]:
        """Return views of the weights, without gradients."""
        return [take_rows(parameter.detach(), rows) for parameter, rows in self.slices]

    def gradients(self) -> list[Tensor | None]:
        """Return views of the gradients; None where there is none."""
        return [None if p.grad is None else take_rows(p.grad, rows) for p, rows in self.slices]

    def __str__(self) -> str:
        return f"{self.layer} ({self.kind})"


def weight_parts(model: nn.Module) -> list[WeightPart]:
    """Return the weights of a network that are trained, by layer and kind, in the order of its parameters."""
    known = {id(parameter): kinds for module in model.modules() for parameter, kinds in _kinds_in(module)}
    found: dict[tuple[str, str], list[tuple[nn.Parameter, Rows | None]]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            for kind, rows in known.get(id(parameter)) or [(_kind_by_name(name, parameter), None)]:
                found.setdefault((layer_of(name), kind), []).append((parameter, rows))
    return [WeightPart(layer, kind, tuple(slices)) for (layer, kind), slices in found.items()]


def layer_of(name: str) -> str:
    """Return the layer of a parameter or a module: "encoder.0" for encoder.blocks.0.network, "encoder" for its
    embedding, and the first part of the name where it has no more."""
    words = name.split(".")
    for place in range(len(words) - 1):
        if words[place] in _NUMBERED and words[place + 1].isdigit():
            return ".".join([*_telling(words[:place]), words[place + 1]])
    telling = _telling(words)
    return telling[0] if telling else words[0]


def _telling(words: list[str]) -> list[str]:
    """Leave out words that say nothing, and repeated ones."""
    kept = [word for word in words if word not in _SILENT]
    return [word for place, word in enumerate(kept) if place == 0 or kept[place - 1] != word]


def _kinds_in(module: nn.Module) -> Iterator[tuple[Tensor, list[tuple[str, Rows | None]]]]:
    """Yield the parameters of a module whose kinds follow from what it is."""
    match module:
        case SelfAttention():
            yield module.project.weight, _by_rows(("query", "key", "value"), module.rows)
            yield module.output.weight, [("output", None)]
        case CrossAttention():
            yield module.project_query.weight, [("cross query", None)]
            yield module.project_memory.weight, _by_rows(("cross key", "cross value"), module.rows)
            yield module.output.weight, [("cross output", None)]
        case FeedForward() | SwiGLU():
            yield module.into.weight, [("inner", None)]
            yield module.out.weight, [("outer", None)]
        case nn.RNNBase():
            for name, parameter in module.named_parameters(recurse=False):
                if name.startswith("weight"):
                    yield parameter, [("input" if name.startswith("weight_ih") else "recurrent", None)]
        case Alignment():
            for parameter in module.parameters():
                yield parameter, [("alignment", None)]
        case nn.LayerNorm() | nn.RMSNorm():
            for parameter in module.parameters():
                yield parameter, [("norm", None)]


def _by_rows(kinds: tuple[str, ...], counts: tuple[int, ...]) -> list[tuple[str, Rows | None]]:
    ends = [sum(counts[: place + 1]) for place in range(len(counts))]
    return [(kind, (end - count, end)) for kind, count, end in zip(kinds, counts, ends, strict=True)]


def _kind_by_name(name: str, parameter: nn.Parameter) -> str:
    words = name.split(".")
    if words[-1].startswith("bias"):
        return "bias"
    if "positions" in words:
        return "positions"
    if "embedding" in words:
        return "embedding"
    if words[-2:] == ["output", "weight"] and parameter.ndim == 2:
        return "logits"
    return "other"


def take_rows(tensor: Tensor, rows: Rows | None) -> Tensor:
    """Return some rows as a view, or all."""
    return tensor if rows is None else tensor[rows[0] : rows[1]]
