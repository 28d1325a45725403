"""A step that is always the same launches on the same addresses, recorded once and replayed as one."""

from collections.abc import Callable

import torch

from heedful.nn.recording import record, warm_up


def recorded(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The step as a CUDA graph; elsewhere as it is. It runs before it is recorded: that must change nothing."""
    if device.type != "cuda":
        return step
    stream = torch.cuda.Stream(device)
    warm_up(step, stream)
    graph, _ = record(step, stream)
    return graph.replay
