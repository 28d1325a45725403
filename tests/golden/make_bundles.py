"""Make golden bundles: tiny trained models with what they answer, for the test that old models still work.

    python -m tests.golden.make_bundles NAME...

A golden is made once and stays for ever: it stands for the models that people have on their disks, and the code that
wrote it is history. A new family, tokenizer or format adds a row to `BUNDLES` and one golden; the old ones are never
made again, and this program refuses to. Where a test of an old golden fails, the code is wrong, not the golden.

bundles/NAME/        the bundle, as training wrote it
bundles/NAME.json    {"asked": questions, "answered": what the model said on the day it was made}
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.golden.answers import answers
from tests.golden.texts import column, reviews, running_text, topic_pairs, topics, translated, tsv

import heedful

HERE: Final = Path(__file__).parent / "bundles"
_CLEAR: Final = 1e-4  # how far apart what is ranked must be, so that no other machine ranks it otherwise
_TRAIN: Final = """
[train]
steps = {steps}
schedule = {{ kind = "linear", lr = {lr}, warmup = 10 }}
clip_norm = 1.0
device = "cpu"
precision = "float32"
threads = 1
validation = {{ every = {steps} }}
"""

# --- data -------------------------------------------------------------------------------------------------------------

_PAIRS: Final = """
[data]
train = { source = "train.en", target = "train.de" }
valid = { source = "valid.en", target = "valid.de" }
batch_tokens = 256
max_length = 80
[decode]
max_extra = 12
"""
_LANGUAGES: Final = """
[data]
train = [
  { name = "German", source = "train.en", target = "train.de", to = "de" },
  { name = "Spanish", source = "train.en", target = "train.es", to = "es" },
]
valid = { source = "valid.en", target = "valid.es", to = "es" }
batch_tokens = 256
max_length = 40
[decode]
max_extra = 12
"""
_TEXTS: Final = """
[data]
train = {{ tsv = "{name}.tsv", label = 1, text = 2{second}, part = "1-7/8" }}
valid = {{ tsv = "{name}.tsv", label = 1, text = 2{second}, part = "0/8" }}
batch_tokens = 256
max_length = 32
"""
_RUNNING: Final = """
[data]
train = { text = "running.txt", part = "1-7/8" }
valid = { text = "running.txt", part = "0/8" }
batch_tokens = 256
max_length = 32
"""


def write_texts(folder: Path) -> None:
    """Write the files that the recipes name."""
    pairs = translated()
    for part, rows in (("train", [row for number, row in enumerate(pairs) if number % 5]), ("valid", pairs[::5])):
        for number, language in enumerate(("en", "de", "es")):
            (folder / f"{part}.{language}").write_text(column(rows, number))
    for name, labelled in (("reviews", reviews()), ("topics", topics()), ("pairs", topic_pairs())):
        (folder / f"{name}.tsv").write_text(tsv(labelled))
    (folder / "running.txt").write_text(running_text())


# --- models -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Golden:
    """A model to be made, and what to ask it."""

    data: str
    model: str
    asked: Mapping[str, Any]
    steps: int = 150
    lr: float = 0.03

    @property
    def recipe(self) -> str:
        """The whole recipe in TOML."""
        return self.data + self.model + _TRAIN.format(steps=self.steps, lr=self.lr)


_SOURCES: Final = ["the dog sees the tree today.", "a bird likes a small fish.", "the girl hears the man?"]
_TARGETS: Final = ["der Hund sieht den Baum heute.", "ein Vogel mag ein Haus.", "das Mädchen hört."]
_TO_GERMAN: Final = {"sources": _SOURCES, "targets": _TARGETS, "to": None, "aligned": True}
_OPINIONS: Final = ["The film was great. The cast was funny.", "The ending was dull.", "The story was odd, but great!"]

BUNDLES: Final[Mapping[str, Golden]] = {
    "transformer": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "byte_bpe"
size = 300
[model]
family = "transformer"
width = 8
heads = 2
layers = 2
inner = 16
""",
        _TO_GERMAN,
        steps=500,
        lr=0.01,
    ),
    "transformer-pre-norm-rope-separate": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "wordpiece"
