"""`--ray`: actors do the parts of a job, and what dies is replaced. Ray itself is a stand-in, but in one wide test."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from benchmarks.shards.ray_job import kill_an_actor
from tests.cli.answering.batch_jobs import LINES, Job, job_of, lines, small_parts, told
from tests.shared.patience import PATIENCE
from tests.shared.refusals import like

from heedful.cli.answering import parts
from heedful.cli.answering.batch_job import BatchJob
from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]
__all__ = ["lines", "small_parts"]  # fixtures


# --- a stand-in for Ray -----------------------------------------------------------------------------------------------


class TaskError(Exception):
    def __init__(self, cause: BaseException) -> None:
        super().__init__("a traceback\nof several lines")
        self.cause = cause


class ActorError(Exception):
    pass


class DeathError(BaseException):
    """The process of an actor dies."""


class Actor:
    """Makes its object anew when it dies, and calls the method again, as often as it was asked to."""

    def __init__(self, make: Callable[[], Any], retries: int) -> None:
        self._make, self._retries, self._object = make, retries, make()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Callable[[], Any]:
            for _ in range(self._retries + 1):
                try:
                    found = getattr(self._object, name)(*arguments)
                except DeathError:
                    self._object = self._make()
                except Exception as error:
                    return partial(raised, TaskError(error))
                else:
                    return lambda: found
            return partial(raised, ActorError("The actor died.\nBecause."))

        return SimpleNamespace(remote=call)


def raised(error: BaseException) -> None:
    raise error


class Pool:
    def __init__(self, actors: Sequence[Actor]) -> None:
        self.actors = actors

    def map_unordered(self, call: Callable[[Actor, Any], Callable[[], Any]], items: Sequence[Any]) -> Iterator[Any]:
        for number, item in reversed([*enumerate(items)]):  # in any order
            yield call(self.actors[number % len(self.actors)], item)()


class Ray(ModuleType):
    """Actors in this process."""

    exceptions = SimpleNamespace(RayTaskError=TaskError, RayActorError=ActorError)
    util = SimpleNamespace(ActorPool=Pool)

    def __init__(self) -> None:
        super().__init__("ray")
        self.resources: dict[str, float] = {"CPU": 2.0}
        self.connected = list[object]()
        self.asked = list[dict[str, Any]]()
        self.actors = 0

    def init(self, address: str | None, **options: Any) -> None:
        if address == "nonsense":
            raise ValueError("Invalid address format: nonsense\nmore")
        self.connected.append(address)

    def shutdown(self) -> None:
        self.connected.append("left")

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def remote(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        self.asked.append(options)

        def made(*arguments: Any) -> Actor:
            self.actors += 1
            return Actor(lambda: kind(*arguments), options["max_task_retries"])

        kind: Any = None

        def take(given: Callable[..., Any]) -> Any:
            nonlocal kind
            kind = given
            return SimpleNamespace(remote=made)

        return take

    @staticmethod
    def get(reference: Callable[[], Any]) -> Any:
        return reference()


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    ray = Ray()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    return ray


def on_ray(job: Job, *words: str, code: int = 0) -> None:
    assert run([*job.words, "--output", str(job.folder), *(words or ["--ray"])]) == code


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--ray"], ["--ray=auto"], ["--ray", "local"], ["--ray", "-q"]], ids=str)
def test_actors_write_what_one_command_writes(words: list[str], lines: Path, tmp_path: Path, ray: Ray) -> None:
    job = job_of(tmp_path / "out", "translate", "transformer", lines, "--json", "--max-extra", "2")
    on_ray(job, *words)
    assert job.joined() == job.undisturbed()
    assert ray.connected == ["local" if "local" in words else None, "left"]
    assert (ray.actors, len(job.parts())) == (2, 4)


def test_only_what_is_missing_is_done_and_said(lines: Path, tmp_path: Path, ray: Ray, capsys: Capture) -> None:
    job = job_of(tmp_path / "out", "classify", "classifier-bag", lines)
    job.work("1/2")
    before = job.parts()
    (job.folder / "part-000000").unlink()
    capsys.readouterr()
    on_ray(job)
    joins = f"`heedful join {job.folder}` checks and joins them"
    assert capsys.readouterr().err == f"heedful: {job.folder}: 3 parts written, 4 of 4 are there: {joins}.\n"
    assert before.items() <= job.parts().items()
    on_ray(job)
    assert capsys.readouterr().err.startswith(f"heedful: {job.folder}: 0 parts written, ")
    assert job.joined() == job.undisturbed()


@pytest.mark.parametrize(("resources", "words", "actors", "gpus"), [
    ({"CPU": 3.0}, [], 3, 0),
    ({"CPU": 64.0}, [], 4, 0),  # there are four parts
    ({}, [], 1, 0),
    ({"CPU": 8.0, "GPU": 2.0}, ["--device", "cpu"], 4, 0),
    ({"CPU": 8.0, "GPU": 2.0}, ["--device", "auto"], 2, 1),
])  # fmt: skip
def test_there_are_as_many_actors_as_the_cluster_has_room_for(
    resources: dict[str, float], words: list[str], actors: int, gpus: int, lines: Path, tmp_path: Path, ray: Ray
) -> None:
    ray.resources = resources
    job = job_of(tmp_path / "out", "classify", "classifier-bag", lines)
    on_ray(job, *words, "--ray")
    assert ray.actors == actors
    assert ray.asked == [{"max_restarts": -1, "max_task_retries": 3, "num_cpus": 1, "num_gpus": gpus}]


def test_an_actor_that_dies_is_replaced_and_its_part_done_again(
    lines: Path, tmp_path: Path, ray: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, do, deaths = job_of(tmp_path / "out", "classify", "classifier-bag", lines), BatchJob.do, list[int]()

    def deadly(self: BatchJob, part: int, answer: Any) -> None:
        deaths.append(part)
        if deaths.count(part) <= 3:
            raise DeathError
        do(self, part, answer)

    monkeypatch.setattr(BatchJob, "do", deadly)
    on_ray(job)
    assert len(deaths) == 4 * 4
    assert job.joined() == job.undisturbed()


def test_inputs_without_an_answer_are_told_as_without_ray(tmp_path: Path, ray: Ray, capsys: Capture) -> None:
    (tmp_path / "it.csv").write_text("id,text\n1,a\n2,b,c\n3,d\n4,e\n5,f,g\n")
    job = job_of(tmp_path / "out", "classify", "classifier-bag", "--data", tmp_path / "it.csv", "--format", "tsv")
    job.undisturbed(code=2)
    expected = capsys.readouterr().err
    on_ray(job, code=2)
    assert capsys.readouterr().err.endswith(expected)
    assert job.joined() == (tmp_path / "whole-out").read_bytes()


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_ray_must_be_installed(lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    on_ray(job_of(tmp_path / "out", "classify", "classifier-bag", lines), code=2)
    assert told(capsys) == "--ray needs Ray, which is not installed: `pip install 'heedful[scale]'`."


def test_an_address_without_a_cluster_is_refused(lines: Path, tmp_path: Path, ray: Ray, capsys: Capture) -> None:
    job = job_of(tmp_path / "out", "classify", "classifier-bag", lines)
    for address, reason in (("nonsense", "Invalid address format: nonsense"), ("127.0.0.1:1", "Connection refused")):
        on_ray(job, f"--ray={address}", code=2)
        assert told(capsys) == f"--ray={address}: there is no cluster ({reason}): start one with `ray start`."


def test_what_an_actor_refuses_is_refused_here_and_ray_is_left(
    lines: Path, tmp_path: Path, ray: Ray, capsys: Capture
) -> None:
    job = job_of(tmp_path / "out", "classify", "classifier-bag", lines)
    job.work("1/2")
    on_ray(job, "--json", "--ray", code=2)
    assert told(capsys) == like(f"{job.folder} has another job: --json is ...")
    assert ray.connected == [None, "left"]
    on_ray(Job(job.folder, ("classify", job.words[1])), code=2)
    assert told(capsys) == like("A batch job reads its ...")
    assert ray.connected == [None, "left"]  # before a cluster is asked


def test_a_part_that_kills_every_worker_ends_the_job_with_3(
    lines: Path, tmp_path: Path, ray: Ray, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    job, do = job_of(tmp_path / "out", "classify", "classifier-bag", lines), BatchJob.do

    def deadly(self: BatchJob, part: int, answer: Any) -> None:
        if part == 1:
            raise DeathError
        do(self, part, answer)

    monkeypatch.setattr(BatchJob, "do", deadly)
    on_ray(job, code=3)
    assert told(capsys) == (
        "--ray: the worker of a part died 4 times (The actor died.): what is done stays, and the same command does the "
        "rest."
    )
    assert list(job.parts()) == ["part-000002", "part-000003"]
    assert ray.connected == [None, "left"]


# --- with Ray ---------------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'heedful[scale]'")
def test_a_local_cluster_of_two_actors_of_which_one_is_killed_writes_what_one_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "SIZE", 20)
    path = tmp_path / "many.txt"
    path.write_text("".join(f"{LINES[number % len(LINES)]} {number}\n" for number in range(12000)))
    job = job_of(tmp_path / "out", "classify", "classifier-bag", path, "--json")
    expected = job.undisturbed()
    job.work("999/999")  # begins the job, with small parts
    actors = min(2, len(os.sched_getaffinity(0)))
    found = kill_an_actor(job.words, job.folder, after=30, actors=actors, patience=PATIENCE)
    assert found.code == 0, found.said
    assert found.actors >= actors
    assert 30 <= found.there < 600
    assert job.joined() == expected
