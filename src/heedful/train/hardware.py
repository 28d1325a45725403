"""Which device, precision and compilation a run uses when its recipe leaves them open."""

import os
import time
from collections.abc import Callable
from typing import Final

import torch

from heedful.errors import UserError

_WORTH_IT: Final = 1.2  # how many times faster bfloat16 must be to be chosen over float32 on a CPU


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
    if wanted != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[wanted]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    faster = _seconds(trial, torch.float32) / _seconds(trial, torch.bfloat16) > _WORTH_IT
    return torch.bfloat16 if faster else torch.float32


def choose_compile(wanted: str | bool, device: torch.device) -> bool:
    """Compile when asked to; with `auto` on a GPU alone, where every machine that has one can."""
    return device.type == "cuda" if wanted == "auto" else bool(wanted)


def make_deterministic() -> None:
    """Refuse every kernel whose result may differ between two runs."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


def _seconds(trial: Callable[[torch.dtype], None], precision: torch.dtype) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        trial(precision)
        times.append(time.perf_counter() - began)
    return min(times)
