"""Memory in large pages, for weights that every step of a search reads from their first byte to their last.

What a search with few rows waits for is memory. In pages of 4 KB a processor looks up ten thousand addresses for each
step of a Transformer-base, and its prefetching ends at the end of a page; in pages of 2 MB it reads a third faster.
"""

import contextlib
import mmap
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

_PAGE: Final = 1 << 21
_LEAST: Final = 2 * _PAGE  # bytes below which pages do not matter
_ALIGNED: Final = 64  # bytes: what is read at once


def move_to_large_pages(tensors: Sequence[Tensor]) -> None:
    """Give tensors on a CPU, in their order, a common piece of memory; whoever has one of them has it there."""
    sizes = [-(-tensor.nbytes // _ALIGNED) * _ALIGNED for tensor in tensors]
    if sum(sizes) < _LEAST or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    memory, start = _large_pages(sum(sizes)), 0
    for tensor, size in zip(tensors, sizes, strict=True):
        place = memory[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        tensor.data = place.copy_(tensor.detach())
        start += size


def _large_pages(size: int) -> Tensor:
    """Return bytes that begin with a page; the system may have no large pages left, and then uses small ones."""
    whole = mmap.mmap(-1, -(-size // _PAGE) * _PAGE + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without them
        whole.madvise(mmap.MADV_HUGEPAGE)
    found = torch.frombuffer(whole, dtype=torch.uint8)  # which keeps the memory
    return found[-found.data_ptr() % _PAGE :]
