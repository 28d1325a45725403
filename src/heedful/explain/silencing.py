"""What if a head said nothing: its output is zero while a block runs."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from heedful.base.errors import UserError, counted
from heedful.explain.capture import kind_of
from heedful.explain.explanation import AttentionKind
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention

Head = tuple[AttentionKind, int, int]  # kind, layer and head, both counted from 0
_MultiHead = SelfAttention | CrossAttention


@contextmanager
def silence_heads(network: nn.Module, heads: Sequence[Head]) -> Iterator[None]:
    """Let heads contribute nothing inside the block: as if their columns of the output projection were zero."""
    with ExitStack() as stack:
        for head in heads:
            stack.callback(_silence(find_head(network, head), head[2]).remove)
        yield


def find_head(network: nn.Module, head: Head) -> _MultiHead:
    """Return the attention of a head; refuse one that the network does not have."""
    kind, layer, number = head
    known = [(kind_of(name, one), one) for name, one in network.named_modules() if isinstance(one, _MultiHead)]
    layers = [one for of_kind, one in known if of_kind == kind]
    if not 0 <= layer < len(layers) or not 0 <= number < layers[layer].heads:
        others = ", ".join(f"`{one}`" for one in dict.fromkeys(of_kind for of_kind, _ in known))
        has = (
            f"{counted(len(layers), 'layer')} of {counted(layers[0].heads, 'head')}"
            if layers
            else "no heads of this kind" + (f", but has heads of {others}" if others else "")
        )
        raise UserError(f"There is no head {number + 1} in layer {layer + 1} of `{kind}`: the model has {has}.")
    return layers[layer]


def _silence(attention: _MultiHead, head: int) -> Any:
    def without(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        values = inputs[0].unflatten(-1, (attention.heads, -1)).clone()
        values[..., head, :] = 0
        return (values.flatten(-2),)

    return attention.output.register_forward_pre_hook(without)
