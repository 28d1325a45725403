"""A batch job on Ray: actors that hold the model do its parts, and Ray replaces those that die.

Each actor runs the command of the job as worker 1 of 1, which hands over the job instead of doing it; then it does the
parts that it is told to. All of them see the folder of the job, as workers without Ray do: what is there stays there,
and is not done again, whoever dies. Ray moves numbers of parts and errors, no inputs and no answers.
"""

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import HeedfulError, MachineError, UserError, on_command_line
from heedful.cli import main
from heedful.cli.answering.batch_job import Answered, BatchJob, handing_over, tell_parts
from heedful.cli.answering.parts_folder import PartsFolder
from heedful.cli.command import current
from heedful.cli.output import progress_bar

AUTO: Final = "auto"  # the cluster of RAY_ADDRESS, or of this machine, or else a new one on it
_PATIENCE: Final = 10.0  # seconds
_RETRIES: Final = 3  # of a part whose actor died: an input that kills its worker must not do so for ever


class Worker:
    """An actor: holds a model, and does parts of the job of a command line."""

    def __init__(self, words: Sequence[str], folder: str) -> None:
        self._words, self._folder = words, folder
        self._job: BatchJob | None = None
        self._answer: Callable[[int], Answered] | None = None

    def missing(self) -> list[int]:
        """Begin the job, or find it, and return the parts that are not there."""
        self._open()
        return [] if self._job is None else self._job.missing

    def do(self, part: int) -> None:
        """Do a part, also as the successor of an actor that has died."""
        self._open()
        if self._job is not None and self._answer is not None:
            self._job.do(part, self._answer)

    def _open(self) -> None:
        """Load the model; nothing is loaded if no part is missing."""
        if self._job is None:
            os.chdir(self._folder)
            with on_command_line(), handing_over(self._take):
                main.invoke(self._words)

    def _take(self, job: BatchJob, answer: Callable[[int], Answered]) -> None:
        self._job, self._answer = job, answer


def run_on_ray(address: str, folder: Path, on_gpus: bool) -> list[str]:
    """Do all parts of the job of this command that are not there; return why inputs have no answer.

    There are as many actors as the cluster has GPUs, or CPUs if it has no GPUs or they are not wanted.
    """
    with _cluster(address) as ray:
        resource = "GPU" if on_gpus and ray.cluster_resources().get("GPU") else "CPU"
        room = max(1, int(ray.cluster_resources().get(resource, 1)))
        asked: dict[str, Any] = {"num_cpus": 1, "num_gpus": int(resource == "GPU")}
        actor = ray.remote(max_restarts=-1, max_task_retries=_RETRIES, **asked)(Worker)
        words, here = _words_of_workers(), str(Path.cwd())
        first = actor.remote(words, here)
        missing = ray.get(first.missing.remote())
        actors = [first, *(actor.remote(words, here) for _ in range(min(room, len(missing)) - 1))]
        with progress_bar("doing parts", len(missing)) as progress:
            for _ in ray.util.ActorPool(actors).map_unordered(lambda one, part: one.do.remote(part), missing):
                progress(1)
    job = PartsFolder(folder)
    job.check_whole()
    tell_parts(job, len(missing))
    return [line for part in range(job.manifest.parts) for line in job.failed(part) or ()]


def _words_of_workers() -> list[str]:
    """Return this command line as that of a worker."""
    command = current()
    words = [word for word in command.words if not word.startswith("--ray=")]
    after = words.index(command.verb.rpartition(" ")[2]) + 1
    return [*words[:after], "--shard=1/1", *words[after:]]


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Connect to a cluster; an error of a worker is raised as it was there."""
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
        import ray
    except ImportError as error:
        raise UserError("--ray needs Ray, which is not installed: `pip install 'heedful[scale]'`.") from error
    try:
        if place := re.fullmatch(r"(?:ray://)?(.+):(\d{1,5})", address):  # Ray would ask for many minutes
            socket.create_connection((place[1], int(place[2])), _PATIENCE).close()
        ray.init(address=None if address == AUTO else address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is an OSError
        reason = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0]
        raise UserError(f"--ray={address}: there is no cluster ({reason}): start one with `ray start`.") from error
    try:
        with redirect_stdout(sys.stderr):  # where Ray says which actors have died
            yield ray
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, HeedfulError):
            raise
        raise error.cause from error
    except ray.exceptions.RayActorError as error:
        raise MachineError(
            f"--ray: the worker of a part died {_RETRIES + 1} times ({str(error).strip().partition(chr(10))[0]}): what "
            "is done stays, and the same command does the rest."
        ) from error
    finally:
        ray.shutdown()
