"""Sums, maxima and last values over the tokens of each sentence, and copies of one vector to all of its tokens.

The sum and the copy are each other's gradient. On a GPU both add in a fixed order, so that runs are reproducible bit by
bit: PyTorch's own gradient of a copy adds atomically.

Shape letter of this file: W  features of a token
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.base.packed import Layout


def sum_per_sentence(x_NW: Float[Tensor, "N W"], layout: Layout) -> Float[Tensor, "B W"]:
    """Sum over the tokens of each sentence; zero if it has none."""
    return _sums(x_NW, layout.lengths)


def max_per_sentence(x_NW: Float[Tensor, "N W"], layout: Layout) -> Float[Tensor, "B W"]:
    """Take the maximum over the tokens of each sentence; minus infinity if it has none. Equal ones share gradients."""
    return _Maxima.apply(x_NW, layout.lengths)  # type: ignore[no-untyped-call]


def copy_to_tokens(vectors_BW: Float[Tensor, "B W"], layout: Layout) -> Float[Tensor, "N W"]:
    """Copy the vector of each sentence to all of its tokens."""
    return _Copies.apply(vectors_BW, layout.lengths, layout.tokens)  # type: ignore[no-untyped-call]


def last_state(x_NW: Float[Tensor, "N W"], layout: Layout) -> Float[Tensor, "B W"]:
    """Return the last vector of each sentence; zeros if it has no token.

    For a bidirectional stack use `RecurrentState.top`: its second direction ends at the first token.
    """
    if not layout.tokens:
        return x_NW.new_zeros(layout.sentences, x_NW.shape[1])
    ends = (layout.offsets[1:] - 1).clamp(min=0)
    return x_NW.index_select(0, ends).masked_fill((layout.lengths == 0).unsqueeze(1), 0)


def ends_of_sentences(layout: Layout) -> Bool[Tensor, "N"]:
    """Return which tokens are the last of their sentence: those before a first one, and the very last."""
    return (layout.positions == 0).roll(-1)


class _Copies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, lengths: Tensor, tokens: int) -> Tensor:
        ctx.save_for_backward(lengths)
        return vectors.repeat_interleave(lengths, dim=0, output_size=tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
        (lengths,) = ctx.saved_tensors
        return _sums(dy, lengths), None, None


class _Maxima(torch.autograd.Function):
    """`torch.segment_reduce`'s own gradient (2.11 to 2.13) gives each of several equal maxima the whole of a negative
    gradient, instead of a share. In bfloat16 most maxima of long sentences are equal to others: trainings diverged."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor) -> Tensor:
        # The lengths are valid: "unsafe" skips a check that would wait for the device.
        largest = torch.segment_reduce(x, "max", lengths=lengths.long(), axis=0, unsafe=True)
        ctx.save_for_backward(x, largest, lengths)
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        x, largest, lengths = ctx.saved_tensors
        tokens = x.shape[0]
        is_largest = (x == largest.repeat_interleave(lengths, dim=0, output_size=tokens)).to(
            torch.promote_types(x.dtype, torch.float32)
        )
        share = dy / _sums(is_largest, lengths)
        return (is_largest * share.repeat_interleave(lengths, dim=0, output_size=tokens)).to(x.dtype), None


def _sums(x: Tensor, lengths: Tensor) -> Tensor:
    if x.is_cuda:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return torch.segment_reduce(wide, "sum", lengths=lengths.long(), axis=0, unsafe=True).to(x.dtype)
    # Six times as fast as `segment_reduce` on a CPU, where it adds in a fixed order too.
    sentences = torch.arange(lengths.shape[0]).repeat_interleave(lengths, output_size=x.shape[0])
    return x.new_zeros(lengths.shape[0], x.shape[1]).index_add(0, sentences, x)
