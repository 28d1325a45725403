"""Kernels of our own for GPUs, each with a plain reference beside it. Nothing outside `nn` and `models` names Triton.

They are written in Triton, which PyTorch's GPU builds bring along; without a GPU it is never imported. The tests run
the same kernels on a CPU, in Triton's interpreter.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

import torch
from torch import Tensor

_TRITON: Final = find_spec("triton") is not None
_wanted = os.environ.get("HEEDFUL_KERNELS") != "0"  # 0: the plain references everywhere, to compare with


def use_kernels(x: Tensor) -> bool:
    """Whether the kernels run where this tensor is: they are launched on the current device."""
    return x.is_cuda and kernels_enabled() and x.get_device() == torch.cuda.current_device()


def kernels_enabled() -> bool:
    """Whether there are kernels to run on a GPU, and nobody asked for the references."""
    return _wanted and _TRITON


@contextmanager
def without_kernels() -> Iterator[None]:
    """Compute by the plain references inside this block."""
    global _wanted
    before, _wanted = _wanted, False
    try:
        yield
    finally:
        _wanted = before
