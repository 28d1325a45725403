"""What verbs read: files, texts and standard input, lines as they arrive, texts or pairs of texts on them; images."""

import io
import os
import re
import select
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final, Protocol

from heedful.base.errors import UserError
from heedful.base.files import expand_user, read_json
from heedful.cli import messages
from heedful.config.corpora.old_names import OLD_KINDS
from heedful.data.corpora.formats.lines import (
    LONGEST,
    Passed,
    bounded_lines,
    check_exists,
    decode_lines,
    locate,
    read_lines,
    split_member,
)

_STANDARD_INPUT: Final = "-"
_HINT: Final = "a text of one word is given with --text"
_LIKE_A_TEXT: Final = re.compile(r"\s|\[MASK\]|<mask>")
_LIKE_A_FILE: Final = re.compile(r"(?i)\.(txt|tsv|csv|jsonl?|gz|xz|zip)(:.|\Z)")  # of the last word
_PATIENCE: Final = 0.02  # seconds in which a writer that is not waiting for an answer sends its next line
_READ: Final = 1 << 16  # bytes


class Lines(Protocol):
    """A function that opens the lines of an input."""

    def __call__(self, passed: Passed | None = None, /) -> Iterable[str]:
        """Yield all lines but those that are passed over."""


@dataclass(frozen=True)
class InputLines:
    """The lines of one input, its name in messages, and whether the next line has arrived."""

    name: str
    lines: Lines
    ready: Callable[[], bool] = lambda: True
    count: Callable[[], int | None] = lambda: None  # the number of lines, if it can be known before they are read
    typed: bool = False  # whether somebody types them
    file: Path | None = None  # that they are read from, if it can be read again

    def numbered(self, passed: Passed | None = None) -> Iterator[tuple[int, str]]:
        """Yield each line with its number, counted from 1."""
        number, passed = 0, passed or Passed()
        for line in self.lines(passed):
            number = max(number, passed.lines) + 1
            yield number, line

    def located(self, passed: Passed | None = None) -> Iterator[tuple[str, str]]:
        """Yield each line, and where it is, for messages."""
        for number, line in self.numbered(passed):
            yield line, f"{self.name}, line {number:,}"


def open_inputs(
    arguments: Sequence[str] | None,
    texts: Sequence[str] | None = None,
    on_each_line: str = "one text per line",
    plain: Sequence[str] | None = None,
    hint: str = _HINT,
) -> list[InputLines]:
    """Open what a command line names, in its order: files, texts, and standard input for `-` or for nothing at all.

    An argument that names a file is that file. Any other that has white space or a mask in it is a text, unless it ends
    like the name of a file. `texts` are texts whatever they look like. `on_each_line` tells who types what to type.
    With `plain`, a file that is a table or the like is refused, unless it is of these kinds. `hint` says what else a
    word that names no file could be.
    """
    named = [(argument, not is_file(argument)) for argument in arguments or ()]
    named += [(text, True) for text in texts or ()]
    opened: list[InputLines] = []
    for is_text, group in groupby(named or [(_STANDARD_INPUT, False)], key=lambda entry: entry[1]):
        names = [name for name, _ in group]
        if is_text:
            opened.append(of_texts(names, "texts"))
        else:
            opened += [
                standard_input(on_each_line) if name == _STANDARD_INPUT else _of_file(name, plain, hint)
                for name in names
            ]
    return opened


def of_texts(texts: Sequence[str], name: str) -> InputLines:
    """Return texts of the command line as an input; messages call it by this name."""
    return InputLines(name, _lines_of(lambda: texts), count=lambda: len(texts))


def _lines_of(items: Callable[[], Iterable[str]]) -> Lines:
    """Return what opens lines that are there, or that arrive."""
    return lambda passed=None, /: (passed or Passed()).over(items())


def as_one_text(entry: InputLines) -> InputLines:
    """Return all lines of an input as one text with its line breaks."""
    return replace(entry, lines=_lines_of(lambda: ["\n".join(entry.lines())]), ready=lambda: True, count=lambda: 1)


def is_file(argument: str) -> bool:
    """Whether an argument is, or must be meant as, the name of a file."""
    path = os.path.expanduser(split_member(argument)[0])  # noqa: PTH111 - a text may begin with "~" or be very long
    if not argument:
        return False
    if argument == _STANDARD_INPUT or os.path.lexists(path):
        return True
    last = "" if argument[-1].isspace() else argument.split()[-1]
    return not _LIKE_A_TEXT.search(argument) or bool(_LIKE_A_FILE.search(last))


def _of_file(name: str, plain: Sequence[str] | None, hint: str) -> InputLines:
    bare = "/" not in name and "." not in name
    file = replace(locate(name), hint=f" ({hint})" if bare else "", stream=True)  # instead of a hint about recipes
    check_exists(file)
    if plain is not None and file.path.is_file():
        _refuse_table(name, plain)

    def count() -> int | None:
        return sum(1 for _ in read_lines(file)) if file.path.is_file() else None

    def lines(passed: Passed | None = None, /) -> Iterable[str]:
        return read_lines(file, passed=passed)

    return InputLines(file.name, lines, count=count, file=file.path if file.path.is_file() else None)


