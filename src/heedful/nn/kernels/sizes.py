"""Sizes and strides for kernel launches."""

import torch
from torch import Tensor


def strides(*tensors: Tensor) -> list[int]:
    """Return the strides of rows and heads of [N, H, D] tensors; the values of a head are contiguous."""
    return [step for x in tensors for step in x.stride()[:2]]


def next_power_of_two(size: int, least: int = 1) -> int:
    """Return the smallest power of two that is at least `size` and `least`; products of blocks need 16."""
    return max(least, 1 << max(0, size - 1).bit_length())


def count_multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU, or one for Triton's interpreter."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
