"""What a whole run would take, as a few real steps tell it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Forecast:
    """An estimate for a whole run."""

    parameters: int  # number of parameters
    tokens_per_second: float
    updates: int  # number of updates of the run
    seconds: float  # duration of the run
    epochs: float  # number of epochs of the run
    checkpoint_bytes: int  # disk space of the run's checkpoints and bundles
    peak_gpu_bytes: int | None  # None on a CPU
