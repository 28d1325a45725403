"""Multi-head attention over packed sentences, and single decoding steps over cached keys.

MultiHead(Q, K, V) = Concat(head_1 .. head_H) W_O,  head_i = attend(Q W_i^Q, K W_i^K, V W_i^V)
                                                                                    Vaswani et al. 2017, 3.2.2

Shape letters of this file: W  width of a memory    U  width of a head's values, by default D
                            C  width of a cached key or value, the greater of D and U
"""

import math
from dataclasses import replace
from typing import TypedDict, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.attention.backends import Backend, PackedHeads, PaddedHeads, attention_weights, automatic, explicit
from heedful.nn.attention.heads import Heads, narrow
from heedful.nn.attention.relative_positions import PositionScheme
from heedful.nn.attention.restricted import Restricted
from heedful.nn.decoding.step_attention import attend_memory, attend_past
from heedful.nn.evaluation_mode import computes_by_equation
from heedful.nn.layers.linear import Linear
from heedful.nn.padding import pad


class Projections(TypedDict, total=False):
    """The options of attention's linear maps."""

    key_value_heads: int | None  # by default, as many as heads
    key_width: int | None  # of a head's queries and keys; by default an even share of the width
    value_width: int | None  # of a head's values
    bias: bool
    projection_bias: bool | None  # of queries, keys and values; by default `bias`


def heads_of(width: int, heads: int, options: Projections) -> Heads:
    """Return the heads of these options."""
    widths = options.get("key_width"), options.get("value_width")
    return Heads.of(width, heads, options.get("key_value_heads"), *widths)


def biases_of(options: Projections) -> tuple[bool, bool]:
    """Return whether the maps to queries, keys and values have biases, and whether the output's map has one."""
    bias, projected = options.get("bias", True), options.get("projection_bias")
    return bias if projected is None else projected, bias


class WithBackend(nn.Module):
    """A module that attends with a backend: the explicit one where its thread computes by equations."""

    _backend: Backend

    @property
    def backend(self) -> Backend:
        """The backend of this thread's calls."""
        if not computes_by_equation():
            return self._backend
        # Within a radius, the equation has it too.
        return replace(self._backend, as_written=True) if isinstance(self._backend, Restricted) else explicit

    @backend.setter
    def backend(self, backend: Backend) -> None:
        self._backend = backend


