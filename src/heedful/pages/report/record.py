"""What the folder of a run records: its recipe, metrics, samples and checkpoints.

Only JSON is read. What an earlier version did not write, or a killed run did not finish, is missing here too.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from filelock import FileLock, Timeout

from heedful.base.errors import UserError, machine_faults
from heedful.base.files import read_json
from heedful.config.corpora.old_names import with_current_names
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import find_rules
from heedful.pages.report.log import INSTRUMENTS, METRICS, SAMPLES, Entry, read_log

_CONFIG: Final = "config.json"
_LOCK: Final = ".lock"
_STEP: Final = re.compile(r"step-\d{8,}")

State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder has it."""

    folder: Path
    recipe: Mapping[str, Any]  # as config.json has it, with all defaults
    config: Mapping[str, Any]
    train: Sequence[Entry]  # logged steps in order: step, loss, learning_rate, ...
    valid: Sequence[Entry]  # validations in order: step, and a value for each metric
    running: bool = False  # whether a process trains there now
    samples: Sequence[Entry] = ()
    instruments: Sequence[Entry] = ()
    position: Mapping[str, Any] = field(default_factory=dict)  # of the last checkpoint
    written: float = 0.0  # when metrics were last written, in seconds since 1970

    @property
    def rules(self) -> TaskRules | None:
        """Rules of the task; None for a task that is not one of Heedful's."""
        try:
            return find_rules(self.recipe.get("task"), self.family, None)
        except (ValueError, KeyError):
            return None

    @property
    def task(self) -> str:
        """Name of the task."""
        rules = self.rules
        return str(self.recipe.get("task")) if rules is None else rules.name

    @property
    def family(self) -> str:
        """Family of the model."""
        return str(self._key("model", "family"))

    @property
    def tokens(self) -> str:
        """Name of what training speed counts."""
        rules = self.rules
        return "tokens" if rules is None else rules.tokens

    @property
    def step(self) -> int:
        """Number of the last step that was logged or validated."""
        return max(int(entry["step"]) for entry in (*self.train, *self.valid))

    @property
    def steps(self) -> int | None:
        """Number of steps that the recipe asks for; None if it is not known."""
        found = self._key("train", "steps")
        return found if isinstance(found, int) else None

    @property
    def state(self) -> State:
        """Whether the run goes on, reached its end, or was stopped before it."""
        if self.running:
            return "running"
        whole = self.steps is not None and self.step >= self.steps
        patience, worse = self._key("train", "validation", "patience"), self.position.get("worse_since")
        early = isinstance(patience, int) and isinstance(worse, int) and worse >= patience
        return "finished" if whole or early else "stopped"

    @property
    def diverged(self) -> bool:
        """Whether the last loss that was logged is not finite."""
        return bool(self.train) and value_of(self.train[-1], "loss") is None and "loss" in self.train[-1]

    @property
    def metric(self) -> str:
        """Metric that decides which model is best."""
        return str(self._key("train", "validation", "metric") or "loss")

    @property
    def higher_is_better(self) -> bool | None:
        """Whether higher values of the deciding metric are better; None if that is not known."""
        own, rules = self.config.get("metrics"), self.rules
        known = {**(rules.metrics if rules else {}), **(own if isinstance(own, dict) else {})}
        return known[self.metric] == "higher" if self.metric in known else None

    @property
    def best(self) -> Entry | None:
        """The validation of the best single model; None where nothing was validated by a known metric."""
        scored = [entry for entry in self.valid if value_of(entry, self.metric) is not None]
        if not scored or self.higher_is_better is None:
            return None
        sign = -1 if self.higher_is_better else 1
        by_loss = not self.position or "best_loss" in self.position  # runs of earlier versions kept the first of equal

        def rank(entry: Entry) -> tuple[float, float]:
            loss = value_of(entry, "loss") if by_loss else None
            return sign * entry[self.metric], 0.0 if loss is None else loss

        return min(scored, key=rank)  # the first of equal ones, as in training

    @property
    def seconds(self) -> float | None:
        """Time trained as of the last checkpoint, validations included."""
        found = value_of(self.position, "seconds")
        return found if found is not None and found > 0 else None

    def fact(self, name: str) -> str:
        """Return a fact of the last checkpoint, such as its device; empty if it is not recorded."""
        facts = self.position.get("facts")
        found = facts.get(name) if isinstance(facts, dict) else None
        return "" if found is None else str(found)

    def _key(self, *path: str) -> Any:
        found: Any = self.recipe
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        best = self.best
        return {
            "folder": str(self.folder),
            "task": self.task,
            "state": self.state,
            "step": self.step,
            "steps": self.steps,
            "metric": self.metric,
            "best_step": None if best is None else best["step"],
            "best_score": None if best is None else best[self.metric],
            "seconds": self.seconds,
            "facts": dict(self.position.get("facts") or {}),
            "heedful": self.config.get("heedful"),
            "recipe": dict(self.recipe),
            "train": list(self.train),
            "valid": list(self.valid),
            "samples": list(self.samples),
            "instruments": list(self.instruments),
        }


