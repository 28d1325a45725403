"""Multi-head attention whose queries, keys and values come from three sequences, each of a width of its own.

Shape letters of this file: X, Y, W  widths of the inputs of queries, keys and values
"""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.attention.backends import Backend, PackedHeads, attention_weights, automatic
from heedful.nn.attention.multi_head import Projections, biases_of, heads_of
from heedful.nn.layers.linear import Linear


class ThreeInputAttention(nn.Module):
    """MultiHead(Q, K, V) of Vaswani et al. 2017, 3.2.2, with inputs of three widths

    head_i = attend(Q W_i^Q, K W_i^K, V W_i^V),  W^Q of X rows, W^K of Y rows, W^V of W rows. Keys and values are of the
    same tokens. Without `input_widths` all three are as wide as the output, `width`. `SelfAttention` and
    `CrossAttention` are the cases Q = K = V and K = V, with fewer and larger products.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        input_widths: tuple[int, int, int] | None = None,
        dropout: float = 0.0,
        backend: Backend = automatic,
        **projections: Unpack[Projections],
    ) -> None:
        super().__init__()
        shape, (projected, bias) = heads_of(width, heads, projections), biases_of(projections)
        if shape.groups != shape.heads:
            raise ValueError(f"{shape.groups} heads of keys and values cannot be shared by {shape.heads} heads here")
        self.heads, self.dropout, self.backend = heads, dropout, backend
        self.project_query, self.project_keys, self.project_values = (
            Linear(given, rows, projected) for given, rows in zip(input_widths or (width,) * 3, shape.rows, strict=True)
        )
        self.output = Linear(shape.outputs, width, bias)

    def forward(
        self,
        queries_NX: Float[Tensor, "N X"],
        layout: Layout,
        keys_MY: Float[Tensor, "M Y"],
        values_MW: Float[Tensor, "M W"],
        memory_layout: Layout,
    ) -> Float[Tensor, "N E"]:
        """Attend from all tokens of each sentence over the keys of that sentence, and read its values."""
        heads = self._heads(queries_NX, layout, keys_MY, values_MW, memory_layout)
        read: Tensor = self.output(self.backend(heads, False, self.dropout if self.training else 0.0).flatten(1))
        return read

    def weights(
        self, queries_NX: Float[Tensor, "N X"], layout: Layout, keys_MY: Float[Tensor, "M Y"], memory_layout: Layout
    ) -> Float[Tensor, "B H Lq Lk"]:
        """Return the weights of `forward`, which its kernels do not return; rows of padding are arbitrary."""
        q, k = self._split(self.project_query(queries_NX)), self._split(self.project_keys(keys_MY))
        return attention_weights(q, k, layout, memory_layout, causal=False)

    def _heads(
        self, queries_NX: Tensor, layout: Layout, keys_MY: Tensor, values_MW: Tensor, memory_layout: Layout
    ) -> PackedHeads:
        q, k, v = (
            self._split(project(given))
            for project, given in (
                (self.project_query, queries_NX), (self.project_keys, keys_MY), (self.project_values, values_MW),
            )
        )  # fmt: skip
        return PackedHeads(q, k, v, layout, memory_layout)

    def _split(self, projected: Tensor) -> Float[Tensor, "N H D"]:
        return projected.unflatten(1, (self.heads, -1))
