"""One layer of an encoder and of a decoder."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.models.transformer.slots import Slots
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.residual import Residual
from heedful.packed import Layout, Packed


class EncoderBlock(nn.Module):
    """Self-attention, then a position-wise network, each inside a residual      Vaswani et al. 2017, 3.1"""

    def __init__(self, attention: SelfAttention, network: nn.Module, residuals: tuple[Residual, Residual]) -> None:
        super().__init__()
        self.attention, self.network = attention, network
        self.around_attention, self.around_network = residuals

    def forward(self, x: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Transform all tokens."""
        x = self.around_attention(x, lambda h: self.attention(h, layout))
        return self.around_network(x, self.network)


class DecoderBlock(nn.Module):
    """Causal self-attention, attention over the memory, then a position-wise network, each inside a residual."""

    def __init__(
        self,
        attention: SelfAttention,
        cross: CrossAttention,
        network: nn.Module,
        residuals: tuple[Residual, Residual, Residual],
    ) -> None:
        super().__init__()
        self.attention, self.cross, self.network = attention, cross, network
        self.around_attention, self.around_cross, self.around_network = residuals

    def forward(self, x: Float[Tensor, "N E"], layout: Layout, memory: Packed) -> Float[Tensor, "N E"]:
        """Transform all tokens of whole sentences."""
        x = self.around_attention(x, lambda h: self.attention(h, layout))
        x = self.around_cross(x, lambda h: self.cross(h, layout, memory.values, memory.layout))
        return self.around_network(x, self.network)

    def step(
        self,
        x: Float[Tensor, "R E"],
        cache: Float[Tensor, "2 B H S D"],
        descent: Bool[Tensor, "B 1 K S"] | None,
        memory: Float[Tensor, "2 B H L D"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "R E"]:
        """Transform one new token a row; its keys and values go to the cache's last places."""
        x = self.around_attention(x, lambda h: self.attention.step(h, cache, descent))
        x = self.around_cross(x, lambda h: self.cross.step(h, memory, keep))
        return self.around_network(x, self.network)

    @property
    def in_slots(self) -> bool:
        """Whether `step_slots` can do what `step` does."""
        return self.attention.in_slots and self.cross.in_slots

    def step_slots(self, x: Float[Tensor, "R E"], slots: Slots, layer: int) -> Float[Tensor, "R E"]:
        """The same in slots; the block is number `layer` of its decoder."""
        past = slots.cache[layer], slots.ancestors_SKP, slots.positions_S
        memory = slots.memory[layer], slots.starts_S, slots.lengths_S
        x = self.around_attention(x, lambda h: self.attention.step_slots(h, *past))
        x = self.around_cross(x, lambda h: self.cross.step_slots(h, *memory))
        return self.around_network(x, self.network)

    def step_aligned(
        self,
        x: Float[Tensor, "R E"],
        cache: Float[Tensor, "2 B H S D"],
        descent: Bool[Tensor, "B 1 K S"] | None,
        memory: Float[Tensor, "2 B H L D"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> tuple[Float[Tensor, "R E"], Float[Tensor, "R L"]]:
        """The same, and the weights over the memory, mean over heads."""
        x = self.around_attention(x, lambda h: self.attention.step(h, cache, descent))
        weights_RL = self.cross.step_weights(self.around_cross.before(x), memory, keep)
        x = self.around_cross(x, lambda h: self.cross.step(h, memory, keep))
        return self.around_network(x, self.network), weights_RL
