"""A worker of a batch job: some of the parts of a command's answers, each written when it is whole.

Worker i of N does the parts k with k mod N = i - 1. It does those that are not there, and nothing else: a worker that
was killed is started again by the same command. Workers do not know of each other, and may run on several machines
that see the same folder.
"""

import hashlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from heedful.base.errors import UserError, counted
from heedful.base.files import expand_user, sha256_of_file
from heedful.cli import command, messages
from heedful.cli.answering import parts
from heedful.cli.answering.inputs import Source
from heedful.cli.answering.parts_folder import Job, Manifest, PartsFolder, Shard
from heedful.config.reading.bundle_config import model_hashes
from heedful.data.corpora.formats.lines import Passed
from heedful.version import __version__

# Options that decide no answer, and those that the job has in another form.
_LEFT_OUT: Final = ("--output", "--shard", "--ray", "--data", "--device", "--precision", "--source", "--target")
_ARGUMENTS: Final = ("model", "inputs")
_FILES: Final = ("--terms",)  # whose content decides
_MODELS: Final = ("--with", "--adapter")


class Answered(NamedTuple):
    """A part of the answers, and why inputs of it have none."""

    data: bytes
    failed: Sequence[str]


class BatchJob:
    """A job and the parts of it that this process does."""

    def __init__(self, folder: Path, shard: Shard) -> None:
        self.folder, self._shard = PartsFolder(folder), shard
        self._failed = dict[int, Sequence[str]]()  # of the parts that are known to be whole

    @property
    def parts(self) -> range:
        """The parts that this worker does."""
        return self._shard.parts(self.folder.manifest.parts)

    @property
    def missing(self) -> list[int]:
        """Those of them that are not known to be there."""
        return [part for part in self.parts if part not in self._failed]

    @property
    def failed(self) -> list[str]:
        """Why inputs of this worker's parts have no answer, in order."""
        return [line for part in self.parts for line in self._failed.get(part, ())]

    def open(self, model: str, sources: Sequence[Source], form: str | None, place: "Place") -> bool:
        """Begin the job, or check that this command is of the one that has begun; return whether there is work left.

        `form` is the format of rows, where it is chosen. The device is looked for if there is work: that takes seconds.
        """
        job = describe(model, sources, form)
        if not self.folder.is_begun():
            counts = [count(source) for source in sources]
            self.folder.begin(Manifest(job, counts, parts.SIZE, place(), _versions()))
        self.folder.check(job)
        there = {part for part in self.parts if self._is_there(part)}
        if len(there) == len(self.parts):
            return False
        self.folder.check_place(place())
        return True

    def work(self, answer: Callable[[int], Answered]) -> None:
        """Do the parts that are not there, unless somebody else takes the job."""
        taker = _TAKER.get()
        if taker is not None:
            taker(self, answer)
            return
        missing = self.missing
        for part in missing:
            self.do(part, answer)
        tell_parts(self.folder, len(missing))

    def do(self, part: int, answer: Callable[[int], Answered]) -> None:
        """Do a part, unless it is there by now: another worker may have been given the same parts."""
        if self._is_there(part):
            return
        answered = answer(part)
        if not self._is_there(part):
            self.folder.put(part, answered.data, answered.failed)
            self._failed[part] = answered.failed

    def _is_there(self, part: int) -> bool:
        failed = self.folder.failed(part)
        if failed is not None:
            self._failed[part] = failed
        return failed is not None


Place = Callable[[], Mapping[str, str]]  # finds the device and the precision


def tell_parts(folder: PartsFolder, done: int) -> None:
    """Say how many parts were written by now."""
    there, total = folder.count_recorded(), folder.manifest.parts
    way_on = f": `heedful join {folder.path}` checks and joins them" if there == total else ""
    messages.note(f"{folder.path}: {counted(done, 'part')} written, {there:,} of {total:,} are there{way_on}.")


# --- what a job is ----------------------------------------------------------------------------------------------------


def describe(model: str, sources: Sequence[Source], form: str | None) -> Job:
    """Return what the command that runs answers, and how."""
    running = command.current()
    options = {name: value for name, value in running.options.items() if name not in (*_LEFT_OUT, *_ARGUMENTS)}
    for name in _FILES:
        if name in options:
            options[name] = sha256_of_file(expand_user(str(options[name])))
    for name in _MODELS:
        if name in options:
            options[name] = [model_hashes(expand_user(one)) for one in _listed(options[name])]
    if form is not None:
        options["--format"] = form
    names = [source.name for source in sources]
    return Job(running.verb, names, list(_files(sources)), model_hashes(expand_user(model)), options)


def _listed(value: object) -> Sequence[str]:
    """Return the values of an option that may be repeated, or of one that may not."""
    return value if isinstance(value, list) else [str(value)]


def check_files(sources: Sequence[Source]) -> None:
    """Refuse sources that cannot be read again."""
    for source in sources:
        if not source.files:
            raise UserError(f"A batch job reads its input more than once, which {source.name} cannot be: name a file.")


def _files(sources: Sequence[Source]) -> Iterator[dict[str, Any]]:
    """Yield the files of all sources, as a manifest has them."""
    check_files(sources)
    yield from ({"name": source.name, **_listing(source.files)} for source in sources if source.images)
    for path in dict.fromkeys(path for source in sources if not source.images for path in source.files):
        sha256 = sha256_of_file(path)
        yield {"name": str(path), "bytes": path.stat().st_size, "sha256": sha256}


def _listing(paths: Sequence[Path]) -> dict[str, Any]:
    """Return what tells many images from others without reading all of them: their names and sizes."""
    digest, total = hashlib.sha256(), 0
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{path}\t{size}\n".encode(errors="surrogateescape"))
        total += size
    return {"bytes": total, "sha256": digest.hexdigest()}


def count(source: Source) -> int:
    """Return the number of inputs of a source."""
    return source.count() or sum(1 for _ in source.inputs(Passed()))


def _versions() -> dict[str, str]:
    return {"heedful": __version__, "torch": version("torch"), "python": platform.python_version()}


# --- other workers ----------------------------------------------------------------------------------------------------

_Taker = Callable[[BatchJob, Callable[[int], Answered]], None]
_TAKER: Final = ContextVar[_Taker | None]("taker", default=None)


@contextmanager
def handing_over(take: _Taker) -> Iterator[None]:
    """Let a command inside the block hand over its job, with what answers a part of it, instead of doing it."""
    before = _TAKER.set(take)
    try:
        yield
    finally:
        _TAKER.reset(before)
