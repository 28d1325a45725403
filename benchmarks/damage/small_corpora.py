"""A few sentences as corpora of every form that a recipe can name, each with a recipe for a tiny model."""

import csv
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SOURCES: Final = ("the dog sees a house today.", "a bird likes a small fish.", "the girl hears the man?")
TARGETS: Final = ("der Hund sieht ein Haus heute.", "ein Vogel mag einen kleinen Fisch.", "das Mädchen hört.")
_TRANSLATOR: Final = "width = 8\nheads = 2\nlayers = 1\ninner = 8\n"
_CLASSIFIER: Final = 'family = "classifier"\nencoder = { family = "recurrent", width = 4 }\n'
_MASKED: Final = f'family = "bert"\nmax_positions = 32\n{_TRANSLATOR}'
_SUBJECTS: Final = (("the dog", "der Hund"), ("a bird", "ein Vogel"), ("the girl", "das Mädchen"), ("Tom", "Tom"))
_VERBS: Final = (("sees", "sieht"), ("hears", "hört"), ("likes", "mag"))
_OBJECTS: Final = (("a house", "ein Haus"), ("small fish", "kleine Fische"))


@dataclass(frozen=True)
class SmallCorpus:
    """Files of a corpus by name, each beginning with "c.", and a recipe that trains on them."""

    files: Mapping[str, bytes]
    table: str  # the corpus in the recipe
    model: str  # the recipe's [model]

    @property
    def recipe(self) -> str:
        """The recipe."""
        return (
            f"[data]\ntrain = {{ {self.table} }}\nvalid = {{ {self.table} }}\nbatch_tokens = 128\nmax_length = 32\n"
            f"[model]\n{self.model}"
            '[train]\nsteps = 2\ndevice = "cpu"\nprecision = "float32"\nthreads = 1\n'
        )


def small_corpora() -> Iterator[SmallCorpus]:
    """Yield a corpus of every form."""
    pairs = [
        (f"{subject[0]} {verb[0]} {thing[0]}.", f"{subject[1]} {verb[1]} {thing[1]}.")
        for subject in _SUBJECTS
        for verb in _VERBS
        for thing in _OBJECTS
    ]
    english, german = (_lines(pair[side] for pair in pairs) for side in (0, 1))
    reviews = [("good" if "house" in text else "bad", text) for text, _ in pairs]
    yield SmallCorpus({"c.en": english, "c.de": german}, 'source = "c.en", target = "c.de"', _TRANSLATOR)
    packed = {"c.en.gz": gzip.compress(english, mtime=0), "c.de.xz": lzma.compress(german)}
    yield SmallCorpus(packed, 'source = "c.en.gz", target = "c.de.xz"', _TRANSLATOR)
    archive = {"c.zip": _zip({"en": english, "de": german})}
    yield SmallCorpus(archive, 'source = "c.zip:en", target = "c.zip:de"', _TRANSLATOR)
    columns = 'source = "en", target = "de"'
    yield SmallCorpus({"c.tsv": _lines(map("\t".join, pairs))}, 'tsv = "c.tsv", source = 1, target = 2', _TRANSLATOR)
    yield SmallCorpus({"c.csv": _csv([("en", "de"), *pairs])}, f'csv = "c.csv", {columns}', _TRANSLATOR)
    yield SmallCorpus({"c.jsonl": _jsonl(("en", "de"), pairs)}, f'jsonl = "c.jsonl", {columns}', _TRANSLATOR)
    columns = 'label = "label", text = "text"'
    yield SmallCorpus({"c.tsv": _lines(map("\t".join, reviews))}, 'tsv = "c.tsv", label = 1, text = 2', _CLASSIFIER)
    yield SmallCorpus({"c.csv": _csv([("label", "text"), *reviews])}, f'csv = "c.csv", {columns}', _CLASSIFIER)
    yield SmallCorpus({"c.jsonl": _jsonl(("label", "text"), reviews)}, f'jsonl = "c.jsonl", {columns}', _CLASSIFIER)
    yield SmallCorpus({"c.txt": english.replace(b"Tom", b"\nTom")}, 'text = "c.txt"', _MASKED)


def _lines(texts: Iterable[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def _jsonl(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    return _lines(json.dumps(dict(zip(names, row, strict=True))) for row in rows)


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()


def _zip(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)  # the same bytes whenever it is made
    return written.getvalue()
