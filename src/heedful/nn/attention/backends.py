"""Backends that compute attention over packed sentences, chosen by device, dtype and length.

    attend(q, k, v) = softmax(q k^T / sqrt(D)) v, sentence by sentence      Vaswani et al. 2017, 3.2.1

Backends that pad can also compute softmax(q k^T / sqrt(D) + bias) v; those on the packed layout refuse a bias.

A backend is a function with the signature of `Backend`; a test checks that all agree within stated tolerances.
Fused kernels need queries, keys and values of one width D: where values have another width U, zeros fill the narrower.

Shape letter of this file: U  width of a head's values, by default D
"""

import math
from collections.abc import Mapping
from contextlib import nullcontext
from threading import Lock
from typing import Final, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.attention.heads import narrow, stretch, widen
from heedful.nn.kernels import kernels_enabled, use_kernels
from heedful.nn.padding import pad, unpad

_SHORT: Final = 256  # longest sentence for which the `short` kernel is faster than flash attention
_ORDER: Final = Lock()
_NARROW: Final = 128  # widest head for which its blocks fit in the shared memory of every GPU


class PackedHeads(NamedTuple):
    """The queries, keys and values of packed sentences."""

    q_NHD: Float[Tensor, "N H D"]
    k_MHD: Float[Tensor, "M H D"]
    v_MHU: Float[Tensor, "M H U"]
    queries: Layout
    keys: Layout  # the same object where sentences attend to themselves


class PaddedHeads(NamedTuple):
    """The queries, keys and values of padded sentences."""

    q_BHQD: Float[Tensor, "B H Q D"]
    k_BHLD: Float[Tensor, "B H L D"]
    v_BHLU: Float[Tensor, "B H L U"]
    keep: Bool[Tensor, "*seen"] | None  # keys that can be seen, None if all can: of a sentence, or of each query


Bias = Float[Tensor, "#B H Lq Lk"] | None


@runtime_checkable
class Backend(Protocol):
    """Attention of packed queries over packed keys, sentence by sentence."""

    def __call__(
        self, heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Bias = None
    ) -> Float[Tensor, "N H U"]:
        """Attend. `dropout` is the fraction of weights to drop: zero outside training.

        `bias` is added to the padded scores; a backend that cannot add one refuses it.
        """


