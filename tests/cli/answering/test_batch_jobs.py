"""`--shard I/N`: parts that any worker may do, at any time, join to the bytes of an undisturbed run."""

import csv
import gzip
import hashlib
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.answering.batch_jobs import LINES, Job, job_of, lines, small_parts, temporary

from heedful.cli.answering.asked import Run
from heedful.cli.answering.parts_folder import PartsFolder
from heedful.tasks.shared.answering.answers import Given

Capture = pytest.CaptureFixture[str]
__all__ = ["lines", "small_parts"]  # fixtures

# --- parts join to an undisturbed run ---------------------------------------------------------------------------------

MODELS = {
    "translate": "transformer",
    "classify": "classifier-bert-several",
    "tag": "tagger-transformer",
    "generate": "language-transformer",
}
OTHERS: dict[str, tuple[str, ...]] = {
    "translate, numbered": ("translate", "transformer", "--n-best", "2"),
    "parse, numbered": ("parse", "parser", "--n-best", "2"),
    "regress": ("regress", "regressor-bag", "--json"),
    "embed": ("embed", "classifier-bag"),
    "score": ("score", "language-transformer", "--json"),
    "generate, sampled": ("generate", "language-transformer", "--n-best", "2", "--seed", "4", "--max-tokens", "5"),
    "translate, a recurrent model": ("translate", "recurrent-luong-local", "--json"),
}
SHORT = {"generate": ("--max-tokens", "5"), "translate": ("--max-extra", "2")}


def check(job: Job, parts: int = 4) -> None:
    """Two workers, the second one first, and then the first one, write what one command writes."""
    job.work("2/2")
    assert list(job.parts()) == [f"part-{number:06}" for number in range(1, parts, 2)]
    job.work("1/2")
    assert list(job.parts()) == [f"part-{number:06}" for number in range(parts)]
    assert job.joined() == job.undisturbed()
    assert not [*temporary(job.folder)]


@pytest.mark.parametrize("form", ["lines", "json", "csv", "tsv"])
@pytest.mark.parametrize("verb", MODELS)
def test_parts_of_any_form_join_to_an_undisturbed_run(verb: str, form: str, lines: Path, tmp_path: Path) -> None:
    words: list[str | Path] = [lines, *(["--json"] if form == "json" else [])]
    if form in ("csv", "tsv"):
        table = tmp_path / f"it.{form}"
        with table.open("w", newline="") as file:
            role = "source" if verb == "translate" else "text"
            writer = csv.writer(file, delimiter="," if form == "csv" else "\t")
            writer.writerows([["id", role], *enumerate(LINES)])
        words = ["--data", table]
    check(job_of(tmp_path / "out", verb, MODELS[verb], *words, *SHORT.get(verb, ())))


@pytest.mark.parametrize("name", OTHERS)
def test_parts_of_any_verb_join_to_an_undisturbed_run(name: str, tmp_path: Path) -> None:
    (tmp_path / "it.txt").write_text("".join(f"{line or 'a'}\n" for line in LINES))
    verb, bundle, *options = OTHERS[name]
    check(job_of(tmp_path / "out", verb, bundle, tmp_path / "it.txt", *options))


def test_parts_go_on_from_one_file_to_the_next(lines: Path, tmp_path: Path) -> None:
    packed = tmp_path / "more.txt.gz"
    packed.write_bytes(gzip.compress(b"one\ntwo\n"))
    job = job_of(tmp_path / "out", "tag", "tagger-transformer", lines, packed, lines, "--json")
    check(job, parts=8)
    assert [json.loads(line)["line"] for line in job.parts()["part-000003"].decode().splitlines()] == [10, 1, 2]


def test_rows_in_other_forms_join_too(tmp_path: Path) -> None:
    (tmp_path / "it.conll").write_text("# first\na X\nb Y\n\n\nc X\n\n-DOCSTART- X\n\nd Y\n")
    check(job_of(tmp_path / "out", "tag", "tagger-transformer", "--data", tmp_path / "it.conll"), parts=2)
    (tmp_path / "it.jsonl").write_text(
        "".join(f"{json.dumps({'n': n, 'text': line})}\n" for n, line in enumerate(LINES))
    )
    check(job_of(tmp_path / "jsonl", "classify", "classifier-bag", "--data", tmp_path / "it.jsonl"))
    named = job_of(tmp_path / "named.csv", "classify", "classifier-bag", "--data", tmp_path / "it.jsonl")
    check(named)
    assert named.parts()["part-000000"].startswith(b"n,text,label,probability\n")


