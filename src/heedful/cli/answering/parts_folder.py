"""A folder of answers in parts, which several processes fill at the same time.

manifest.json          the job: what is answered, by which model, with which options, and in how many parts
part-000000            answers as an undisturbed run writes them: `cat FOLDER/part-*` is its output, header included
records/000000.json    the sha256 of the part of this number, and why inputs of it have no answer

A part is written at once, and then its record, at once: a part without a record, or with other bytes than its record
states, is not there. Workers need no locks: two that write the same part write the same bytes.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from heedful.base.errors import UserError, counted
from heedful.base.files import (
    damaged,
    json_bytes,
    read_bytes,
    read_json,
    sha256_of_file,
    write_bytes,
    write_json,
    write_new,
)

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
_RECORDS: Final = "records"
_DIGITS: Final = 6  # of the number of a part in its name, at least
_SHOWN: Final = 60  # characters of a value in a message
_OTHER: Final = "give the inputs, the model and the options of that job, or choose another --output"


@dataclass(frozen=True)
class Job:
    """What is answered, by what, and how: all that decides which answers there are."""

    verb: str
    sources: Sequence[str]  # names, in order
    files: Sequence[Mapping[str, Any]]  # name, size and sha256 of each file that they are read from
    model: Mapping[str, str]  # sha256 by name of file
    options: Mapping[str, Any]  # by flag; those with their defaults are left out

    def facts(self) -> Iterator[tuple[str, object]]:
        """Yield what must be the same for all workers of a job, in the words of messages."""
        yield "the verb", self.verb
        yield "the input", ", ".join(self.sources)
        for file in self.files:
            yield f"the size of {file['name']}", file["bytes"]
            yield f"the sha256 of {file['name']}", file["sha256"]
        yield from ((f"the sha256 of the model's {name}", value) for name, value in self.model.items())
        yield from self.options.items()


@dataclass(frozen=True)
class Manifest:
    """A job that has begun."""

    job: Job
    counts: Sequence[int]  # number of inputs of each source
    size: int  # number of inputs of a part
    place: Mapping[str, str]  # device and precision, on which the last digits of answers depend
    made_by: Mapping[str, str] = field(default_factory=dict)  # versions, for information
    format: int = FORMAT

    @property
    def parts(self) -> int:
        """Number of parts; there is at least one, as a table without rows has a header."""
        return max(1, -(-sum(self.counts) // self.size))

    @cached_property
    def fingerprint(self) -> str:
        """Return what records state: parts of another job are not taken for parts of this one."""
        decisive = {name: value for name, value in asdict(self).items() if name != "made_by"}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Shard:
    """Worker `number` of `workers`, counted from 1."""

    number: int
    workers: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse what a user wrote."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise UserError(f"--shard is `{text}`, but must be I/N, worker I of N, counted from 1: such as 2/8.")
        return cls(int(found[1]), int(found[2]))

    def parts(self, count: int) -> range:
        """Return the parts that this worker does."""
        return range(self.number - 1, count, self.workers)


class PartsFolder:
    """The folder of a job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # --- the job ------------------------------------------------------------------------------------------------------

    @cached_property
    def manifest(self) -> Manifest:
        """The job, as its first worker wrote it."""
        path = self.path / MANIFEST
        if not path.exists():
            raise UserError(f"{self.path} has no {MANIFEST}: it is not the folder of a batch job.")
        content: Any = read_json(path)
        with damaged(path, "remove the folder, and begin again"):
            if content["format"] != FORMAT:
                raise UserError(
                    f"{path} has format {content['format']}, but this Heedful reads format {FORMAT}: use the version "
                    f"that wrote it ({content['made_by']['heedful']})."
                )
            found = Manifest(**{**content, "job": Job(**content["job"])})
            if found.size < 1 or min(found.counts) < 0 or len(found.counts) != len(found.job.sources):
                raise ValueError("numbers of inputs")
            dict(found.job.facts())
            return found

    def is_begun(self) -> bool:
        """Whether there is a job; refuse a folder with other files."""
        # Listed before the manifest is looked for: another worker may begin in between, and the manifest comes first.
        files = [*self.path.iterdir()] if self.path.exists() else []
        if (self.path / MANIFEST).exists():
            return True
        if any(not file.name.startswith(".") for file in files):
            raise UserError(f"{self.path} has files, but no {MANIFEST} of a batch job: choose another --output.")
        return False

    def begin(self, manifest: Manifest) -> None:
        """Begin a job, unless another worker has."""
        write_new(self.path / MANIFEST, json_bytes(asdict(manifest)))

    def check(self, job: Job) -> None:
        """Refuse another job than the one that the folder has."""
        self._refuse_differences(dict(self.manifest.job.facts()), dict(job.facts()))

    def check_place(self, place: Mapping[str, str]) -> None:
        """Refuse a worker whose answers may differ in their last digits."""
        theirs, ours = ({f"the {name}": value for name, value in one.items()} for one in (self.manifest.place, place))
        self._refuse_differences(theirs, ours)

    def _refuse_differences(self, theirs: Mapping[str, object], ours: Mapping[str, object]) -> None:
        for name in {**theirs, **ours}:
            if theirs.get(name) != ours.get(name):
                there, here = _shown(theirs.get(name)), _shown(ours.get(name))
                raise UserError(f"{self.path} has another job: {name} is {there} there, and {here} here: {_OTHER}.")

    # --- its parts ----------------------------------------------------------------------------------------------------

    def part(self, number: int) -> Path:
        """Return the file of a part; in the order of their names parts are in the order of their numbers."""
        return self.path / f"part-{self._name(number)}"

    def _record(self, number: int) -> Path:
        return self.path / _RECORDS / f"{self._name(number)}.json"

    def _name(self, number: int) -> str:
        return f"{number:0{max(_DIGITS, len(str(self.manifest.parts - 1)))}}"

    def failed(self, number: int) -> list[str] | None:
        """Return why inputs of a part have no answer; None if the part is not there, or not whole."""
        record: Any = None
        try:
            record = read_json(self._record(number))
            if record["job"] == self.manifest.fingerprint and record["sha256"] == sha256_of_file(self.part(number)):
                return [str(line) for line in record["failed"]]
        except (UserError, LookupError, TypeError):  # what is missing or damaged is done again
            pass
        return None

    def put(self, number: int, data: bytes, failed: Sequence[str]) -> None:
        """Write a part that is not there."""
        write_bytes(self.part(number), data)
        sha256 = hashlib.sha256(data).hexdigest()
        write_json(self._record(number), {"job": self.manifest.fingerprint, "sha256": sha256, "failed": [*failed]})

    def count_recorded(self) -> int:
        """Return the number of parts that were written, whole or not."""
        return sum(self._record(number).exists() for number in range(self.manifest.parts))

    def check_whole(self) -> None:
        """Refuse a job of which parts are missing."""
        missing = [number for number in range(self.manifest.parts) if self.failed(number) is None]
        if missing:
            raise UserError(
                f"{self.path} lacks {counted(len(missing), 'part')} of {self.manifest.parts:,}, such as "
                f"{self.part(missing[0]).name}: give the command of the job again, which writes what is missing."
            )

    def read(self) -> Iterator[str]:
        """Yield the parts, in order."""
        for number in range(self.manifest.parts):
            yield read_bytes(self.part(number)).decode()


def _shown(value: object) -> str:
    text = "not given" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