size = 90
joint = false
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
decoder_layers = 2
inner = 16
norm = "pre"
positions = "rope"
activation = "swiglu"
tie = "none"
output_bias = true
""",
        _TO_GERMAN,
    ),
    "transformer-relative-silu": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "unigram"
size = 80
joint = false
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
norm = "pre"
final_norm = false
positions = "relative"
max_distance = 4
activation = "silu"
tie = "decoder"
embedding_scale = false
embedding_norm = true
""",
        _TO_GERMAN,
        steps=400,
        lr=0.01,
    ),
    "transformer-languages": Golden(
        _LANGUAGES,
        """
[tokenizer]
kind = "bpe"
size = 110
[model]
family = "transformer"
width = 8
heads = 4
layers = 1
inner = 16
positions = "learned"
max_positions = 48
activation = "gelu"
""",
        {
            "sources": [_SOURCES[0], _SOURCES[0], _SOURCES[1]],
            "targets": [_TARGETS[0], "el perro ve el árbol hoy.", "un pájaro quiere una casa."],
            "to": ["de", "es", "es"],
            "aligned": True,
        },
        steps=400,
        lr=0.01,
    ),
    "transformer-additive-entmax": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
positions = "sinusoidal_halves"
alignment = "additive"
distribution = "entmax"
alpha = 1.3
embeddings = 2
""",
        _TO_GERMAN,
    ),
    "transformer-kernel": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
alignment = "kernel"
features = 16
""",
        _TO_GERMAN,
    ),
    "transformer-alibi-sparsemax": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
norm = "pre"
positions = "alibi"
alignment = "general"
distribution = "sparsemax"
""",
        _TO_GERMAN,
    ),
    "recurrent-sutskever": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
joint = false
[model]
family = "recurrent"
wiring = "sutskever"
cell = "lstm"
width = 8
layers = 2
bidirectional = false
reverse_source = true
dropout = 0.0
""",
        _TO_GERMAN | {"aligned": False},
    ),
    "recurrent-cho": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "word"
[model]
family = "recurrent"
wiring = "cho"
width = 8
embedding = 6
dropout = 0.0
""",
        _TO_GERMAN | {"aligned": False},
    ),
    "recurrent-bahdanau": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "char"
[model]
family = "recurrent"
wiring = "bahdanau"
cell = "gru"
width = 8
encoder_width = 6
embedding = 6
dropout = 0.0
""",
        _TO_GERMAN,
        steps=120,
    ),
    "recurrent-luong-local": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "bpe"
size = 90
[model]
family = "recurrent"
wiring = "luong"
cell = "lstm"
width = 8
encoder_width = 4
window = "predicted"
half_width = 2
input_feeding = true
tie = "all"
dropout = 0.0
""",
        _TO_GERMAN,
    ),
    "mixed": Golden(
        _PAIRS,
        """
[tokenizer]
kind = "wordpiece"
size = 90
[model]
family = "mixed"
encoder = { family = "transformer", width = 8, heads = 2, layers = 1, inner = 16, dropout = 0.0 }
decoder = { family = "recurrent", wiring = "luong", cell = "gru", width = 8, embedding = 6, dropout = 0.0 }
""",
        _TO_GERMAN,
    ),
    "classifier-transformer": Golden(
        _TEXTS.format(name="reviews", second=""),
        """
[tokenizer]
kind = "unigram"
size = 60
[model]
family = "classifier"
encoder = { family = "transformer", width = 8, heads = 2, layers = 1, inner = 16 }
pool = "multi_dimensional"
""",
        {"classify": _OPINIONS, "seconds": None},
        steps=20,
    ),
    "classifier-recurrent-pairs": Golden(
        _TEXTS.format(name="pairs", second=", second = 3"),
        """
