"""Sizes and distances that launches of kernels share."""

import torch
from torch import Tensor


def strides(*tensors: Tensor) -> list[int]:
    """The distances between rows and between heads of [N, H, D] tensors; the values of a head stand side by side."""
    return [step for x in tensors for step in x.stride()[:2]]


def next_power_of_two(size: int, least: int = 1) -> int:
    """The least power of two that holds so many, and no less than `least`: products of blocks want 16."""
    return max(least, 1 << max(0, size - 1).bit_length())


def count_multiprocessors(device: torch.device) -> int:
    """How many a GPU has; one where Triton interprets."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
