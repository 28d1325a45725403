"""Which device, precision and compilation a run uses when its recipe leaves them open."""

import ctypes
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import torch

from heedful.errors import UserError

_M_TRIM_THRESHOLD: Final = -1  # of malloc.h
_M_MMAP_THRESHOLD: Final = -3
_TRIALS: Final = 5
PRECISIONS: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WORTH_IT: Final = 1.2  # how many times faster bfloat16 must be to be chosen over float32 on a CPU


def choose_device(wanted: str) -> torch.device:
    """The wanted device, or with `auto` the first GPU, or the CPU."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(wanted)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device `{wanted}` was asked for, but torch {torch.__version__} sees no GPU: use `cpu`.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device `{wanted}` was asked for, but there are {torch.cuda.device_count()} GPUs, from 0 on.")
    return device


def choose_precision(wanted: str, device: torch.device, trial: Callable[[torch.dtype], None]) -> torch.dtype:
    """The wanted precision; with `auto` bfloat16 on a GPU, and on a CPU whatever runs a trial step clearly faster."""
    if wanted == "bfloat16" and not has_bfloat16(device):
        raise UserError(
            f"precision `bfloat16` was asked for, but {torch.cuda.get_device_name(device)} has none: use `float32`."
        )
    if wanted != "auto":
        return PRECISIONS[wanted]
    if device.type == "cuda":
        return torch.bfloat16 if has_bfloat16(device) else torch.float32
    seconds: dict[torch.dtype, float] = {torch.float32: math.inf, torch.bfloat16: math.inf}
    for _ in range(_TRIALS):  # in turn, so that a busy moment of the machine hits both
        for precision in seconds:
            began = time.perf_counter()
            trial(precision)
            seconds[precision] = min(seconds[precision], time.perf_counter() - began)
    return torch.bfloat16 if seconds[torch.float32] > WORTH_IT * seconds[torch.bfloat16] else torch.float32


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device computes in bfloat16 by itself; older GPUs only pretend to."""
    return device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)


def keep_freed_memory() -> None:
    """Ask glibc to keep what a step frees for the next one, where there is a glibc.

    By default it hands large blocks back to the kernel, which clears every page anew: some 8% of a small model's step.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)  # the highest it accepts
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def make_deterministic() -> None:
    """Refuse every kernel whose result may differ between two runs."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # finds bugs, at a price
