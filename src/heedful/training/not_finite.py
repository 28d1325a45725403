"""Updates whose loss or gradient is not finite: which ones, and what a run does about many of them in a row.

Such an update is never applied (see `updates`). Which ones they were is kept on the device until metrics are logged or
a checkpoint is saved, so that no update waits for it. After some in a row a run returns to the checkpoint before them
and leaves their batches out, as Chowdhery et al. 2022, 5.1, did by hand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from heedful.data.epochs.loader import Feed
from heedful.data.epochs.plan import Indices
from heedful.training.objectives import Objective, StatefulObjective

_ROOM: Final = 1024  # updates between two looks at the device
_TRIALS: Final = 64  # losses that are computed to find the rows of a batch that are to blame
_SHOWN: Final = 3  # examples, and updates, that a line names

Batch = tuple[int, int]  # epoch and number of a micro-batch, both from 0


class Update(NamedTuple):
    """An update that was not applied."""

    step: int
    epoch: int
    batches: tuple[int, ...]  # numbers of its micro-batches

    def to_json(self) -> list[Any]:
        """Return plain numbers."""
        return [self.step, self.epoch, list(self.batches)]


class NotFiniteUpdates:
    """The updates of a run that were not finite; its state belongs to a checkpoint."""

    def __init__(self, device: torch.device, in_a_row: int, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self._in_a_row = in_a_row
        self._flags = torch.zeros(_ROOM, dtype=torch.bool, device=device)
        self._waiting: list[Update] = []  # whose flags have not been read
        self._news, self._streak, self._many = (_updates(state.get(key, ())) for key in ("news", "streak", "many"))
        self.left_out: frozenset[Batch] = frozenset((epoch, batch) for epoch, batch in state.get("left_out", ()))
        self.returned: list[list[int]] = [list(one) for one in state.get("returned", ())]  # from and to which step
        self.untold: list[Mapping[str, Any]] = list(state.get("untold", ()))  # returns that are not yet recorded

    def add(self, update: Update, not_finite: Tensor) -> None:
        """Note whether an update was not finite, without waiting for the device."""
        if len(self._waiting) == _ROOM:
            self._read()
        self._flags[len(self._waiting)] = not_finite
        self._waiting.append(update)

    def news(self) -> list[Update]:
        """Return the updates that were not finite and have not been returned yet."""
        self._read()
        news, self._news = self._news, []
        return news

    @property
    def many(self) -> list[Update]:
        """The updates that were not finite in a row, if there were too many; ask for `news` first."""
        return self._many

    @property
    def going_on(self) -> bool:
        """Whether the last update was one of them."""
        return bool(self._streak)

    def tell_returns(self) -> list[Mapping[str, Any]]:
        """Return what is to be recorded of returns, once."""
        untold, self.untold = self.untold, []
        return untold

    def forget_many(self) -> None:
        """Begin to count again: the run continues as it is."""
        self._many, self._streak = [], []

    def leave_out(self, updates: Sequence[Update], step: int, examples: Sequence[str]) -> None:
        """Leave the batches of updates out from now on, after a return from their last one to a step."""
        batches = sorted((update.epoch, batch) for update in updates for batch in update.batches)
        came_from = updates[-1].step
        self.left_out |= {*batches}
        self.returned.append([came_from, step])
        self.untold.append({"from": came_from, "to": step, "left_out": batches, "examples": list(examples)})
        self._waiting, self._news = [], []
        self.forget_many()

    def state(self) -> dict[str, Any]:
        """Return everything that a resumed run needs, in plain values; waits for the device. Empty in most runs."""
        self._read()
        parts = {
            **{key: [one.to_json() for one in getattr(self, f"_{key}")] for key in ("news", "streak", "many")},
            "left_out": sorted(map(list, self.left_out)),
            "returned": self.returned,
            "untold": self.untold,
        }
        return {key: part for key, part in parts.items() if part}

    def _read(self) -> None:
        """Read the flags of all updates that wait."""
        flags = self._flags[: len(self._waiting)].tolist() if self._waiting else []
        for update, not_finite in zip(self._waiting, flags, strict=True):
            if not not_finite:
                self._streak = []
                continue
            self._news.append(update)
            self._streak = [*self._streak, update]
            if len(self._streak) >= self._in_a_row:
                self._many = self._streak
        self._waiting = []


def _updates(written: Sequence[Any]) -> list[Update]:
    return [Update(step, epoch, tuple(batches)) for step, epoch, batches in written]


def is_state(value: object) -> bool:
    """Return whether a value of a checkpoint is a state that `NotFiniteUpdates` wrote."""
    try:
        NotFiniteUpdates(torch.device("cpu"), 1, value)  # type: ignore[arg-type]  # it fails otherwise
    except (TypeError, ValueError, AttributeError):
        return False
    return isinstance(value, dict)


# --- which examples they were -----------------------------------------------------------------------------------------


def rows_to_blame(
    update: Update, feed: Feed[Any], model: nn.Module, objective: Objective[Any], device: torch.device
) -> Indices | None:
    """Return the rows of an update whose loss is not finite, counted through all stores; all its rows if none is.

    None if its batches are not made of rows, as those of running text.
    """
    found, every = [], []
    for batch in update.batches:
        planned = next(islice(iter(feed.plan(update.epoch)), batch, None), None)
        rows = getattr(feed, "rows", lambda planned: None)(planned)
        if planned is None or rows is None:
            return None
        every.append(rows)
        if hasattr(feed, "some"):
            finite = partial(_is_finite, model, objective, device, partial(feed.some, planned))
            with _leaving_no_trace(objective):
                found.append(rows[_search(len(rows), finite)])
    blamed = np.concatenate(found) if found else np.zeros(0, np.int64)
    return blamed if len(blamed) else np.unique(np.concatenate(every))


def _search(count: int, finite: Callable[[Indices], bool]) -> Indices:
    """Return which of `count` rows have a loss that is not finite, by halves; few losses are computed."""
    sick, waiting, trials = [], [np.arange(count)], 0
    while waiting and trials < _TRIALS:
        rows, trials = waiting.pop(0), trials + 1
        if finite(rows):
            continue
        if len(rows) == 1:
            sick.append(rows)
        else:
            waiting += np.array_split(rows, 2)
    return np.sort(np.concatenate([*sick, np.zeros(0, np.int64)])).astype(np.int64)


def _is_finite(
    model: nn.Module, objective: Objective[Any], device: torch.device, made: Callable[[Indices], Any], rows: Indices
) -> bool:
    try:
        with torch.no_grad():
            return bool(objective(model, made(rows).to(device)).loss.isfinite())
    except torch.OutOfMemoryError:  # the run computes its updates in less memory
        return True


@contextmanager
def _leaving_no_trace(objective: Objective[Any]) -> Iterator[None]:
    """Restore what an objective carries. Random generators are seeded before every micro-batch."""
    carried = dict(objective.state_dict()) if isinstance(objective, StatefulObjective) else {}
    try:
        yield
    finally:
        if carried and isinstance(objective, StatefulObjective):
            objective.load_state_dict(carried)


def name_batches(update: Update) -> list[str]:
    """Name an update's micro-batches, where no rows can be named."""
    return [f"micro-batch {batch + 1:,} of epoch {update.epoch + 1:,}" for batch in update.batches]


def describe(news: Sequence[Update], examples: Sequence[Sequence[str]]) -> str:
    """Say in one line which updates were not applied, and which examples they had."""
    named = zip(news[:_SHOWN], examples, strict=False)
    said = "; ".join(f"{update.step:,} ({shorten(names)})" for update, names in named)
    more = f" and {len(news) - _SHOWN:,} more" if len(news) > _SHOWN else ""
    if len(news) == 1:
        return f"Update {said} was not applied: its loss or gradient is not finite."
    return f"{len(news):,} updates were not applied, as their losses or gradients are not finite: {said}{more}."


def shorten(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return "; ".join(names[:_SHOWN]) + more