def test_an_empty_input_is_one_part_with_the_header_of_its_table(tmp_path: Path) -> None:
    (tmp_path / "it.txt").write_text("")
    job = job_of(tmp_path / "out", "classify", "classifier-bag", tmp_path / "it.txt")
    job.work()
    assert job.parts() == {"part-000000": b""}
    (tmp_path / "it.csv").write_text("id,text\n")
    job = job_of(
        tmp_path / "table", "classify", "classifier-bag", "--data", tmp_path / "it.csv", "--set", "data.text=text"
    )
    job.work()
    assert job.parts() == {"part-000000": job.undisturbed()} == {"part-000000": b"id,text,label,probability\n"}


def test_any_number_of_workers_may_finish_a_job(lines: Path, tmp_path: Path, capsys: Capture) -> None:
    job = job_of(tmp_path / "out", "classify", "classifier-bag", lines)
    job.work("5/9")
    assert job.parts() == {}  # there are fewer parts than workers
    job.work("2/3")
    job.work("1/2")
    assert list(job.parts()) == ["part-000000", "part-000001", "part-000002"]
    capsys.readouterr()
    job.work()
    place = tmp_path / "out"
    assert capsys.readouterr().err == (
        f"heedful: {place}: 1 part written, 4 of 4 are there: `heedful join {place}` checks and joins them.\n"
    )
    assert job.joined() == job.undisturbed()


def test_a_manifest_says_what_is_answered_and_how(lines: Path, tmp_path: Path) -> None:
    words: list[str | Path] = [lines, "--json", "--beam", "2", "--max-extra", "2"]
    job_of(tmp_path / "out", "translate", "transformer", *words).work("1/2")
    found = json.loads((tmp_path / "out" / "manifest.json").read_text())
    made_by = found.pop("made_by")
    assert set(made_by) == {"heedful", "torch", "python"}
    model = found["job"].pop("model")
    assert set(model) == {"config.json", "model.safetensors"}
    sha256 = hashlib.sha256(lines.read_bytes()).hexdigest()
    assert found == {
        "format": 1,
        "job": {
            "verb": "translate",
            "sources": [str(lines)],
            "files": [{"name": str(lines), "bytes": lines.stat().st_size, "sha256": sha256}],
            "options": {"--json": True, "--beam": 2, "--max-extra": 2},
        },
        "counts": [10],
        "size": 3,
        "place": {"device": "cpu", "precision": "float32"},
    }


