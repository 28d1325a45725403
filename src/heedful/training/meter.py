"""What a run has added up since it last logged its metrics: sums on the device, and clocks.

The sums belong to the checkpoint: a resumed run logs what an uninterrupted one logs.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch

from heedful.training.objectives import Sums

_COUNTS: Final = ("first_step", "units", "tokens", "skipped")
_SUMS: Final = ("loss", "likelihood")
_SECONDS: Final = ("seconds", "waited")


class Meter:
    """Sums on the device, and clocks, since the metrics were last logged."""

    def __init__(self, device: torch.device, step: int, state: Mapping[str, Any] | None = None) -> None:
        """Begin after a step, with the sums that a checkpoint of this step has, if it has them."""
        self.device = device
        self.restart(step)
        if state and _is_sound(state) and state["first_step"] <= step:
            self._load(state)

    def restart(self, step: int) -> None:
        """Reset all sums and clocks after this step."""
        self.first_step, self.units, self.tokens = step, 0, 0
        self._waits: list[_Wait] = []
        self._waited_before = 0.0  # the run was interrupted
        self._paused_at: float | None = None
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.likelihood = torch.zeros_like(self.loss)
        self.skipped = torch.zeros((), dtype=torch.int64, device=self.device)
        self._began = self._shown = time.perf_counter()

    def state(self) -> dict[str, float]:
        """Return everything that a resumed run needs, in plain numbers; waits for the device."""
        return {
            "first_step": self.first_step,
            "units": self.units,
            "tokens": self.tokens,
            "skipped": int(self.skipped),
            "loss": float(self.loss),
            "likelihood": float(self.likelihood),
            "seconds": self.seconds,
            "waited": self.waited,
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        self.first_step, self.units, self.tokens = state["first_step"], state["units"], state["tokens"]
        self._waited_before = state["waited"]
        self.skipped += state["skipped"]
        self.loss += state["loss"]
        self.likelihood += state["likelihood"]
        self._began -= state["seconds"]

    def add(self, sums: Sums) -> None:
        """Add a micro-batch, without waiting for the device."""
        self.loss += sums.loss
        self.likelihood += sums.likelihood

    @property
    def seconds(self) -> float:
        """Training time since the last reset."""
        return (self._paused_at or time.perf_counter()) - self._began

    @property
    def since_shown(self) -> float:
        """Seconds since metrics were last shown."""
        return time.perf_counter() - self._shown

    def shown(self) -> None:
        """Record that metrics were shown."""
        self._shown = time.perf_counter()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of this block as waiting for data, as far as the device has nothing to do in it."""
        wait = _Wait(self.device)
        yield
        wait.end()
        self._waits.append(wait)

    @property
    def waited(self) -> float:
        """Seconds that the device waited for data. What was launched must be ready."""
        return self._waited_before + sum(wait.seconds for wait in self._waits)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of this block as training."""
        self._paused_at = time.perf_counter()
        yield
        self._began += time.perf_counter() - self._paused_at
        self._paused_at = None


def _is_sound(state: Mapping[str, Any]) -> bool:
    """Whether values are those of a meter. They decide nothing but what is logged: others are not worth an error."""
    counts, sums, seconds = ([state.get(name) for name in names] for names in (_COUNTS, _SUMS, _SECONDS))
    return (
        all(type(count) is int and 0 <= count <= 2**53 for count in counts)
        and all(type(value) is float for value in sums)
        and all(type(value) is float and math.isfinite(value) and value >= 0 for value in seconds)
    )


class _Wait:
    """A wait of the host for data. A GPU waits too, but only from when it has done what was launched before."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events = [self._event()] if device.type == "cuda" else []
        self._seconds = -time.perf_counter()

    def end(self) -> None:
        """The data is there."""
        self._seconds += time.perf_counter()
        if self._events:
            self._events.append(self._event())

    @property
    def seconds(self) -> float:
        """How long the device waited."""
        if not self._events:
            return self._seconds
        before, after = self._events
        return before.elapsed_time(after) / 1000

    def _event(self) -> torch.cuda.Event:
        """Mark what was launched so far."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event
