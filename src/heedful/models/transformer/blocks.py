"""One layer of an encoder and of a decoder."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.models.transformer.slots import Slots
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.convolutions.centred import Convolution, SeparableConvolution
from heedful.nn.layers.dropout import LayerDrop
from heedful.nn.layers.residual import Residual

# The cache of keys and values [2, B, H, S, D]; which of its places each row descends from, [B, 1, K, S], None if all;
# and the position in the cache where each sentence starts, [B], None if all start at the first.
Past = tuple[Tensor, Tensor | None, Tensor | None]
# Keys and values [2, B, H, L, D]; which places are not padding, [B, 1, 1, L], None if all.
Memory = tuple[Tensor, Tensor | None]


class EncoderBlock(nn.Module):
    """Self-attention, then a position-wise network, each inside a residual      Vaswani et al. 2017, 3.1

    A convolution may be in the place of attention.
    """

    def __init__(
        self,
        attention: SelfAttention | Convolution | SeparableConvolution,
        network: nn.Module,
        residuals: tuple[Residual, Residual],
        dropout_layers: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.network, self.drop = attention, network, LayerDrop(dropout_layers)
        self.around_attention, self.around_network = residuals

    def forward(self, x: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Transform all tokens."""
        y = self.around_attention(x, lambda h: self.attention(h, layout))
        return self.drop(x, self.around_network(y, self.network))


class DecoderBlock(nn.Module):
    """Causal self-attention, attention over the memory, then a position-wise network, each inside a residual.

    Without `cross` there is no memory, as in a language model      Radford et al. 2018, 3.1
    """

    def __init__(
        self,
        attention: SelfAttention,
        cross: CrossAttention | None,
        network: nn.Module,
        residuals: Sequence[Residual],  # one per sublayer
        dropout_layers: float = 0.0,
    ) -> None:
        super().__init__()
        if len(residuals) != (2 if cross is None else 3):
            raise ValueError(f"a decoder block has {len(residuals)} residuals, but must have one per sublayer")
        self.attention, self.cross, self.network, self.drop = attention, cross, network, LayerDrop(dropout_layers)
        self.around_attention = residuals[0]
        self.around_cross = None if cross is None else residuals[1]
        self.around_network = residuals[-1]

    def forward(self, x: Float[Tensor, "N E"], layout: Layout, memory: Packed | None) -> Float[Tensor, "N E"]:
        """Transform all tokens of whole sentences."""
        y = self.around_attention(x, lambda h: self.attention(h, layout))
        return self.drop(x, self._over_memory(y, layout, memory))

    def read(
        self, x: Float[Tensor, "N E"], layout: Layout, memory: Packed | None
    ) -> tuple[Float[Tensor, "N E"], Float[Tensor, "2 N H D"]]:
        """Transform all tokens of whole sentences; also return their keys and values, for a cache."""
        read: list[Tensor] = []

        def attend(h: Tensor) -> Tensor:
            y, keys, values = self.attention.read(h, layout)
            read.append(torch.stack([keys, values]))
            return y

        x = self.around_attention(x, attend)
        return self._over_memory(x, layout, memory), read[0]

    def _over_memory(self, x: Float[Tensor, "N E"], layout: Layout, memory: Packed | None) -> Float[Tensor, "N E"]:
        def attend(cross: CrossAttention, h: Tensor) -> Tensor:
            assert memory is not None, "the decoder refuses to start without it"
            attended: Tensor = cross(h, layout, memory.values, memory.layout)
            return attended

        return self._finish(x, attend)

    def _finish(
        self, x: Float[Tensor, "N E"], attend: Callable[[CrossAttention, Tensor], Tensor]
    ) -> Float[Tensor, "N E"]:
        """Attend to the memory, if there is one, and apply the network."""
        if self.cross is not None and self.around_cross is not None:
            cross = self.cross
            x = self.around_cross(x, lambda h: attend(cross, h))
        return self.around_network(x, self.network)

    def step(self, x: Float[Tensor, "R E"], past: Past, memory: Memory | None) -> Float[Tensor, "R E"]:
        """Transform one new token per row; its keys and values go to the last places of the cache."""
        x = self.around_attention(x, lambda h: self.attention.step(h, *past))
        return self._finish(x, lambda cross, h: cross.step(h, *_known(memory)))

    def step_aligned(
        self, x: Float[Tensor, "R E"], past: Past, memory: Memory
    ) -> tuple[Float[Tensor, "R E"], Float[Tensor, "R L"]]:
        """Do the same, and return the weights over the memory, mean over heads."""
        assert self.cross is not None, "the decoder refuses to align without a memory"
        assert self.around_cross is not None
        x = self.around_attention(x, lambda h: self.attention.step(h, *past))
        weights_RL = self.cross.step_weights(self.around_cross.before(x), *memory)
        return self._finish(x, lambda cross, h: cross.step(h, *memory)), weights_RL

    @property
    def in_slots(self) -> bool:
        """Whether `step_slots` can do what `step` does."""
        return self.attention.in_slots and (self.cross is None or self.cross.in_slots)

    def step_slots(self, x: Float[Tensor, "R E"], slots: Slots, layer: int) -> Float[Tensor, "R E"]:
        """Transform one new token per row in slots; `layer` is the index of the block in its decoder."""
        past = slots.cache[layer], slots.ancestors_SKP, slots.positions_S
        memory = slots.memory[layer], slots.starts_S, slots.lengths_S
        x = self.around_attention(x, lambda h: self.attention.step_slots(h, *past))
        return self._finish(x, lambda cross, h: cross.step_slots(h, *memory))


def _known(memory: Memory | None) -> Memory:
    assert memory is not None, "the decoder refuses to start without it"
    return memory
