"""Chooses the device and the precision of a run when its recipe does not, and sets up the process for it."""

import ctypes
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import torch

from heedful.base.errors import UserError

_M_TRIM_THRESHOLD: Final = -1  # from malloc.h
_M_MMAP_THRESHOLD: Final = -3
_TRIALS: Final = 5
PRECISIONS: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16}
INT8: Final = "int8"  # of trained models on a CPU
WORTH_IT: Final = 1.2  # bfloat16 must be this many times faster than float32 to be chosen on a CPU


def choose_device(wanted: str) -> torch.device:
    """Return the requested device; for `auto`, the first GPU if there is one, else the CPU."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(wanted)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device `{wanted}` was requested, but torch {torch.__version__} finds no GPU: use `cpu`.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"device `{wanted}` was requested, but there are {torch.cuda.device_count()} GPUs, numbered from 0."
        )
    return device


def choose_precision(wanted: str, device: torch.device, trial: Callable[[torch.dtype], None]) -> torch.dtype:
    """Return the requested precision; for `auto`, bfloat16 on a GPU that has it, and the faster one on a CPU.

    `trial` runs one step in a precision, to be timed.
    """
    if wanted == "bfloat16" and not has_bfloat16(device):
        raise UserError(
            f"precision `bfloat16` was requested, but {torch.cuda.get_device_name(device)} does not support it: use "
            "`float32`."
        )
    if wanted != "auto":
        return PRECISIONS[wanted]
    if device.type == "cuda":
        return torch.bfloat16 if has_bfloat16(device) else torch.float32
    seconds: dict[torch.dtype, float] = {torch.float32: math.inf, torch.bfloat16: math.inf}
    for _ in range(_TRIALS):  # alternating, so that a busy moment of the machine affects both
        for precision in seconds:
            began = time.perf_counter()
            trial(precision)
            seconds[precision] = min(seconds[precision], time.perf_counter() - began)
    return torch.bfloat16 if seconds[torch.float32] > WORTH_IT * seconds[torch.bfloat16] else torch.float32


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device computes in bfloat16 natively; older GPUs only emulate it."""
    return device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)


def keep_freed_memory() -> None:
    """Make glibc, if that is the C library, keep the memory that one step frees for the next one.

    By default it returns large blocks to the kernel, which clears every page again: about 8% of a small model's step.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)  # the highest value it accepts
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def make_deterministic() -> None:
    """Allow only kernels that give the same result in every run."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # slow: only for debugging
