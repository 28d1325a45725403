"""The logs of a run, one JSON object per line: its metrics, its samples, and what its instruments measured.

A log never decides whether a run resumes. It can be torn by lost power, edited or replaced: a line that is not as a run
writes it is left out, with one note for the file that names the first such line.
"""

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heedful.base.errors import READING_FAULTS, HeedfulError, machine_faults, user_faults
from heedful.base.files import refuse_special_file
from heedful.base.notes import note

METRICS: Final = "metrics.jsonl"  # one line per logged step and per validation
SAMPLES: Final = "samples.jsonl"  # one line per validation: what the model said to a few inputs
INSTRUMENTS: Final = "instruments.jsonl"  # what instruments measured, where a recipe asks for them

_FAULTS: Final = {number: words for number, words in READING_FAULTS.items() if number != errno.ENOENT}
_LONGEST: Final = 1 << 23  # bytes of a line: instruments of a deep network write a tenth of that

Entry = dict[str, Any]


# --- lines as runs write them -----------------------------------------------------------------------------------------

_Count = Annotated[int, Field(ge=0, le=2**53)]
_LARGEST: Final = 1e306  # with room to draw axes around it; a perplexity is at most e^700
_Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)] | None  # None: it was not finite


class _Line(BaseModel):
    """A line of any log; keys that it does not name may have any value."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Entry(_Line):
    step: _Count


class _Scores(_Entry):
    __pydantic_extra__: dict[str, _Number] = Field(init=False)
    part: Literal["train", "valid"]


class _Training(_Scores):
    loss: _Number


class _OtherPart(_Entry):
    part: str


class _Sample(_Line):
    input: str
    reference: str
    output: str


class _Samples(_Entry):
    samples: list[_Sample]


class _Histogram(_Line):
    zeros: _Count
    start: Annotated[float, Field(alias="from", ge=-1000, le=1000)]  # a power of ten
    counts: Annotated[list[_Count], Field(max_length=10_000)]


class _Part(_Line):
    layer: str
    kind: str
    size: _Count
    weight: _Number
    gradient: _Number
    update: _Number
    histogram: _Histogram | None = None


class _Heads(_Line):
    layer: str
    kind: str
    entropy: list[_Number]


class _Measurement(_Entry):
    learning_rate: _Number
    weights: list[_Part]
    attention: list[_Heads] = []


def _kind(file: str, entry: Entry) -> type[_Entry]:
    """Return what a line of a log must be."""
    if file == SAMPLES:
        return _Samples
    if file == INSTRUMENTS:
        return _Measurement
    match entry.get("part"):
        case "train":
            return _Training
        case "valid":
            return _Scores
        case _:
            return _OtherPart


# --- reading ----------------------------------------------------------------------------------------------------------


def read_log(file: Path, needed: bool = False) -> list[Entry]:
    """Return the sound lines of a log in order: see `sound_lines`."""
    return [entry for _, entry in sound_lines(file, needed)]


def sound_lines(file: Path, needed: bool = False) -> list[tuple[bytes, Entry]]:
    """Return the sound lines of a log in order, as bytes and as values; note what is left out.

    A log that does not exist has no lines. One that cannot be read (a folder in its place, no permission, a failing
    disk) is an error where it is `needed`, and left out with a note elsewhere.
    """
    sound: list[tuple[bytes, Entry]] = []
    odd: list[tuple[int, str]] = []
    try:
        for number, line in _lines(file):
            try:
                sound.append((line, _entry(file.name, line)))
            except ValueError as error:
                odd.append((number, str(error)))
    except FileNotFoundError:
        return []
    except HeedfulError as error:
        if needed:
            raise
        note(f"{error} It is left out.")
        return []
    if odd:
        (number, reason), *others = odd
        which = f"line {number:,} is" if not others else f"line {number:,} and {len(others):,} more are"
        note(f"{file}: {which} left out, as no run writes this: {reason}")
    return sound


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers, without their ends; of one that is too long only its start."""
    with machine_faults(file), user_faults(file, _FAULTS):
        refuse_special_file(file)
        with file.open("rb") as opened:
            number = 0
            while line := opened.readline(_LONGEST + 1):
                number += 1
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = opened.readline(1 << 20)
                if line.strip():
                    yield number, line.rstrip(b"\r\n")


def _entry(file: str, line: bytes) -> Entry:
    """Return the object of a line; a ValueError says why it is none that a run writes."""
    if len(line) > _LONGEST:
        raise ValueError(f"it has over {_LONGEST:,} bytes")
    try:
        entry = json.loads(line, parse_constant=lambda name: None)  # NaN and Infinity are not JSON
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(entry, dict):
        raise ValueError("it is not an object")
    try:
        _kind(file, entry).model_validate(entry)
    except ValidationError as error:
        raise ValueError(_reason(error)) from None
    return entry


def _reason(error: ValidationError) -> str:
    """Say what is wrong with the first value that is."""
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"`{key}` is missing"
    text = json.dumps(first["input"])
    return f"`{key}` is {text if len(text) <= 40 else f'{text[:40]}...'}"
