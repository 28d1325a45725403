"""What a run is in these tests: a folder with `run` and `cache`, trained by a child, and what it leaves there."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import torch
from benchmarks.faults.children import Send, run_in_child
from benchmarks.faults.disk import Disk
from torch import Tensor

from heedful.config.recipe import Recipe
from heedful.runs.callbacks import Callback, Checkpoint
from heedful.runs.job import Job
from heedful.runs.run import RunObserver
from heedful.runs.train import train
from heedful.tasks.loading import load
from heedful.training.checkpoints import Position
from heedful.training.objectives import StatefulObjective
from heedful.training.optimizers.state import optimizer_state

RUN: Final = Path("run")  # all runs have one name, which their model cards state
WEIGHTS: Final = "run/model.safetensors"
LOGS: Final = ("metrics.jsonl", "instruments.jsonl", "samples.jsonl")
_CLOCKED: Final = ("seconds", "waited", "tokens_per_second", "data_wait")
_LEFT_OUT: Final = (".lock", "report.html")  # a report states times, and shows what the logs hold

Files = dict[str, bytes]


@dataclass(frozen=True)
class Whole:
    """An undisturbed run: what it leaves, and how much there was to disturb."""

    files: Files
    operations: list[str]
    seconds: float


@dataclass
class Tally:
    """What faults were survived, and what went wrong."""

    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    most: int = 3  # problems after which there is no need to look for more

    @property
    def is_enough(self) -> bool:
        """Whether there is no need to look for more problems."""
        return len(self.problems) >= self.most

    def add(self, name: str, count: int = 1, problem: str | None = None) -> None:
        """Count something."""
        self.counts[name] = self.counts.get(name, 0) + count
        if problem is not None:
            self.problems.append(f"{name}: {problem}")

    def send(self, send: Send) -> None:
        """Send it to the parent."""
        send(counts=self.counts, problems=self.problems)


class _Reports(Callback):
    """Tells which checkpoints were saved."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._send(saved=checkpoint.step)


def enter(root: Path) -> None:
    """Work in a folder, with a cache there."""
    root.mkdir(exist_ok=True)
    os.chdir(root)
    os.environ["HEEDFUL_CACHE"] = str(root / "cache")


def train_here(recipe: Recipe, send: Send, resume: bool = True) -> None:
    """Train in this process and folder, or resume, and tell where it begins and what it saves."""
    to_the_end = RunObserver.to_the_end

    def tell(observer: RunObserver, position: Position) -> None:
        send(at=position.step)
        to_the_end(observer, position)

    with patch.object(RunObserver, "to_the_end", tell):
        train(recipe, RUN, resume=resume, quiet=True, callbacks=[_Reports(send)])


def undisturbed(recipe: Recipe, root: Path, around: Callable[[], AbstractContextManager[object]]) -> Whole:
    """Train without a fault, inside a block that may change what is trained."""

    def work(send: Send) -> None:
        enter(root)
        began = time.monotonic()
        with Disk(root).mounted() as disk, around():
            train_here(recipe, send)
        send(operations=disk.operations, seconds=time.monotonic() - began)

    ended = run_in_child(work)
    assert ended.code == 0, ended.last("trace")
    return Whole(outcome(root), ended.last("operations"), ended.last("seconds"))


def check_loading(send: Send) -> None:
    """Load the model of the run in this folder, if there is one; tell what is wrong."""
    if not Path(WEIGHTS).exists():
        return
    try:
        load(RUN)
    except Exception as error:
        send(unloadable=f"{type(error).__name__}: {error}")


# --- what is left -----------------------------------------------------------------------------------------------------


def outcome(root: Path) -> Files:
    """Return all files of a run, without what depends on the clock."""
    run = root / RUN
    paths = (path for path in sorted(run.rglob("*")) if path.is_file() and path.name not in _LEFT_OUT)
    return {str(path.relative_to(run)): without_times(path.name, path.read_bytes()) for path in paths}


def without_times(name: str, data: bytes) -> bytes:
    """Return a file of a run without what depends on the clock."""
    if name in ("position.json", "manifest.json"):
        hidden = ("position.json",) if name == "manifest.json" else _CLOCKED
        return _plain(json.loads(data), hidden)
    if name in LOGS:
        return b"".join(_plain(json.loads(line), _CLOCKED) + b"\n" for line in data.splitlines())
    return data


def _plain(value: Any, hidden: tuple[str, ...]) -> bytes:
    return json.dumps(_shown(value, hidden)).encode()


def _shown(value: Any, hidden: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _shown(one, hidden) for key, one in value.items() if key not in hidden}
    return value


def compare(left: Files, whole: Files) -> tuple[list[str], list[str]]:
    """Return the files and the logs that are not as an undisturbed run leaves them.

    A checkpoint that was to be removed when the run was ended may still be there.
    """
    names = whole.keys() | {name for name in left if not name.startswith("checkpoints/step-")}
    other = sorted(name for name in names if left.get(name) != whole.get(name))
    return [name for name in other if name not in LOGS], [name for name in other if name in LOGS]


# --- what is loaded ---------------------------------------------------------------------------------------------------


class Reached(BaseException):
    """A run is ready to train: everything was read."""

    def __init__(self, observer: RunObserver, position: Position) -> None:
        self.step, self.digest = position.step, digest_of(observer.job, position)
        self.key = key_of(observer, position)


@contextmanager
def ends_before_training() -> Iterator[None]:
    """Let runs end, with `Reached`, when everything is read."""

    def reached(observer: RunObserver, position: Position) -> None:
        raise Reached(observer, position)

    with patch.object(RunObserver, "to_the_end", reached):
        yield


def key_of(observer: RunObserver, position: Position) -> str:
    """Return the name of a moment: the run and its step."""
    return f"{observer.run}, step {position.step}"


def digest_of(job: Job, position: Position) -> str:
    """Return a hash of all that decides how a run continues."""
    digest = hashlib.sha256(_plain(position.to_json(), _CLOCKED))
    state: dict[str, Tensor] = {**job.model.state_dict(), **optimizer_state(job.model, job.optimizer)}
    if isinstance(job.objective, StatefulObjective):
        state |= {f"objective.{name}": tensor for name, tensor in job.objective.state_dict().items()}
    return _digest_tensors(digest, state)


def _digest_tensors(digest: Any, tensors: Mapping[str, Tensor]) -> str:
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return str(digest.hexdigest())
