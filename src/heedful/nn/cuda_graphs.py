"""CUDA graphs: the kernel launches of a function, recorded once and replayed as one."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

Result = TypeVar("Result")

_WARM_UPS: Final = 2  # runs before recording, in which kernels are compiled and libraries choose theirs


def warm_up(run: Callable[[], object], stream: torch.cuda.Stream) -> None:
    """Run a function on a stream of its own, where it can then be recorded without depending on another stream."""
    current = torch.cuda.current_stream(stream.device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            run()
    current.wait_stream(stream)


def record(
    run: Callable[[], Result], stream: torch.cuda.Stream, pool: Any = None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Record what a function launches, without computing it. Every replay overwrites the returned result.

    Only this thread's launches are recorded: a loader may pin memory at the same time. Recordings that share a `pool`
    share their memory, and must be replayed in the order in which they were made.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        result = run()
    return graph, result


def on_device(numbers: NDArray[Any], device: torch.device) -> Tensor:
    """Copy numbers to a device, without waiting for what it computes."""
    copy = torch.from_numpy(numbers)
    return copy.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else copy


def free_memory(device: torch.device) -> int | None:
    """Return the bytes of a GPU that are free, or that PyTorch holds and does not use; None elsewhere."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def as_cuda_graph(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Return a step as a CUDA graph on a GPU, and unchanged elsewhere.

    The step runs a few times before it is recorded, so running it must not have lasting effects.
    """
    if device.type != "cuda":
        return step
    stream = torch.cuda.Stream(device)
    warm_up(step, stream)
    graph, _ = record(step, stream)
    return graph.replay