class SelfAttention(WithBackend):
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
        self.radius = backend.radius if isinstance(backend, Restricted) else None
        self.shape = heads_of(width, heads, projections)
        self.split = self.shape.split()
        self.rows = self.shape.rows  # of the matrix that projects all three
        projected, bias = biases_of(projections)
        self.project = Linear(width, sum(self.rows), projected)
        self.output = Linear(self.shape.outputs, width, bias)

    @property
    def counts_places(self) -> bool:
        """Whether it counts keys from the start of the cache, so that all sentences must begin there."""
        return False

    @property
    def in_slots(self) -> bool:
        """Whether a step in slots computes the same: its kernels are fused, with positions in queries and keys only."""
        written = self.backend is explicit or (isinstance(self.backend, Restricted) and self.backend.as_written)
        return not written and self.positions.in_slots

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Attend from all tokens of each sentence at once."""
        return self.read(x_NE, layout)[0]

    def read(
        self, x_NE: Float[Tensor, "N E"], layout: Layout
    ) -> tuple[Float[Tensor, "N E"], Float[Tensor, "N H C"], Float[Tensor, "N H C"]]:
        """Attend from all tokens of each sentence at once; also return their keys and values, for a cache."""
        q, k, v = self._heads(x_NE, layout.positions, layout.bound)
        keys, values = self.shape.cached(k, v)
        return self.output(self._attend(PackedHeads(q, k, v, layout, layout)).flatten(1)), keys, values

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B H L L"]:
        """Return the weights of `forward`, which its kernels do not return; rows of padding are arbitrary."""
        return self._weights(PackedHeads(*self._heads(x_NE, layout.positions, layout.bound), layout, layout))

    def step(
        self,
        x_RE: Float[Tensor, "R E"],
        cache_2BHSC: Float[Tensor, "2 B H S C"],
        keep: Bool[Tensor, "B 1 K S"] | None,
        starts_B: Int[Tensor, "B"] | None = None,
    ) -> Float[Tensor, "R E"]:
        """Attend from one new token per row over the cached tokens and itself, and write it to the end of the cache.

        The K rows of a sentence share its cache, with K entries per position; `keep` marks those that a row descends
        from. `starts` is the position in the cache where each sentence starts, None if all start at the first.
        """
        sentences, places = cache_2BHSC.shape[1], cache_2BHSC.shape[3]
        beams = x_RE.shape[0] // sentences
        count = places // beams  # positions, including the new one
        positions_R = torch.full((x_RE.shape[0],), count - 1, device=x_RE.device)
        if starts_B is not None:
            positions_R = positions_R - starts_B.repeat_interleave(beams, output_size=x_RE.shape[0])
        q_BHKD, k_BHKD, v_BHKU = (
            heads.unflatten(0, (sentences, beams)).transpose(1, 2) for heads in self._heads(x_RE, positions_R, count)
        )
        keys, values = self.shape.narrowed(cache_2BHSC)
        keys[:, :, -beams:] = k_BHKD
        values[:, :, -beams:] = v_BHKU
        if self.radius is not None:  # what is further away costs nothing
            near = slice(-(self.radius + 1) * beams, None)
            keys, values, keep = keys[:, :, near], values[:, :, near], None if keep is None else keep[..., near]
        y_BHKU = self._attend_past(PaddedHeads(q_BHKD, keys, values, keep), starts_B)
        return self.output(y_BHKU.transpose(1, 2).flatten(2).flatten(0, 1))

    def step_slots(
        self,
        x_RE: Float[Tensor, "R E"],
        cache_2SPKHC: Float[Tensor, "2 S P K H C"],
        ancestors_SKP: Int[Tensor, "S K P"],
        positions_S: Int[Tensor, "S"],
    ) -> Float[Tensor, "R E"]:
        """Take a step on fixed buffers, with each slot at its own position: see `models.transformer.slots`."""
        beams, room = ancestors_SKP.shape[1:]
        q, k, v = self._heads(x_RE, positions_S.unsqueeze(1).expand(-1, beams), room)
        q, (k, v) = self.shape.stretched(q), self.shape.cached(k, v)
        y_RHC = attend_past(q, k, v, cache_2SPKHC, ancestors_SKP, positions_S, self.radius)
        return self.output(narrow(y_RHC, self.shape.value_width).flatten(1))

    def _heads(
        self, x: Float[Tensor, "N E"], positions: Int[Tensor, "*rows"], bound: int
    ) -> tuple[Float[Tensor, "N H D"], Float[Tensor, "N H D"], Float[Tensor, "N H U"]]:
        q, k, v = self.split.split_all(self.project(x))
        return *self.positions.encode(q, k, positions, bound), v

    def _attend(self, heads: PackedHeads) -> Float[Tensor, "N H U"]:
        dropout = self.dropout if self.training else 0.0
        return self.positions.attend(self.backend, heads, self.causal, dropout)

    def _weights(self, heads: PackedHeads) -> Float[Tensor, "B H L L"]:
        q_NHD, k_NHD, _, layout, _ = heads
        if isinstance(self.backend, Restricted):
            return self.backend.weights(q_NHD, k_NHD, layout, self.causal)
        bias_BHLL = self.positions.bias(pad(q_NHD, layout).transpose(1, 2), layout.bound)
        return attention_weights(q_NHD, k_NHD, layout, layout, self.causal, bias_BHLL)

    def _attend_past(self, heads: PaddedHeads, starts_B: Int[Tensor, "B"] | None) -> Float[Tensor, "B H K U"]:
        return self.positions.attend_past(heads)


class CrossAttention(WithBackend):
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
        self.shape = heads_of(width, heads, projections)
        self.split = self.shape.split()
        self.rows = self.shape.rows[1:]  # of the matrix that projects keys and values
        projected, bias = biases_of(projections)
        self.project_query = Linear(width, self.shape.rows[0], projected)
        self.project_memory = Linear(memory_width or width, sum(self.rows), projected)
        self.output = Linear(self.shape.outputs, width, bias)

    @property
    def in_slots(self) -> bool:
        """Whether a step in slots computes the same: its kernels are fused."""
        return self.backend is not explicit

    def forward(
        self, x_NE: Float[Tensor, "N E"], layout: Layout, memory_MW: Float[Tensor, "M W"], memory_layout: Layout
    ) -> Float[Tensor, "N E"]:
        """Attend from all tokens of each sentence over the memory of that sentence."""
        return self.output(self._attend(self._packed(x_NE, layout, memory_MW, memory_layout)).flatten(1))

    def weights(
        self, x_NE: Float[Tensor, "N E"], layout: Layout, memory_MW: Float[Tensor, "M W"], memory_layout: Layout
    ) -> Float[Tensor, "B H Lq Lk"]:
        """Return the weights of `forward`, which its kernels do not return; rows of padding are arbitrary."""
        return self._weights(self._packed(x_NE, layout, memory_MW, memory_layout))

    def keys_and_values(self, memory_MW: Float[Tensor, "M W"]) -> tuple[Tensor, ...]:
        """Return the keys and values of the memory for a cache, [M, H, C] each."""
        return self.shape.cached(*self.split.split_memory(self.project_memory(memory_MW)))

    def step(
        self,
        x_RE: Float[Tensor, "R E"],
        memory_2BHLC: Float[Tensor, "2 B H L C"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "R E"]:
        """Attend from one new token per row. The K rows of a sentence are K queries over one copy of its memory."""
        keys, values = self.shape.narrowed(memory_2BHLC)
        y_BHKU = self._attend_memory(PaddedHeads(self._queries(x_RE, keys), keys, values, keep))
        return self.output(y_BHKU.transpose(1, 2).flatten(2).flatten(0, 1))

    def step_slots(
        self,
        x_RE: Float[Tensor, "R E"],
        memory_M2HC: Float[Tensor, "M 2 H C"],
        starts_S: Int[Tensor, "S"],
        lengths_S: Int[Tensor, "S"],
    ) -> Float[Tensor, "R E"]:
        """Take a step over packed memories, one per slot: see `models.transformer.slots`."""
        q = self.shape.stretched(self.project_query(x_RE).unflatten(1, (self.heads, -1)))
        keys, values = memory_M2HC.unbind(1)
        y_RHC = attend_memory(q, keys, values, starts_S, lengths_S)
        return self.output(narrow(y_RHC, self.shape.value_width).flatten(1))

    def step_weights(
        self,
        x_RE: Float[Tensor, "R E"],
        memory_2BHLC: Float[Tensor, "2 B H L C"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "R L"]:
        """Return the weights of `step`, which its kernel does not return: averaged over heads, 0 for padding."""
        keys, _ = self.shape.narrowed(memory_2BHLC)
        scores_BHKL = self._queries(x_RE, keys) @ keys.transpose(2, 3) / math.sqrt(keys.shape[-1])
        scores_BHKL = scores_BHKL.to(torch.promote_types(scores_BHKL.dtype, torch.float32))
        if keep is not None:
            scores_BHKL = scores_BHKL.masked_fill(~keep, -math.inf)
        return scores_BHKL.softmax(-1).mean(1).flatten(0, 1)

    def _packed(self, x_NE: Tensor, layout: Layout, memory_MW: Tensor, memory_layout: Layout) -> PackedHeads:
        q = self.project_query(x_NE).unflatten(1, (self.heads, -1))
        k, v = self.split.split_memory(self.project_memory(memory_MW))
        return PackedHeads(q, k, v, layout, memory_layout)

    def _queries(self, x_RE: Float[Tensor, "R E"], keys: Float[Tensor, "B H L D"]) -> Float[Tensor, "B H K D"]:
        return self.project_query(x_RE).view(keys.shape[0], -1, self.heads, keys.shape[-1]).transpose(1, 2)

    def _attend(self, heads: PackedHeads) -> Float[Tensor, "N H U"]:
        return self.backend(heads, False, self.dropout if self.training else 0.0)

    def _weights(self, heads: PackedHeads) -> Float[Tensor, "B H Lq Lk"]:
        return attention_weights(heads.q_NHD, heads.k_MHD, heads.queries, heads.keys, causal=False)

    def _attend_memory(self, heads: PaddedHeads) -> Float[Tensor, "B H K U"]:
        return F.scaled_dot_product_attention(*heads)