def value_of(entry: Mapping[str, Any], name: str) -> float | None:
    """Return a value of an entry as a finite number; None if there is none."""
    found = entry.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    # Compared, as a whole number of 400 digits cannot be made a float; NaN is not less than anything.
    return float(found) if abs(found) <= sys.float_info.max else None


def read_run(folder: Path, running: bool | None = None) -> RunRecord:
    """Read a run, finished or not; refuse a folder that does not hold one.

    `running` says whether it goes on; by default, the lock of the folder does.
    """
    config = _read_config(folder)
    entries = read_log(folder / METRICS, needed=True)
    if not entries:
        raise UserError(_nothing_recorded(folder, config["recipe"]))
    with machine_faults(folder):
        written = (folder / METRICS).stat().st_mtime
    return RunRecord(
        folder=folder,
        recipe=with_current_names(config["recipe"]),
        config=config,
        train=[entry for entry in entries if entry.get("part") == "train"],
        valid=[entry for entry in entries if entry.get("part") == "valid"],
        running=_is_locked(folder / _LOCK) if running is None else running,
        samples=read_log(folder / SAMPLES),
        instruments=read_log(folder / INSTRUMENTS),
        position=_last_position(folder / "checkpoints"),
        written=written,
    )


def read_runs(folders: Sequence[Path]) -> list[RunRecord]:
    """Read runs to show together; refuse those of different tasks, and a run that is given twice."""
    for number, folder in enumerate(folders):
        if folder.resolve() in [other.resolve() for other in folders[:number]]:
            raise UserError(f"{folder} is given twice: name each run once.")
    records = [read_run(folder) for folder in folders]
    first, *others = records
    for other in others:
        if other.task != first.task:
            raise UserError(
                f"{other.folder} is a run of the task `{other.task}`, but {first.folder} of `{first.task}`: their "
                "curves cannot be compared. Write a report of each."
            )
    return records


def run_names(records: Sequence[RunRecord]) -> list[str]:
    """Return the names of runs in a report: those of their folders, or their paths where two have the same."""
    names = [record.folder.resolve().name for record in records]
    return names if len(set(names)) == len(names) else [str(record.folder) for record in records]


def _read_config(folder: Path) -> dict[str, Any]:
    if not (folder / _CONFIG).exists():
        what = "holds no config.json" if folder.is_dir() else "is not a folder"
        raise UserError(f"{folder} {what}: a run is a folder that `heedful train` wrote.")
    config = read_json(folder / _CONFIG)
    if not isinstance(config, dict) or not isinstance(config.get("recipe"), dict):
        raise UserError(f"{folder / _CONFIG} is not the config of a run: `recipe` is missing.")
    return config


def _nothing_recorded(folder: Path, recipe: Mapping[str, Any]) -> str:
    """Return what to say of a folder without metrics."""
    if not (folder / METRICS).exists() and not (folder / "checkpoints").exists():
        return f"{folder} holds a model but no {METRICS}: only a run that `heedful train` wrote has a report."
    train = recipe.get("train")
    every = train.get("log_every") if isinstance(train, dict) else None
    when = f", the first come at step {every:,} (`train.log_every`)" if isinstance(every, int) else ""
    return f"{folder} has no metrics yet{when}: try again when it has trained longer."


def _last_position(checkpoints: Path) -> Mapping[str, Any]:
    """Return position.json of the last checkpoint; nothing where it cannot be read, as while it is replaced."""
    with machine_faults(checkpoints):
        found = [path for path in checkpoints.glob("step-*") if _STEP.fullmatch(path.name)]
    for path in sorted(found, key=lambda path: int(path.name.removeprefix("step-")), reverse=True):
        try:
            position = read_json(path / "position.json")
        except UserError:
            continue
        if isinstance(position, dict):
            return position
    return {}


def _is_locked(path: Path) -> bool:
    """Whether a process has this lock, which the system releases when the process ends."""
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # somebody else's folder, which can only be read
        return False
