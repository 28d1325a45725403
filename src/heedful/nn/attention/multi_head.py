"""Multi-head attention over packed sentences, and single decoding steps over cached keys.

MultiHead(Q, K, V) = Concat(head_1 .. head_H) W_O,  head_i = attend(Q W_i^Q, K W_i^K, V W_i^V)
                                                                                    Vaswani et al. 2017, 3.2.2

Shape letter of this file: W  width of a memory
"""

import math
from typing import TypedDict, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.nn.attention.backends import Backend, attention_weights, automatic, explicit
from heedful.nn.attention.heads import head_split
from heedful.nn.attention.relative_positions import PositionScheme
from heedful.nn.decoding.step_attention import attend_memory, attend_past
from heedful.nn.layers.linear import Linear
from heedful.nn.padding import pad
from heedful.packed import Layout


class Projections(TypedDict, total=False):
    """The options of attention's linear maps."""

    key_value_heads: int | None  # by default, as many as heads
    bias: bool


class SelfAttention(nn.Module):
    """Q = K = V = x; one matrix projects all three. `causal`: a token sees itself and the tokens before it.

    `positions` is the position scheme, for models whose embeddings do not contain positions.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        causal: bool = False,
        dropout: float = 0.0,
        backend: Backend = automatic,
        positions: PositionScheme | None = None,
        **projections: Unpack[Projections],
    ) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout, self.backend = heads, causal, dropout, backend
        self.positions = positions or PositionScheme()
        self.split = head_split(heads, projections.get("key_value_heads"))
        self.rows = self.split.rows(width)  # of the matrix that projects all three
        bias = projections.get("bias", True)
        self.project = Linear(width, sum(self.rows), bias)
        self.output = Linear(width, width, bias)

    @property
    def in_slots(self) -> bool:
        """Whether a step in slots computes the same: its kernels are fused, with positions in queries and keys only."""
        return self.backend is not explicit and self.positions.in_slots

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Attend from all tokens of each sentence at once."""
        return self.read(x_NE, layout)[0]

    def read(
        self, x_NE: Float[Tensor, "N E"], layout: Layout
    ) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N H D"], Float[Tensor, "N H D"]]:
        """Attend from all tokens of each sentence at once; also return their keys and values, for a cache."""
        q, k, v = self._heads(x_NE, layout.positions, layout.bound)
        return self.output(self._attend(q, k, v, layout).flatten(1)), k, v

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B H L L"]:
        """Return the weights of `forward`, which its kernels do not return; rows of padding are arbitrary."""
        return self._weights(*self._heads(x_NE, layout.positions, layout.bound), layout)

    def step(
        self,
        x_RE: Float[Tensor, "R E"],
        cache_2BHSD: Float[Tensor, "2 B H S D"],
        keep: Bool[Tensor, "B 1 K S"] | None,
        starts_B: Int[Tensor, "B"] | None = None,
    ) -> Float[Tensor, "R E"]:
        """Attend from one new token per row over the cached tokens and itself, and write it to the end of the cache.

        The K rows of a sentence share its cache, with K entries per position; `keep` marks those that a row descends
        from. `starts` is the position in the cache where each sentence starts, None if all start at the first.
        """
        sentences, places = cache_2BHSD.shape[1], cache_2BHSD.shape[3]
        beams = x_RE.shape[0] // sentences
        count = places // beams  # positions, including the new one
        positions_R = torch.full((x_RE.shape[0],), count - 1, device=x_RE.device)
        if starts_B is not None:
            positions_R = positions_R - starts_B.repeat_interleave(beams, output_size=x_RE.shape[0])
        q_BHKD, k_BHKD, v_BHKD = (
            heads.unflatten(0, (sentences, beams)).transpose(1, 2) for heads in self._heads(x_RE, positions_R, count)
        )
        cache_2BHSD[0, :, :, -beams:] = k_BHKD
        cache_2BHSD[1, :, :, -beams:] = v_BHKD
        y_BHKD = self._attend_past(q_BHKD, cache_2BHSD, keep, starts_B)
        return self.output(y_BHKD.transpose(1, 2).flatten(2).flatten(0, 1))

    def step_slots(
        self,
        x_RE: Float[Tensor, "R E"],
        cache_2SPKHD: Float[Tensor, "2 S P K H D"],
        ancestors_SKP: Int[Tensor, "S K P"],
        positions_S: Int[Tensor, "S"],
    ) -> Float[Tensor, "R E"]:
        """Take a step on fixed buffers, with each slot at its own position: see `models.transformer.slots`."""
        beams, room = ancestors_SKP.shape[1:]
        q, k, v = self._heads(x_RE, positions_S.unsqueeze(1).expand(-1, beams), room)
        return self.output(attend_past(q, k, v, cache_2SPKHD, ancestors_SKP, positions_S).flatten(1))

    def _heads(
        self, x: Float[Tensor, "N E"], positions: Int[Tensor, "*rows"], bound: int
    ) -> tuple[Float[Tensor, "N H D"], Float[Tensor, "N H D"], Float[Tensor, "N H D"]]:
        q, k, v = self.split.split_all(self.project(x))
        return *self.positions.encode(q, k, positions, bound), v

    def _attend(
        self,
        q_NHD: Float[Tensor, "N H D"],
        k_NHD: Float[Tensor, "N H D"],
        v_NHD: Float[Tensor, "N H D"],
        layout: Layout,
    ) -> Float[Tensor, "N H D"]:
        dropout = self.dropout if self.training else 0.0
        return self.positions.attend(self.backend, q_NHD, k_NHD, v_NHD, layout, self.causal, dropout)

    def _weights(
        self,
        q_NHD: Float[Tensor, "N H D"],
        k_NHD: Float[Tensor, "N H D"],
        v_NHD: Float[Tensor, "N H D"],
        layout: Layout,
    ) -> Float[Tensor, "B H L L"]:
        bias_BHLL = self.positions.bias(pad(q_NHD, layout).transpose(1, 2), layout.bound)
        return attention_weights(q_NHD, k_NHD, layout, layout, self.causal, bias_BHLL)

    def _attend_past(
        self,
        q_BHKD: Float[Tensor, "B H K D"],
        cache_2BHSD: Float[Tensor, "2 B H S D"],
        keep: Bool[Tensor, "B 1 K S"] | None,
        starts_B: Int[Tensor, "B"] | None,
    ) -> Float[Tensor, "B H K D"]:
        keys, values = cache_2BHSD
        return self.positions.attend_past(q_BHKD, keys, values, keep)


