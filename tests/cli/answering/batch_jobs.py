"""Small batch jobs: parts of three inputs, and commands of one worker in this process."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from heedful.cli.answering import parts
from heedful.cli.main import run

BUNDLES = Path(__file__).parents[2] / "golden" / "bundles"
SIZE = 3
LINES = ["a dog runs", "two men walk", "", "the small cat", "a man", "the dog", "red house", "a a a", "people", "end"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "SIZE", SIZE)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "it.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


@dataclass(frozen=True)
class Job:
    """A command, and the folder of its parts."""

    folder: Path
    words: tuple[str, ...]

    def work(self, shard: str = "1/1", code: int = 0) -> None:
        """Be a worker."""
        assert run([*self.words, "--output", str(self.folder), "--shard", shard]) == code

    def parts(self) -> dict[str, bytes]:
        """The content of each part."""
        return {path.name: path.read_bytes() for path in sorted(self.folder.glob("part-*"))}

    def joined(self) -> bytes:
        """What `cat FOLDER/part-*` writes."""
        return b"".join(self.parts().values())

    def undisturbed(self, code: int = 0) -> bytes:
        """What the command writes without --shard."""
        whole = self.folder.with_name(f"whole-{self.folder.name}")
        assert run([*self.words, "--output", str(whole)]) == code
        return whole.read_bytes()


def job_of(folder: Path, verb: str, bundle: str, *words: str | Path) -> Job:
    """A command with a small model."""
    return Job(folder, (verb, str(BUNDLES / bundle), "--device", "cpu", *map(str, words)))


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """The error that a command has shown."""
    return capsys.readouterr().err.rpartition("heedful: error: ")[2].removesuffix("\n")


def temporary(folder: Path) -> Iterator[Path]:
    """Files that killed processes leave."""
    return (path for path in folder.rglob("*") if path.name.startswith("."))
