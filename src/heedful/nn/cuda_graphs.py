"""Launches on a GPU, recorded once in a CUDA graph and replayed as one."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch

Result = TypeVar("Result")

_WARM_UPS: Final = 2  # runs before a recording: kernels are compiled, and libraries choose theirs


def warm_up(run: Callable[[], object], stream: torch.cuda.Stream) -> None:
    """Run on a stream that nobody else uses: what is recorded there later must not depend on another."""
    current = torch.cuda.current_stream(stream.device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            run()
    current.wait_stream(stream)


def record(
    run: Callable[[], Result], stream: torch.cuda.Stream, pool: Any = None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Record what a run launches, without computing it; its result stands where every replay puts its own.

    Only this thread's launches are recorded: a loader may go on pinning memory beside it. Recordings that share a
    `pool` share their memory, and are replayed in the order that they were made in.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        result = run()
    return graph, result


def as_cuda_graph(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The step as a CUDA graph; elsewhere as it is. It runs before it is recorded: that must change nothing."""
    if device.type != "cuda":
        return step
    stream = torch.cuda.Stream(device)
    warm_up(step, stream)
    graph, _ = record(step, stream)
    return graph.replay
