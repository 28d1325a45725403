"""A step that is always the same launches on the same addresses, recorded once and replayed as one."""

from collections.abc import Callable
from typing import Final

import torch

_WARM_UPS: Final = 2  # runs before a recording: kernels are compiled, and libraries choose theirs


def recorded(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The step as a CUDA graph; elsewhere as it is. It runs before it is recorded: that must change nothing."""
    if device.type != "cuda":
        return step
    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        for _ in range(_WARM_UPS):
            step()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
        step()
    return graph.replay