def padded(heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Bias = None) -> Float[Tensor, "N H U"]:
    """Attend with PyTorch's fused attention on padded rows.

    On a CPU it always computes in float32 or wider, because the bfloat16 backward pass is several times slower.
    """
    (q_NHD, k_MHD, v_MHU, queries, keys), value_width = _equally_wide(heads)
    kernel_type = torch.promote_types(q_NHD.dtype, torch.float32) if q_NHD.device.type == "cpu" else q_NHD.dtype
    q_BHLD, k_BHLD, v_BHLU = (
        pad(x, layout).to(kernel_type).transpose(1, 2) for x, layout in ((q_NHD, queries), (k_MHD, keys), (v_MHU, keys))
    )
    # Causal attention needs no mask: no token sees the padding after the end of its sentence.
    mask = None if causal else _visible_keys(keys)
    if bias_BHLL is not None:  # the bias is a mask, and the kernel takes either a mask or `is_causal`
        mask, causal = masked_bias(bias_BHLL.to(kernel_type), _past(queries.bound, keys) if causal else mask), False
    y_BHLU = F.scaled_dot_product_attention(q_BHLD, k_BHLD, v_BHLU, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    return narrow(unpad(y_BHLU.transpose(1, 2), queries).to(q_NHD.dtype), value_width)


def even(heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Bias = None) -> Float[Tensor, "N H U"]:
    """Attend with PyTorch's fused attention on sentences that all have one length: on a GPU with cuDNN if it can.

    cuDNN's kernels are the fastest on recent GPUs, but take no offsets.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    order = [
        SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH
    ]  # fmt: skip
    # The order is one of the whole process: threads that restored each other's would leave it changed.
    alone = nullcontext() if torch.compiler.is_compiling() else _ORDER
    with alone, sdpa_kernel(order, set_priority=True):
        return padded(heads, causal, dropout, bias_BHLL)


def varlen(
    heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Bias = None, radius: int = -1
) -> Float[Tensor, "N H U"]:
    """Attend with flash attention on the packed layout: CUDA, 16-bit dtypes, no dropout of weights.

    With a radius, a query sees the keys at a distance of at most that from its own position.
    """
    from torch.nn.attention.varlen import varlen_attn  # imports the compiler, which takes seconds: not on a CPU

    if dropout:
        raise ValueError("varlen attention cannot drop weights")
    if bias_BHLL is not None:
        raise ValueError("varlen attention cannot add a bias to the scores")
    window = (radius, 0 if causal else radius)  # -1: unlimited
    (q_NHD, k_MHD, v_MHU, queries, keys), value_width = _equally_wide(heads)
    y_NHU = varlen_attn(
        q_NHD, k_MHD, v_MHU, queries.offsets, keys.offsets, queries.bound, keys.bound, window_size=window
    )
    return narrow(y_NHU, value_width)  # type: ignore[arg-type]  # a pair only with `return_aux`


def short(heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Bias = None) -> Float[Tensor, "N H U"]:
    """Attend with a custom kernel for many short sentences: CUDA, any dtype, with dropout of weights."""
    from heedful.nn.kernels.short_attention import attend, short_attention

    if bias_BHLL is not None:
        raise ValueError("short attention cannot add a bias to the scores")
    (q_NHD, k_MHD, v_MHU, queries, keys), value_width = _equally_wide(heads)
    seed = torch.randint(2**62, (1,), device=q_NHD.device) if dropout else queries.offsets[:1]
    bound = max(queries.bound, keys.bound)
    attending = short_attention if torch.is_grad_enabled() or torch.compiler.is_compiling() else attend
    y_NHU, _ = attending(q_NHD, k_MHD, v_MHU, queries.offsets, keys.offsets, seed, causal, dropout, bound)
    return narrow(y_NHU, value_width)


def explicit(heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Bias = None) -> Float[Tensor, "N H U"]:
    """Attend by the equation as written, with explicit weights: slow, and the reference for the other backends."""
    q_NHD, k_MHD, v_MHU, queries, keys = heads
    weights_BHLL = F.dropout(attention_weights(q_NHD, k_MHD, queries, keys, causal, bias_BHLL), dropout)
    y_BHLU = weights_BHLL @ pad(v_MHU, keys).transpose(1, 2)
    return unpad(y_BHLU.transpose(1, 2), queries)


def attention_weights(
    q_NHD: Float[Tensor, "N H D"],
    k_MHD: Float[Tensor, "M H D"],
    queries: Layout,
    keys: Layout,
    causal: bool,
    bias_BHLL: Bias = None,
) -> Float[Tensor, "B H Lq Lk"]:
    """Return softmax(q k^T / sqrt(D) + bias), padded; rows after the end of a sentence are arbitrary."""
    q_BHLD, k_BHLD = pad(q_NHD, queries).transpose(1, 2), pad(k_MHD, keys).transpose(1, 2)
    scores_BHLL = q_BHLD @ k_BHLD.transpose(2, 3) / math.sqrt(q_BHLD.shape[-1])
    if bias_BHLL is not None:
        scores_BHLL = scores_BHLL + bias_BHLL
    keep = _visible_keys(keys)
    if keep is not None:
        scores_BHLL = scores_BHLL.masked_fill(~keep, -math.inf)
    if causal:
        scores_BHLL = scores_BHLL.masked_fill(~_past(queries.bound, keys), -math.inf)
    return scores_BHLL.softmax(-1).to(q_NHD.dtype)


def automatic(heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Bias = None) -> Float[Tensor, "N H U"]:
    """Attend with the fastest backend for this device, dtype and length that supports what is asked of it."""
    q_NHD, _, v_MHU, queries, keys = heads
    width = fused_width(q_NHD.shape[2], v_MHU.shape[2])
    if bias_BHLL is not None or not q_NHD.is_cuda or not supports_packed(q_NHD.dtype, width, dropout):
        backend = padded
    elif use_kernels(q_NHD) and width <= _NARROW and (dropout or max(queries.bound, keys.bound) <= _SHORT):
        backend = short
    elif queries.even and keys.even and not torch.are_deterministic_algorithms_enabled():
        backend = even
    else:
        backend = padded if dropout else varlen
    return backend(heads, causal, dropout, bias_BHLL)


def masked_bias(bias_BHQK: Float[Tensor, "#B H Q K"], keep: Bool[Tensor, "*any"] | None) -> Float[Tensor, "..."]:
    """Return the bias with minus infinity where a key is not visible, as a mask for fused kernels."""
    return bias_BHQK if keep is None else bias_BHQK.where(keep, -math.inf)


def fused_width(key_width: int, value_width: int) -> int:
    """Return the width that fused kernels compute with: where widths differ, one that all of them accept."""
    return key_width if key_width == value_width else -(-max(key_width, value_width) // 8) * 8


def _equally_wide(heads: PackedHeads) -> tuple[PackedHeads, int]:
    """Return queries, keys and values of one width, with the same scores, and the width of the values before."""
    q_NHD, k_MHD, v_MHU, *layouts = heads
    own = v_MHU.shape[2]
    width = fused_width(q_NHD.shape[2], own)
    return PackedHeads(stretch(q_NHD, width), widen(k_MHD, width), widen(v_MHU, width), *layouts), own


def supports_packed(dtype: torch.dtype, head_width: int, dropout: float) -> bool:
    """Return whether a GPU can attend on the packed layout with this dtype, head width and dropout of weights."""
    if dtype not in (torch.bfloat16, torch.float16) or head_width % 8 or head_width > 256:
        return False
    return dropout == 0 or (kernels_enabled() and head_width <= _NARROW)


def _visible_keys(keys: Layout) -> Bool[Tensor, "B 1 1 L"] | None:
    """Return True where a key is a token, None if all are. Empty sentences keep one key, for the softmax to work on."""
    if keys.even:
        return None
    first = torch.arange(keys.bound, device=keys.offsets.device) == 0
    return (keys.keep | first)[:, None, None, :]


def _past(length: int, keys: Layout) -> Bool[Tensor, "Lq Lk"]:
    """Return True where a key is not after the query."""
    return torch.ones(length, keys.bound, dtype=torch.bool, device=keys.offsets.device).tril()


BACKENDS: Final[Mapping[str, Backend]] = {
    "automatic": automatic,
    "padded": padded,
    "even": even,
    "varlen": varlen,
    "short": short,
    "explicit": explicit,
}
