"""A few sentences and images as corpora of every form that a recipe can name, each with a recipe for a tiny model."""

import csv
import gzip
import io
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from benchmarks.damage.packed_mutators import packed
from PIL import Image

SOURCES: Final = ("the dog sees a house today.", "a bird likes a small fish.", "the girl hears the man?")
TARGETS: Final = ("der Hund sieht ein Haus heute.", "ein Vogel mag einen kleinen Fisch.", "das Mädchen hört.")
_TRANSLATOR: Final = "width = 8\nheads = 2\nlayers = 1\ninner = 8\n"
_CLASSIFIER: Final = 'family = "classifier"\nencoder = { family = "recurrent", width = 4 }\n'
_MASKED: Final = f'family = "bert"\nmax_positions = 32\n{_TRANSLATOR}'
_SMALL: Final = "width = 8, heads = 2, layers = 1, inner = 8"
_LANGUAGE: Final = f'family = "language"\ndecoder = {{ family = "transformer", {_SMALL} }}\n'
_TAGGER: Final = 'family = "tagger"\nencoder = { family = "recurrent", width = 4 }\n'
_REGRESSOR: Final = 'family = "regressor"\nencoder = { family = "recurrent", width = 4 }\n'
_READER: Final = f'family = "reader"\nencoder = {{ family = "transformer", {_SMALL}, segments = 3 }}\n'
_STEM: Final = 'encoder = { family = "convolutional", width = 8, stages = 1, depth = 1 }\n'
_SIZE: Final = "images = { height = 16, width = 16 }\n"
_SUBJECTS: Final = (("the dog", "der Hund"), ("a bird", "ein Vogel"), ("the girl", "das Mädchen"), ("Tom", "Tom"))
_VERBS: Final = (("sees", "sieht"), ("hears", "hört"), ("likes", "mag"))
_OBJECTS: Final = (("a house", "ein Haus"), ("small fish", "kleine Fische"))


@dataclass(frozen=True)
class SmallCorpus:
    """Files of a corpus by name, those that are damaged with names that begin with "c.", and a recipe for them."""

    kind: str  # of input: see kinds.py
    files: Mapping[str, bytes]
    table: str  # the corpus in the recipe
    model: str  # the recipe's [model]
    data: str = ""  # more keys of [data]
    before: str = ""  # keys at the top of the recipe
    tokenizer: bool = field(default=True)  # whether it reads texts

    @property
    def recipe(self) -> str:
        """The recipe."""
        return (
            f"{self.before}[data]\ntrain = {{ {self.table} }}\nvalid = {{ {self.table} }}\nbatch_tokens = 256\n"
            f"{self.data}[model]\n{self.model}"
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
    yield from _archives(pairs)
    yield from _tables(pairs)
    yield from _words(pairs)
    yield from _images()


def _archives(pairs: Sequence[tuple[str, str]]) -> Iterator[SmallCorpus]:
    english, german = (_lines(pair[side] for pair in pairs) for side in (0, 1))
    short = "max_length = 32\n"
    files = {"c.en": english, "c.de": german}
    yield SmallCorpus("table", files, 'source = "c.en", target = "c.de"', _TRANSLATOR, short)
    files = {"c.en.gz": gzip.compress(english, mtime=0), "c.de.xz": lzma.compress(german)}
    yield SmallCorpus("archive", files, 'source = "c.en.gz", target = "c.de.xz"', _TRANSLATOR, short)
    files = {"c.zip": packed({"en": english, "de": german})}
    yield SmallCorpus("archive", files, 'source = "c.zip:en", target = "c.zip:de"', _TRANSLATOR, short)
    files = {"c.jsonl.gz": gzip.compress(_jsonl(("en", "de"), pairs), mtime=0)}
    yield SmallCorpus("archive", files, 'jsonl = "c.jsonl.gz", source = "en", target = "de"', _TRANSLATOR, short)


def _tables(pairs: Sequence[tuple[str, str]]) -> Iterator[SmallCorpus]:
    reviews = [("good" if "house" in text else "bad", text) for text, _ in pairs]
    numbers = [(str(len(text)), text) for text, _ in pairs]
    short = "max_length = 32\n"
    columns = 'source = "en", target = "de"'
    pairs_tsv = {"c.tsv": _lines(map("\t".join, pairs))}
    yield SmallCorpus("table", pairs_tsv, 'tsv = "c.tsv", source = 1, target = 2', _TRANSLATOR, short)
    yield SmallCorpus("table", {"c.csv": _csv([("en", "de"), *pairs])}, f'csv = "c.csv", {columns}', _TRANSLATOR, short)
    yield SmallCorpus(
        "table", {"c.jsonl": _jsonl(("en", "de"), pairs)}, f'jsonl = "c.jsonl", {columns}', _TRANSLATOR, short
    )
    columns = 'label = "label", text = "text"'
    labelled = {"c.tsv": _lines(map("\t".join, reviews))}
    yield SmallCorpus("table", labelled, 'tsv = "c.tsv", label = 1, text = 2', _CLASSIFIER, short)
    labelled = {"c.csv": _csv([("label", "text"), *reviews])}
    yield SmallCorpus("table", labelled, f'csv = "c.csv", {columns}', _CLASSIFIER, short)
    labelled = {"c.jsonl": _jsonl(("label", "text"), reviews)}
    yield SmallCorpus("table", labelled, f'jsonl = "c.jsonl", {columns}', _CLASSIFIER, short)
    rated = {"c.tsv": _lines(map("\t".join, numbers))}
    yield SmallCorpus("table", rated, 'tsv = "c.tsv", number = 1, text = 2', _REGRESSOR, short)
    text = _lines(text for text, _ in pairs).replace(b"Tom", b"\nTom")
    yield SmallCorpus("table", {"c.txt": text}, 'text = "c.txt"', _MASKED, short)
    yield SmallCorpus("table", {"c.txt": text}, 'text = "c.txt"', _LANGUAGE, short)


def _words(pairs: Sequence[tuple[str, str]]) -> Iterator[SmallCorpus]:
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{a}</seg></tuv><tuv xml:lang="de"><seg>{b} <ph>x</ph></seg></tuv></tu>'
        for a, b in pairs
    )
    tmx = f'<?xml version="1.0" encoding="UTF-8"?><tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'
    short = "max_length = 32\n"
    yield SmallCorpus("memory", {"c.tmx": tmx.encode()}, 'tmx = "c.tmx"', _TRANSLATOR, short)
    units = "".join(
        f'<trans-unit id="{n}"><source>{a}</source><target>{b}</target></trans-unit>' for n, (a, b) in enumerate(pairs)
    )
    xliff = (
        '<?xml version="1.0" encoding="UTF-8"?><xliff version="1.2"><file source-language="en" target-language="de">'
        f"<body>{units}</body></file></xliff>"
    )
    yield SmallCorpus("memory", {"c.xlf": xliff.encode()}, 'xliff = "c.xlf"', _TRANSLATOR, short)
    sentences = [text.rstrip(".").split() for text, _ in pairs]
    tags = {"the": "DET", "a": "DET", "small": "ADJ"}
    conll = "".join("".join(f"{w} {tags.get(w, 'NOUN')}\n" for w in words) + "\n" for words in sentences)
    yield SmallCorpus("words", {"c.conll": conll.encode()}, 'conll = "c.conll"', _TAGGER, short)
    conllu = "".join(
        f"# text = {' '.join(words)}\n"
        + "".join(
            f"{n}\t{w}\t{w}\t{tags.get(w, 'NOUN')}\tX\t_\t{n - 1}\tdep\t_\t_\n" for n, w in enumerate(words, start=1)
        )
        + "\n"
        for words in sentences
    )
    yield SmallCorpus("words", {"c.conllu": conllu.encode()}, 'conll = "c.conllu"', _TAGGER, short)
    trees = "".join(
        f"(ROOT (S (NP {' '.join(f'(NN {w})' for w in words[:2])}) (VP {' '.join(f'(VB {w})' for w in words[2:])})))\n"
        for words in sentences
    )
    yield SmallCorpus(
        "words", {"c.trees": trees.encode()}, 'trees = "c.trees"', _TRANSLATOR, "max_length = 64\n", 'task = "parse"\n'
    )
    asked = [
        {
            "context": text,
            "qas": [{"id": str(n), "question": "who?", "answers": [{"text": text[:5], "answer_start": 0}]}],
        }
        for n, (text, _) in enumerate(pairs)
    ]
    squad = json.dumps({"version": "1.1", "data": [{"title": "x", "paragraphs": asked}]}).encode()
    yield SmallCorpus("words", {"c.json": squad}, 'squad = "c.json"', _READER, "max_length = 48\n")
    rows = [
        {"context": text, "question": "who?", "answers": {"text": [text[:5]], "answer_start": [0]}} for text, _ in pairs
    ]
    yield SmallCorpus(
        "words", {"c.jsonl": _lines(map(json.dumps, rows))}, 'squad = "c.jsonl"', _READER, "max_length = 48\n"
    )


