"""What the folder of a model would reveal if it were published: places, names, data, and words that look private.

Only what can be read is searched: texts, and the header of the weights. What weights remember of their training data
cannot be told in this way.
"""

import json
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from getpass import getuser
from pathlib import Path
from typing import Final

from heedful.base.errors import UserError, counted, machine_faults
from heedful.config.reading.load import recipe_from_json
from heedful.config.reading.places import paths_of
from heedful.doctor.findings import SEVERITIES, Finding, Severity

LICENSE: Final = "LICENSE"
_BUNDLE: Final = re.compile(
    rf"README\.md|{LICENSE}|config\.json|tokenizer(\.\w+)?\.json|(model|shortlist)\.safetensors"
)
_READABLE: Final = frozenset((".json", ".jsonl", ".md", ".html", ".txt", ".toml", ".csv", ".tsv", ""))
_MOST_BYTES: Final = 1 << 27  # of a file that are searched
_SHOWN: Final = 3  # examples of a finding
_COMMON_NAMES: Final = frozenset(("root", "user", "admin", "ubuntu", "localhost", "runner", "home"))  # tell nothing

# Repetitions are bounded, so that no text takes longer than its length.
_PATHS: Final = re.compile(
    r"(?<![\w:/.\\~-])(?:/[\w.@+~-]{1,255}){2,64}|(?<![\w:/.\\])~[\w.-]{1,64}/[\w./-]{1,255}|"
    r"\b[A-Za-z]:\\{1,2}[\w. -]{1,255}"
)
_ADDRESSES: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}")
_KEYS: Final = re.compile(
    r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|sk-[A-Za-z0-9_-]{20,100}|hf_[A-Za-z0-9]{30,60}|"
    r"xox[abp]-[A-Za-z0-9-]{10,100}|eyJ[\w-]{10,500}\.[\w-]{10,500})|-----BEGIN [A-Z ]{3,30}PRIVATE KEY"
)

_HASHED: Final = "of the recipe in config.json only [model] is part of a hash."
_ADVICE_BY_HAND: Final = f"Replace it by hand: {_HASHED} Models that this version of Heedful writes do not have it."
_ADVICE_OF_DATA: Final = f"They show what the model was trained on. To hide that, replace them by hand: {_HASHED}"
_ADVICE_OF_RUN: Final = "It belongs to the run: leave it out."


@dataclass(frozen=True)
class PublishedModel:
    """What would be published of a model, what belongs to its run alone, and what can be read in both."""

    model: str
    files: Sequence[str]  # of the bundle
    others: Sequence[str]  # files and folders of the run
    findings: Sequence[Finding]


def examine_model(folder: Path) -> PublishedModel:
    """Search the folder of a model for what it would reveal."""
    with machine_faults(folder):
        names = sorted(path.name for path in folder.iterdir())
    files = [name for name in names if _BUNDLE.fullmatch(name)]
    others = [name for name in names if not _BUNDLE.fullmatch(name)]
    found = [finding for name in files for finding in _search(folder / name, name)]
    if "config.json" in files:
        found += _data_of(folder / "config.json")
    if others:
        shown = [f"{name}/" if (folder / name).is_dir() else name for name in others]
        advice = f"Copy {', '.join(files)} to another folder, and publish that one."
        what = f"the folder also has what belongs to a run, not to its model: {', '.join(shown)}"
        found.append(_finding("warning", "run", what, advice))
        for path in _files_of([folder / name for name in others]):
            of_run = _search(path, str(path.relative_to(folder)))
            found += [replace(finding, advice=_ADVICE_OF_RUN) for finding in of_run]
    ordered = sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
    return PublishedModel(str(folder), files, others, ordered)


def _search(file: Path, name: str) -> Iterator[Finding]:
    """Yield what a file, or its name, reveals."""
    text = _text_of(file)
    own = [word for word in _own_names() if word in name or word in text]
    if own:
        what = f"{name} has {', '.join(own)}: names of this user or this machine"
        yield _finding("warning", "name", what, _ADVICE_BY_HAND, name, lines=_lines(text, own[0]))
    rows: tuple[tuple[Severity, str, re.Pattern[str], str, str], ...] = (
        ("warning", "path", _PATHS, "paths of a machine", _ADVICE_BY_HAND),
        ("warning", "key", _KEYS, "words that look like keys or passwords", "Remove them from the training data."),
        ("note", "address", _ADDRESSES, "words that look like addresses", "Were they to be published? If not, remove "
         "them from the training data."),
    )  # fmt: skip
    for severity, kind, pattern, what, advice in rows:
        hits = dict.fromkeys(found[0] for found in pattern.finditer(text))
        if hits:
            first, told = next(iter(hits)), _first([*hits])
            yield _finding(severity, kind, f"{len(hits):,} {what}", advice, name, _lines(text, first), told, len(hits))
    if name.startswith("tokenizer"):
        what = f"{name} has {_pieces(text):,} pieces, learned from training data"
        yield _finding("note", "vocabulary", what, "Rare words and names of the data can be read there.", name)


def _data_of(config: Path) -> Iterator[Finding]:
    """Yield the files and folders that a recipe names: of its data, of a teacher, of the model that it began with."""
    try:
        recipe = recipe_from_json(json.loads(_text_of(config))["recipe"], config.name)
    except (UserError, ValueError, KeyError, TypeError, RecursionError):  # damaged, or of a task of somebody's own
        return
    names = [*dict.fromkeys(path for _, path in paths_of(recipe) if path)]
    if names:
        what = f"config.json has {counted(len(names), 'name')} of files and folders"
        yield _finding("note", "data", what, _ADVICE_OF_DATA, config.name, example=_first(names), count=len(names))


def _first(examples: Sequence[str]) -> str:
    return ", ".join(examples[:_SHOWN]) + (", …" if len(examples) > _SHOWN else "")


def _finding(
    severity: Severity,
    kind: str,
    what: str,
    advice: str,
    file: str = "",
    lines: Sequence[int] = (),
    example: str = "",
    count: int | None = None,
) -> Finding:
    return Finding(severity, kind, "model", what, advice, file=file, lines=tuple(lines), example=example, count=count)


def _files_of(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            yield from (inner for inner in sorted(path.rglob("*")) if inner.is_file())
        elif path.is_file():
            yield path


def _text_of(file: Path) -> str:
    """Return the text of a file as far as it is one; of weights it is their header."""
    with machine_faults(file), file.open("rb") as opened:
        if file.suffix == ".safetensors":
            size = int.from_bytes(opened.read(8), "little")
            data = opened.read(min(size, _MOST_BYTES))
        else:
            data = opened.read(_MOST_BYTES) if file.suffix in _READABLE else b""
    return data.decode(errors="replace")


def _own_names() -> list[str]:
    """Return the names of this user and this machine that are more than a word of any text."""
    names = [socket.gethostname(), os.environ.get("HOSTNAME", "")]
    with suppress(KeyError, OSError, RuntimeError):  # a user without a home or a name, as in containers
        names.append(str(Path.home()))
        names.append(getuser())
    return [name for name in dict.fromkeys(names) if len(name) > 3 and name.lower().strip("/") not in _COMMON_NAMES]


def _lines(text: str, word: str) -> list[int]:
    """Return the number of the first line that has a word; nothing if only the name of the file has it."""
    place = text.find(word)
    return [] if place < 0 else [text.count("\n", 0, place) + 1]


def _pieces(text: str) -> int:
    try:
        vocabulary = json.loads(text)["model"]["vocab"]
        return len(vocabulary)
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
