"""Measures how fast a device multiplies matrices: the upper bound for the speed of training."""

import time
from typing import Final

import torch

_SIZES: Final = {"cpu": 1024, "cuda": 8192}  # large enough to keep the device busy
_SECONDS: Final = 0.3


def measure_matrix_rate(device: torch.device, precision: torch.dtype) -> float:
    """Return the operations per second of a square matrix product, the best over a third of a second."""
    size = _SIZES[device.type]
    left = torch.randn(size, size, device=device).to(precision)
    best, began = time_matrix_product(left), time.perf_counter()
    while time.perf_counter() - began < _SECONDS:
        best = min(best, time_matrix_product(left))
    return 2 * size**3 / best


def time_matrix_product(matrix: torch.Tensor) -> float:
    """Return the seconds that one product of a square matrix with itself takes."""
    _wait_for(matrix.device)
    began = time.perf_counter()
    matrix @ matrix
    _wait_for(matrix.device)
    return time.perf_counter() - began


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