def _refuse_table(name: str, plain: Sequence[str]) -> None:
    """Refuse a file with rows, whose lines would be taken for texts; files of these kinds are lines of text here."""
    from heedful.data.corpora.formats.detection import detect  # which takes a moment to import

    try:
        found = detect(name)
    except UserError:  # what cannot be read is refused where it is read
        return
    if found.container not in ("text", "empty", "image", *plain) and found.certainty != "in doubt":
        raise UserError(
            f"{name} is not plain text, but {found.words}: give it as --data {name}, or as standard input "
            f"(`< {name}`) if each line of it is a text."
        )


def standard_input(on_each_line: str = "one text per line") -> InputLines:
    """Open standard input; lines of a pipe or a terminal are taken as they arrive."""
    name = "standard input"
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # a stream in memory
        descriptor = None
    if descriptor is None or stat.S_ISREG(os.fstat(descriptor).st_mode):  # nothing has to be waited for
        return InputLines(name, _lines_of(lambda: decode_lines(bounded_lines(sys.stdin.buffer), name)))
    typed = sys.stdin.isatty() and sys.stderr.isatty() and not messages.is_quiet()
    if typed:
        messages.note(f"reading from the terminal, {on_each_line}; Ctrl-D ends.")
    arriving = ArrivingLines(descriptor, prompt="> " if typed else "")
    return InputLines(name, _lines_of(lambda: decode_lines(arriving, name)), arriving.ready, typed=typed)


class ArrivingLines:
    """The lines of a file descriptor, each with its newline, and whether the next one has arrived."""

    def __init__(self, descriptor: int, prompt: str = "") -> None:
        self._descriptor, self._prompt = descriptor, prompt
        self._lines: deque[bytes] = deque()
        self._partial = bytearray()  # the start of a line whose end has not arrived
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            while self._lines:
                yield self._lines.popleft()
            if self._ended:
                print(end="\n" if self._prompt else "", file=sys.stderr, flush=True)
                return
            print(end=self._prompt, file=sys.stderr, flush=True)  # whoever types sees that it is their turn
            self._receive()

    def ready(self) -> bool:
        """Whether the next line has arrived."""
        while not self._lines and not self._ended and select.select([self._descriptor], [], [], _PATIENCE)[0]:
            self._receive()
        return bool(self._lines)

    def _receive(self) -> None:
        """Take what has arrived; wait if nothing has."""
        data = os.read(self._descriptor, _READ)
        self._ended = not data
        first, *others = data.split(b"\n")
        self._add(first)
        for other in others:
            self._add(b"\n")
            self._lines.append(bytes(self._partial))
            self._partial = bytearray()
            self._add(other)
        if self._ended and self._partial:
            self._lines.append(bytes(self._partial))

    def _add(self, data: bytes) -> None:
        """Add to the line that is arriving; of one that is longer than memory should hold, the beginning is kept."""
        self._partial += data[: LONGEST - len(self._partial)]


# --- images: files, and folders of them -------------------------------------------------------------------------------


_SEEING: Final = ("image_classifier", "captioner", "image_answerer", "image_regressor")  # families that read images
_IMAGES_ONLY: Final = "This model reads images: give their files, or folders of them."


def sees_images(model: str) -> bool:
    """Whether the model in a folder reads images, whatever it does with them."""
    return family_of(model) in _SEEING


def family_of(model: str) -> str | None:
    """Return the family of the model in a folder; None for what is not a model: loading it says why."""
    try:
        config = read_json(expand_user(model) / "config.json")
    except UserError:
        return None
    recipe = config.get("recipe") if isinstance(config, dict) else None
    table = recipe.get("model") if isinstance(recipe, dict) else None
    family = table.get("family") if isinstance(table, dict) else None
    return OLD_KINDS.get(family, family) if isinstance(family, str) else None


def image_inputs(arguments: Sequence[str] | None, texts: Sequence[str] | None = None) -> list[Path]:
    """Return the images that a command line names: files as they are, and all images in folders, by name."""
    if texts:
        raise UserError("--text gives texts, but this model reads images: leave it out.")
    if not arguments:
        raise UserError(_IMAGES_ONLY)
    from heedful.data.images.decoding import is_image_name  # imports NumPy

    found: list[Path] = []
    for argument in arguments:
        if not argument:  # as a path it would be the current folder
            raise UserError(f"An argument is empty. {_IMAGES_ONLY}")
        path = expand_user(argument)
        if not path.is_dir():
            if not path.exists():
                raise UserError(f"{path}: no such file." + ("" if is_image_name(path) else f" {_IMAGES_ONLY}"))
            found.append(path)
            continue
        inside = sorted(file for file in path.rglob("*") if is_image_name(file) and file.is_file())
        if not inside:
            raise UserError(f"{path} has no images in it (.png, .jpg or .webp).")
        found += inside
    return found