def _images() -> Iterator[SmallCorpus]:
    classifier = f'family = "image_classifier"\n{_STEM}'
    folder = {
        f"photos/{label}/c.{number}{suffix}": picture(suffix, number)
        for label, number in (("a", 1), ("b", 2))
        for suffix in (".png", ".jpg", ".webp")
    }
    yield SmallCorpus("image", folder, 'images = "photos"', classifier, _SIZE, tokenizer=False)
    captions = _jsonl(("path", "caption"), [(f"c.{n}.png", f"a thing and {n}") for n in range(3)])
    described = {"c.jsonl": captions, **{f"c.{n}.png": picture(".png", n) for n in range(3)}}
    decoder = 'decoder = { family = "recurrent", wiring = "luong", width = 8 }\n'
    captioner = f'family = "captioner"\n{_STEM}{decoder}'
    table = 'jsonl = "c.jsonl", image = "path", caption = "caption"'
    yield SmallCorpus("image", described, table, captioner, _SIZE)
    pixels = np.arange(12 * 8 * 8, dtype=np.uint8).reshape(12, 8, 8)
    labels = np.arange(12, dtype=np.uint8) % 3
    idx = {"c.images-idx": _idx(pixels), "c.labels-idx.gz": gzip.compress(_idx(labels), mtime=0)}
    yield SmallCorpus(
        "array", idx, 'idx = "c.images-idx", labels = "c.labels-idx.gz"', classifier, _SIZE, tokenizer=False
    )
    npz = {"c.npz": packed({"x.npy": _npy(pixels), "y.npy": _npy(labels)})}
    yield SmallCorpus("array", npz, 'npz = "c.npz"', classifier, _SIZE, tokenizer=False)


def picture(suffix: str, number: int = 0) -> bytes:
    """Return an image whose pixels are made by a formula."""
    pixels = np.fromfunction(lambda y, x, c: (7 * y + (5 + number) * x + 60 * c) % 256, (20, 24, 3)).astype(np.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, {".jpg": "JPEG"}.get(suffix, suffix[1:].upper()))
    return written.getvalue()


def _npy(array: np.ndarray) -> bytes:
    written = io.BytesIO()
    np.save(written, array)
    return written.getvalue()


def _idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


def _lines(texts: Iterable[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def _jsonl(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    return _lines(json.dumps(dict(zip(names, row, strict=True))) for row in rows)


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()