[tokenizer]
kind = "wordpiece"
size = 70
[model]
family = "classifier"
encoder = { family = "recurrent", cell = "lstm", width = 8, embedding = 8, layers = 2, dropout = 0.0 }
pool = "attention"
""",
        {
            "classify": ["The soup was fine.", "The lamp was fine."],
            "seconds": ["I ask about the tea.", "I ask about the cook."],
        },
        steps=60,
    ),
    "classifier-hierarchical": Golden(
        _TEXTS.format(name="reviews", second=""),
        """
[tokenizer]
kind = "word"
[model]
family = "classifier"
[model.encoder]
family = "hierarchical"
words = { family = "recurrent", width = 6, embedding = 8, dropout = 0.0 }
sentences = { width = 6, dropout = 0.0 }
""",
        {"classify": _OPINIONS, "seconds": None},
        steps=30,
    ),
    "classifier-bert-several": Golden(
        _TEXTS.format(name="topics", second=""),
        """
[tokenizer]
kind = "char"
[model]
family = "classifier"
encoder = { family = "bert", width = 8, heads = 2, layers = 1, inner = 16, max_positions = 48 }
pool = "mean"
pooler = true
labels = "several"
""",
        {
            "classify": ["We liked the soup and the bed.", "We liked the guide.", "We liked the weather."],
            "seconds": None,
        },
        steps=150,
    ),
    "bert": Golden(
        _RUNNING,
        """
[tokenizer]
kind = "wordpiece"
size = 80
[model]
family = "bert"
width = 12
heads = 2
layers = 2
inner = 16
max_positions = 32
next_sentence = true
""",
        {
            "fill": ["The dog [MASK] the tree today.", "A [MASK] likes the [MASK]."],
            "seconds": ["The man hears [MASK] song.", "The cat sees a house."],
            "embed": ["The dog sees a small fish.", "A bird"],
        },
        steps=500,
        lr=0.01,
    ),
}


# --- making -----------------------------------------------------------------------------------------------------------


def make(name: str) -> None:
    """Train a model in a folder that is thrown away, and keep its bundle and its answers."""
    kept, record = HERE / name, HERE / f"{name}.json"
    if kept.exists() or record.exists():
        raise SystemExit(f"{kept} is there: a golden is made once and stays for ever. Give a new one a new name.")
    golden, before = BUNDLES[name], Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HEEDFUL_CACHE"] = str(Path(scratch) / "cache")
        os.chdir(scratch)  # so that the bundle names files by themselves, and nothing of this machine
        try:
            write_texts(Path())
            Path("recipe.toml").write_text(golden.recipe)
            run = heedful.train("recipe.toml", name)
            for extra in ("checkpoints", "tensorboard"):
                shutil.rmtree(run / extra, ignore_errors=True)
            (run / "metrics.jsonl").unlink()
            answered = answers(run, golden.asked)
            refuse_close_calls(name, answered)
            shutil.copytree(run, kept)
        finally:
            os.chdir(before)
    record.write_text(json.dumps({"asked": golden.asked, "answered": answered}, ensure_ascii=False) + "\n")


def refuse_close_calls(name: str, answered: Mapping[str, Any]) -> None:
    """Refuse answers whose order may be another on another machine: ask something else, or train otherwise."""
    for first, second in _ranked(answered):
        if abs(first - second) < _CLEAR:
            raise SystemExit(f"{name}: {first} and {second} are too close to be ranked on every machine.")


def _ranked(answered: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    for found in answered.get("beam", ()):
        yield from pairwise(one["score"] for one in found)
    for said in answered.get("classified", ()):
        yield from pairwise(sorted(said["probabilities"].values()))
        yield from ((share, 0.5) for share in said["probabilities"].values())
    for filled in answered.get("filled", ()):
        for candidates in filled["masks"]:
            yield from pairwise(one["probability"] for one in candidates)


def main(names: Sequence[str]) -> None:
    """Make the goldens of these names."""
    unknown = [name for name in names if name not in BUNDLES]
    if unknown or not names:
        raise SystemExit(f"Name some of: {', '.join(BUNDLES)}")
    for name in names:
        make(name)


if __name__ == "__main__":
    main(sys.argv[1:])
