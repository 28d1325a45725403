"""Custom GPU kernels, for which plain PyTorch computes the same elsewhere. Only `nn` and `models` mention Triton.

The kernels are written in Triton, which PyTorch's GPU builds include; without a GPU it is never imported. Tests run the
same kernels on a CPU, in Triton's interpreter.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

import torch
from torch import Tensor

_TRITON: Final = find_spec("triton") is not None
_wanted = os.environ.get("HEEDFUL_KERNELS") != "0"  # 0: plain PyTorch everywhere, for comparison


def use_kernels(x: Tensor) -> bool:
    """Return whether to use the kernels for this tensor: it must be on the current GPU, where they are launched."""
    return x.is_cuda and kernels_enabled() and x.get_device() == torch.cuda.current_device()


def kernels_enabled() -> bool:
    """Return whether Triton is installed and plain PyTorch was not requested."""
    return _wanted and _TRITON


@contextmanager
def without_kernels() -> Iterator[None]:
    """Use plain PyTorch inside this block."""
    global _wanted
    before, _wanted = _wanted, False
    try:
        yield
    finally:
        _wanted = before