class CrossAttention(nn.Module):
    """Q = x; K = V = the memory of another sequence; one matrix projects both keys and values."""

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        memory_width: int | None = None,
        backend: Backend = automatic,
        **projections: Unpack[Projections],
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.backend = heads, dropout, backend
        self.split = head_split(heads, projections.get("key_value_heads"))
        self.rows = self.split.rows(width)[1:]  # of the matrix that projects keys and values
        bias = projections.get("bias", True)
        self.project_query = Linear(width, width, bias)
        self.project_memory = Linear(memory_width or width, sum(self.rows), bias)
        self.output = Linear(width, width, bias)

    @property
    def in_slots(self) -> bool:
        """Whether a step in slots computes the same: its kernels are fused."""
        return self.backend is not explicit

    def forward(
        self, x_NE: Float[Tensor, "N E"], layout: Layout, memory_MW: Float[Tensor, "M W"], memory_layout: Layout
    ) -> Float[Tensor, "N E"]:
        """Attend from all tokens of each sentence over the memory of that sentence."""
        q = self.project_query(x_NE).unflatten(1, (self.heads, -1))
        k, v = self.keys_and_values(memory_MW)
        return self.output(self._attend(q, k, v, layout, memory_layout).flatten(1))

    def weights(
        self, x_NE: Float[Tensor, "N E"], layout: Layout, memory_MW: Float[Tensor, "M W"], memory_layout: Layout
    ) -> Float[Tensor, "B H Lq Lk"]:
        """Return the weights of `forward`, which its kernels do not return; rows of padding are arbitrary."""
        q = self.project_query(x_NE).unflatten(1, (self.heads, -1))
        k, v = self.keys_and_values(memory_MW)
        return self._weights(q, k, v, layout, memory_layout)

    def keys_and_values(self, memory_MW: Float[Tensor, "M W"]) -> tuple[Tensor, ...]:
        """Return the keys and values of the memory, [M, H, D] each."""
        return self.split.split_memory(self.project_memory(memory_MW))

    def step(
        self,
        x_RE: Float[Tensor, "R E"],
        memory_2BHLD: Float[Tensor, "2 B H L D"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "R E"]:
        """Attend from one new token per row. The K rows of a sentence are K queries over one copy of its memory."""
        y_BHKD = self._attend_memory(self._queries(x_RE, memory_2BHLD[0]), memory_2BHLD, keep)
        return self.output(y_BHKD.transpose(1, 2).flatten(2).flatten(0, 1))

    def step_slots(
        self,
        x_RE: Float[Tensor, "R E"],
        memory_M2HD: Float[Tensor, "M 2 H D"],
        starts_S: Int[Tensor, "S"],
        lengths_S: Int[Tensor, "S"],
    ) -> Float[Tensor, "R E"]:
        """Take a step over packed memories, one per slot: see `models.transformer.slots`."""
        q = self.project_query(x_RE).unflatten(1, (self.heads, -1))
        keys, values = memory_M2HD.unbind(1)
        return self.output(attend_memory(q, keys, values, starts_S, lengths_S).flatten(1))

    def step_weights(
        self,
        x_RE: Float[Tensor, "R E"],
        memory_2BHLD: Float[Tensor, "2 B H L D"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "R L"]:
        """Return the weights of `step`, which its kernel does not return: averaged over heads, 0 for padding."""
        keys = memory_2BHLD[0]
        scores_BHKL = self._queries(x_RE, keys) @ keys.transpose(2, 3) / math.sqrt(keys.shape[-1])
        scores_BHKL = scores_BHKL.to(torch.promote_types(scores_BHKL.dtype, torch.float32))
        if keep is not None:
            scores_BHKL = scores_BHKL.masked_fill(~keep, -math.inf)
        return scores_BHKL.softmax(-1).mean(1).flatten(0, 1)

    def _queries(self, x_RE: Float[Tensor, "R E"], keys: Float[Tensor, "B H L D"]) -> Float[Tensor, "B H K D"]:
        return self.project_query(x_RE).view(keys.shape[0], -1, self.heads, keys.shape[-1]).transpose(1, 2)

    def _attend(
        self,
        q_NHD: Float[Tensor, "N H D"],
        k_MHD: Float[Tensor, "M H D"],
        v_MHD: Float[Tensor, "M H D"],
        layout: Layout,
        memory_layout: Layout,
    ) -> Float[Tensor, "N H D"]:
        return self.backend(q_NHD, k_MHD, v_MHD, layout, memory_layout, False, self.dropout if self.training else 0.0)

    def _weights(
        self,
        q_NHD: Float[Tensor, "N H D"],
        k_MHD: Float[Tensor, "M H D"],
        v_MHD: Float[Tensor, "M H D"],
        layout: Layout,
        memory_layout: Layout,
    ) -> Float[Tensor, "B H Lq Lk"]:
        return attention_weights(q_NHD, k_MHD, layout, memory_layout, causal=False)

    def _attend_memory(
        self,
        q_BHKD: Float[Tensor, "B H K D"],
        memory_2BHLD: Float[Tensor, "2 B H L D"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "B H K D"]:
        keys, values = memory_2BHLD
        return F.scaled_dot_product_attention(q_BHKD, keys, values, attn_mask=keep)