# --- what is missing is done, and nothing else ------------------------------------------------------------------------


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The inputs that are answered."""
    found = list[str]()
    outcomes = Run.outcomes

    def recorded(self: Run[Any], **options: Any) -> Any:
        for outcome in outcomes(self, **options):
            found.append(outcome.given.values["text"])
            yield outcome

    monkeypatch.setattr(Run, "outcomes", recorded)
    return found


def classify(tmp_path: Path, lines: Path, *words: str) -> Job:
    return job_of(tmp_path / "out", "classify", "classifier-bag", lines, *words)


def test_a_job_that_is_done_is_not_done_again_and_loads_no_model(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    job = classify(tmp_path, lines)
    job.work()
    before = {path: path.stat().st_mtime_ns for path in sorted(job.folder.rglob("*"))}
    monkeypatch.setattr("heedful.tasks.loading.load", None)
    monkeypatch.setattr("heedful.tasks.shared.loaded_model.Placement", None)
    capsys.readouterr()
    job.work("2/3")
    assert before == {path: path.stat().st_mtime_ns for path in sorted(job.folder.rglob("*"))}
    assert capsys.readouterr().err.startswith(f"heedful: {job.folder}: 0 parts written, 4 of 4 are there: ")


def cut(job: Job) -> None:
    part = job.folder / "part-000001"
    part.write_bytes(part.read_bytes()[:-1])


def change(job: Job) -> None:
    part = job.folder / "part-000001"
    part.write_bytes(part.read_bytes().replace(b"0", b"1", 1).replace(b"\t", b" ", 1))


def remove(job: Job) -> None:
    (job.folder / "part-000001").unlink()


def without_record(job: Job) -> None:
    (job.folder / "records" / "000001.json").unlink()


def torn_record(job: Job) -> None:
    (job.folder / "records" / "000001.json").write_text('{"job": ')


def odd_record(job: Job) -> None:
    (job.folder / "records" / "000001.json").write_text("[1]")


def of_another_job(job: Job) -> None:
    record = job.folder / "records" / "000001.json"
    record.write_text(record.read_text().replace('"job": "', '"job": "0'))


@pytest.mark.parametrize("damage", [cut, change, remove, without_record, torn_record, odd_record, of_another_job])
def test_a_part_that_is_damaged_in_any_way_is_done_again_and_no_other(
    damage: Callable[[Job], None], lines: Path, tmp_path: Path, answered: list[str]
) -> None:
    job = classify(tmp_path, lines)
    job.work()
    whole = job.parts()
    damage(job)
    answered.clear()
    job.work()
    assert answered == LINES[3:6]
    assert job.parts() == whole


class Killed(BaseException):
    """Ends a worker in the middle of a part."""


@pytest.mark.parametrize(("at", "there"), [(1, 0), (4, 1), (9, 3)])
def test_a_worker_that_ends_within_a_part_keeps_those_before_it_and_nothing_else(
    at: int, there: int, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, outcomes, seen = classify(tmp_path, lines), Run.outcomes, list[Given]()

    def killed(self: Run[Any], **options: Any) -> Any:
        for outcome in outcomes(self, **options):
            seen.append(outcome.given)
            if len(seen) > at:
                raise Killed
            yield outcome

    with monkeypatch.context() as patched:
        patched.setattr(Run, "outcomes", killed)
        with pytest.raises(Killed):
            job.work()
    assert len(job.parts()) == there
    assert not [*temporary(job.folder)]
    job.work()
    assert job.joined() == job.undisturbed()


def test_an_interrupted_worker_ends_with_130_and_a_full_disk_with_3(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    job, put = classify(tmp_path, lines), PartsFolder.put

    def failing(error: BaseException) -> Callable[..., None]:
        def fail(self: PartsFolder, number: int, data: bytes, failed: list[str]) -> None:
            if number:
                raise error
            put(self, number, data, failed)

        return fail

    for error, code in ((KeyboardInterrupt(), 130), (OSError(28, "No space left on device", "part"), 3)):
        with monkeypatch.context() as patched:
            patched.setattr(PartsFolder, "put", failing(error))
            job.work(code=code)
        assert list(job.parts()) == ["part-000000"]
    assert capsys.readouterr().err.splitlines()[0] == "heedful: interrupted."
    job.work()
    assert job.joined() == job.undisturbed()


def test_a_part_that_another_worker_wrote_meanwhile_stays(
    lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers are given the same share by mistake; the slower one writes nothing."""
    job, failed, numbers = classify(tmp_path, lines), PartsFolder.failed, list[int]()
    job.work("2/2")

    def slow(self: PartsFolder, number: int) -> list[str] | None:
        numbers.append(number)
        if numbers.count(number) < 3:  # it was not there when the work began
            return None
        with monkeypatch.context() as patched:
            patched.setattr(PartsFolder, "failed", failed)
            if failed(self, number) is None:
                job.work()
        return failed(self, number)

    with monkeypatch.context() as patched:
        patched.setattr(PartsFolder, "failed", slow)
        patched.setattr(PartsFolder, "put", PartsFolder.put)
        job.work("1/2")
    assert job.joined() == job.undisturbed()


def test_workers_that_begin_and_write_at_once_leave_one_job_with_whole_parts(lines: Path, tmp_path: Path) -> None:
    job = classify(tmp_path, lines)
    job.work("1/4")
    manifest, data = PartsFolder(job.folder).manifest, job.parts()["part-000000"]
    found = list[object]()

    def work() -> None:
        folder = PartsFolder(job.folder)
        try:
            folder.is_begun()
            folder.begin(manifest)
            for _ in range(4):
                folder.put(0, data, [])
                found.append(folder.failed(0))
        except BaseException as error:
            found.append(error)

    for _ in range(30):
        shutil.rmtree(job.folder)
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not [*temporary(job.folder)]
    assert found == [[]] * (30 * 6 * 4)
    job.work()
    assert job.joined() == job.undisturbed()
