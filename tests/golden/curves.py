"""Golden curves: the losses of twenty updates of every family, so that a change of the code shows as one of numbers.

A change that is not meant to alter what is computed shows the same bits before and after it, on one machine:

    python tests/golden/curves.py --record before.json      # in the commit before
    python tests/golden/curves.py --compare before.json     # in the commit after; tells what differs, and from where on

`curves.json`, which the tests compare with, holds for other machines too, within a tolerance. It was made once; a case
that is added adds a row: python tests/golden/curves.py --write --only NAME. To write a row anew is to say that the
numbers were meant to change.

Everything goes the way of a user: texts and a recipe in files, a run, what it recorded and the weights that it left.
What else is asked of the package stands in `training`.
"""

import argparse
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from rich.console import Console
from safetensors.numpy import load_file

UPDATES: Final = 20
COMMITTED: Final = Path(__file__).with_name("curves.json")

Table = Mapping[str, Any]


# --- texts ------------------------------------------------------------------------------------------------------------

NOUNS: Final = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jackdaw", "kingfisher", "lapwing")
PRAISE: Final = ("great", "lovely", "funny", "superb")
BLAME: Final = ("dull", "awful", "boring", "flat")
TOPICS: Final = ("cast", "plot", "sound")


def write_texts(folder: Path) -> None:
    """All corpora: an epoch of each is less than twenty updates."""
    chance = random.Random(0)
    for name, count, turned in (("back", 110, -1), ("same", 50, 1)):
        sentences = [chance.choices(NOUNS, k=chance.randint(1, 6)) for _ in range(count)]
        _write(folder / f"{name}.in", (" ".join(words) for words in sentences))
        _write(folder / f"{name}.out", (" ".join(words[::turned]).replace("a", "o") for words in sentences))
    labels = [chance.choice(("pos", "pos", "neg")) for _ in range(100)]
    _write(folder / "reviews.tsv", (f"{label}\t{_review(label, chance)}" for label in labels))
    _write(folder / "pairs.tsv", (_pair(label, chance) for label in labels))
    _write(folder / "topics.tsv", (_topical(chance) for _ in range(100)))
    _write(folder / "running.txt", (_document(chance) for _ in range(40)))


def _review(label: str, chance: random.Random) -> str:
    words = PRAISE if label == "pos" else BLAME
    said = (f"The {chance.choice(NOUNS)} was {chance.choice(words)} ." for _ in range(chance.randint(1, 5)))
    return " ".join(said)


def _pair(label: str, chance: random.Random) -> str:
    """Of one opinion or of two."""
    first = chance.choice(("pos", "neg"))
    second = first if label == "pos" else "neg" if first == "pos" else "pos"
    return f"{label}\t{_review(first, chance)}\t{_review(second, chance)}"


def _topical(chance: random.Random) -> str:
    """Any number of topics, also none."""
    topics = [topic for topic in TOPICS if chance.random() < 0.4]
    said = " ".join(f"The {topic} was {chance.choice(PRAISE + BLAME)} ." for topic in topics)
    return f"{','.join(topics)}\t{_review('pos', chance)} {said}"


def _document(chance: random.Random) -> str:
    """Sentences that count up through the animals, and a blank line."""
    start, sentences = chance.randrange(len(NOUNS)), []
    for number in range(chance.randint(3, 6)):
        length = chance.randint(3, 7)
        words = [NOUNS[(start + number * 3 + place) % len(NOUNS)] for place in range(length)]
        sentences.append("The " + " ".join(words) + ".")
    return " ".join(sentences) + "\n"


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A recipe, but for what all have; `static` trains it on the batches of one shape that a GPU has."""

    model: Table
    data: Table
    train: Table = field(default_factory=dict)
    tokenizer: Table = field(default_factory=lambda: {"kind": "word"})
    static: bool = False

    def recipe(self, folder: Path) -> dict[str, Table]:
        """The whole recipe of texts in a folder."""
        train = {
            "steps": UPDATES,
            "schedule": {"kind": "linear", "lr": 0.005, "warmup": 5, "floor": 0.2},
            "device": "cpu",
            "precision": "float32",
            "threads": 1,
            "log_every": 1,
            "compile": False,
            "capture": False,
        }
        return {
            "data": {"folder": str(folder), **self.data},
            "tokenizer": self.tokenizer,
            "model": self.model,
            "train": {**train, **self.train},
        }


BACK: Final = {"source": "back.in", "target": "back.out"}
SAME: Final = {"source": "same.in", "target": "same.out"}
PAIRS: Final = {"train": [BACK], "batch_tokens": 128, "max_length": 20}
LABELLED: Final = {"batch_tokens": 256, "max_length": 24}
REVIEWS: Final = {"train": [{"tsv": "reviews.tsv", "label": 1, "text": 2}], **LABELLED}
TWO_TEXTS: Final = {"train": [{"tsv": "pairs.tsv", "label": 1, "text": 2, "second": 3}], **LABELLED}
SEVERAL_TOPICS: Final = {"train": [{"tsv": "topics.tsv", "label": 1, "text": 2}], **LABELLED}
RUNNING: Final = {"train": [{"text": "running.txt"}], "batch_tokens": 256, "max_length": 32}
WHOLE: Final = {"kind": "word"}
PIECES: Final = {"kind": "byte_bpe", "size": 290}
USUAL: Final[Table] = {}

STACK: Final = {"width": 16, "heads": 2, "layers": 1, "inner": 24, "max_positions": 40, "dropout": 0.1}
RECURRENT: Final = {"family": "recurrent", "width": 16, "encoder_width": 8, "dropout": 0.1}
WORDS: Final = {"family": "recurrent", "width": 6, "embedding": 8, "dropout": 0.1}


def transformer(data: Table = PAIRS, train: Table = USUAL, tokenizer: Table = WHOLE, **model: Any) -> Case:
    return Case({"family": "transformer", **STACK, **model}, data, train, tokenizer)


def recurrent(train: Table = USUAL, **model: Any) -> Case:
    return Case({**RECURRENT, **model}, PAIRS, train)


def classifier(encoder: Table = USUAL, data: Table = REVIEWS, train: Table = USUAL, **model: Any) -> Case:
    family = encoder.get("family", "transformer")
    whole = {**STACK, "family": family, **encoder} if family in ("transformer", "bert") else encoder
    return Case({"family": "classifier", "encoder": whole, **model}, data, train)


def masked(train: Table = USUAL, tokenizer: Table = WHOLE, **model: Any) -> Case:
    faster = {"schedule": {"kind": "linear", "lr": 0.03, "warmup": 5}, **train}  # its weights begin small
    return Case({"family": "bert", **STACK, "dropout_attention": 0.1, **model}, RUNNING, faster, tokenizer)


def static(case: Case) -> Case:
    return replace(case, static=True)


TRANSFORMERS: Final[dict[str, Case]] = {
    "post": transformer(layers=2),
    "pre": transformer(norm="pre", activation="swiglu", dropout_attention=0.1, dropout_inner=0.1, dropout_words=0.1),
    "learned": transformer(norm="pre", positions="learned", tie="none", activation="gelu"),
    "halves-shallow": transformer(positions="sinusoidal_halves", layers=2, decoder_layers=1, tie="decoder"),
    "post-rope": transformer(positions="rope", dropout_embedding=0.3),
    "pre-rope": transformer(norm="pre", positions="rope", dropout_attention=0.1),
    "post-alibi": transformer(positions="alibi", dropout_attention=0.1),
    "pre-relative": transformer(norm="pre", positions="relative", max_distance=3, dropout_attention=0.1),
    "explicit": transformer(backend="explicit", dropout_attention=0.1),
    "two-embeddings": transformer(embeddings=2, tie="decoder", embedding_norm=True, output_bias=True),
    "to-several-languages": transformer({**PAIRS, "train": [{**BACK, "to": "b"}, {**SAME, "to": "s"}]}),
    "weighed-corpora": transformer({**PAIRS, "train": [BACK, {**SAME, "weight": 2.0}], "temperature": 2.0}),
    "generated-pieces": transformer({"train": [{"builtin": "english-spanish", "count": 60}], "batch_tokens": 256},
                                    tokenizer={"kind": "byte_bpe", "size": 300}),
    "two-vocabularies": transformer(tokenizer={"kind": "char", "joint": False}, tie="decoder"),
    "accumulated": transformer(train={"accumulate": 3, "label_smoothing": 0.2, "clip_norm": 0.5}),
    "adamw-cosine": transformer(train={"optimizer": {"kind": "adamw", "weight_decay": 0.1}, "label_smoothing": 0.0,
                                       "schedule": {"kind": "cosine", "lr": 0.005, "warmup": 3}}),
    "noam": transformer(train={"schedule": {"kind": "noam", "warmup": 100}, "seed": 7}),
}  # fmt: skip
ATTENTIONS: Final[dict[str, Case]] = {
    "content": transformer(alignment="content", norm="pre"),
    "dot-gumbel": transformer(alignment="dot", choice="gumbel", dropout_attention=0.1),
    "general-hard": transformer(alignment="general", choice="hard"),
    "biased-general-learned-entmax": transformer(alignment="biased_general", distribution="learned_entmax"),
    "activated-general-entmax": transformer(alignment="activated_general", distribution="entmax", alpha=1.3),
    "kernel": transformer(alignment="kernel", features=16),
    "additive-entmax15": transformer(alignment="additive", distribution="entmax15", norm="pre"),
    "deep-normalised-sigmoid": transformer(alignment="deep", distribution="normalised_sigmoid"),
    "location-sigmoid": transformer(alignment="location", distribution="sigmoid", max_places=21),
    "area-sparsemax": transformer(alignment="area", distribution="sparsemax"),
    "de-attention-relative": transformer(distribution="de_attention", positions="relative"),
    "softmax-hard-alibi": transformer(choice="hard", positions="alibi"),
}
RECURRENTS: Final[dict[str, Case]] = {
    "sutskever-lstm": recurrent(wiring="sutskever", cell="lstm", layers=2, bidirectional=False, reverse_source=True),
    "cho-gru": recurrent(wiring="cho", embedding=12, embeddings=2),
    "bahdanau-gru": recurrent(wiring="bahdanau", tie="decoder"),
    "bahdanau-variational-lstm": recurrent(cell="lstm", layers=2, variational=True, dropout_words=0.1),
    "luong-local-p": recurrent(wiring="luong", cell="lstm", layers=2, window="predicted", half_width=2),
    "luong-local-m-hard": recurrent(wiring="luong", cell="tanh", window="monotone", half_width=2, choice="hard"),
    "luong-dot-entmax15": recurrent(wiring="luong", cell="relu", alignment="dot", distribution="entmax15",
                                    input_feeding=False),
    "luong-location-sigmoid": recurrent(wiring="luong", alignment="location", distribution="sigmoid", max_places=21),
    "bahdanau-area-sparsemax": recurrent(alignment="area", distribution="sparsemax"),
    "bahdanau-deep-gumbel": recurrent(alignment="deep", choice="gumbel", tie="all"),
    "bahdanau-de-attention": recurrent(alignment="scaled_dot", distribution="de_attention"),
    "bahdanau-kernel": recurrent(alignment="kernel", features=16),
    "sampled-bahdanau": recurrent({"scheduled_sampling": {"kind": "linear", "slope": 0.04}}),
    "sampled-luong": recurrent({"scheduled_sampling": {"kind": "inverse_sigmoid", "span": 4.0}}, wiring="luong"),
    "transformer-to-gru": Case({"family": "mixed", "encoder": {"family": "transformer", **STACK},
                                "decoder": {"family": "recurrent", "width": 12, "layers": 2}}, PAIRS),
    "lstm-to-transformer": Case({"family": "mixed", "encoder": {"family": "recurrent", "cell": "lstm", "width": 8},
                                 "decoder": {"family": "transformer", **STACK}, "tie": "decoder"}, PAIRS),
}  # fmt: skip
CLASSIFIERS: Final[dict[str, Case]] = {
    "first": classifier({"layers": 2}),
    "mean-learned": classifier({"norm": "pre", "positions": "learned"}, pool="mean"),
    "max-relative": classifier({"positions": "relative", "embeddings": 2}, pool="max"),
    "attention-rope": classifier({"positions": "rope", "dropout_words": 0.1}, pool="attention"),
    "multi-dimensional": classifier({"embedding_norm": True}, pool="multi_dimensional", pooler=True),
    "gru-max": classifier({"family": "recurrent", "width": 8, "layers": 2}),
    "lstm-last": classifier({"family": "recurrent", "cell": "lstm", "width": 8, "embedding": 6, "bidirectional": False,
                             "variational": True}, pool="last"),
    "hierarchical": classifier({"family": "hierarchical", "words": WORDS, "sentences": {"width": 6}}),
    "hierarchical-transformer": classifier({
        "family": "hierarchical", "words": {"family": "transformer", **STACK}, "word_pool": "mean",
        "sentences": {"cell": "lstm", "width": 6, "layers": 2}, "max_sentence": 3}, pool="max"),
    "bert-pooler": classifier({"family": "bert", "layers": 2}, pooler=True, train={"layer_decay": 0.8}),
    "two-texts": classifier({"segments": 2}, TWO_TEXTS),
    "two-texts-bert": classifier({"family": "bert"}, TWO_TEXTS, {"schedule": {"kind": "constant", "lr": 0.02}},
                                 pooler=True, pool="mean"),
    "two-texts-gru": classifier({"family": "recurrent", "width": 8}, TWO_TEXTS, pool="attention"),
    "cut-in-the-middle": classifier({}, {**REVIEWS, "max_length": 12, "cut": "middle"}, pool="mean"),
    "several-labels": classifier({}, SEVERAL_TOPICS, labels="several"),
    "several-labels-balanced": classifier({}, SEVERAL_TOPICS, {"class_weights": "balanced", "label_smoothing": 0.1},
                                          labels="several"),
    "several-labels-hierarchical": classifier({"family": "hierarchical", "words": WORDS, "sentences": {"width": 6}},
                                              SEVERAL_TOPICS, labels="several"),
    "balanced-classes": classifier(train={"class_weights": "balanced", "accumulate": 2}),
    "weighed-classes": classifier(train={"class_weights": {"neg": 3.0}, "label_smoothing": 0.1}),
}  # fmt: skip
MASKED: Final[dict[str, Case]] = {
    "next-sentence": masked(layers=2),
    "masks-alone": masked(next_sentence=False, segments=0),
    "whole-words": masked({"masking": {"whole_words": True, "share": 0.2}}, PIECES),
    "bert-pre-rope": masked(norm="pre", positions="rope", train={"label_smoothing": 0.1, "accumulate": 2}),
}
STATIC: Final[dict[str, Case]] = {
    "static-post": static(transformer(layers=2)),
    "static-pre-rope": static(transformer(train={"accumulate": 2, "clip_norm": 0.5}, norm="pre", positions="rope")),
    "static-learned": static(transformer(positions="learned", activation="swiglu", tie="none")),
    "static-first": static(classifier({"layers": 2})),
    "static-attention": static(classifier(pool="attention", train={"class_weights": "balanced"})),
    "static-two-texts": static(classifier({"segments": 2}, TWO_TEXTS, pool="mean")),
    "static-several-labels": static(classifier({}, SEVERAL_TOPICS, pool="max", labels="several")),
    "static-next-sentence": static(masked(layers=2, dropout_attention=0.0)),
    "static-whole-words": static(
        masked({"masking": {"whole_words": True}}, PIECES, next_sentence=False, dropout_attention=0.0)
    ),
}
CASES: Final[dict[str, Case]] = {**TRANSFORMERS, **ATTENTIONS, **RECURRENTS, **CLASSIFIERS, **MASKED, **STATIC}


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """What a run computed: the loss of every update, and in the end the sum of all weights and that of their sizes.

    The sums are rounded once, so that they depend neither on the order of weights nor on their names.
    """

    losses: tuple[float, ...]
    weights: tuple[float, float]


@contextmanager
def training(static: bool) -> Iterator[Callable[..., Path]]:
    """What trains a recipe into a run folder. All that these curves ask of the package's modules is imported here.

    A static run has the batches that a GPU has in bfloat16: its whole budget, dummies behind the sentences, a fixed
    bound. Each is copied to where the first one was, as it is for a recorded CUDA graph. The rest is a CPU's.
    """
    import torch

    from heedful.runs.job import Job
    from heedful.runs.training_run import train
    from heedful.training.updates import EagerUpdates

    begin, shapes = Job.begin, []

    def begin_static(job: Job) -> Any:
        position, shape = begin(job), job.task.static_shape(job.recipe, torch.bfloat16)
        assert shape is not None, "a GPU would have ragged batches too"
        shapes.append(shape)
        job.feed = job.feed.placed(shape, pin=False)
        return position

    def add_in_place(computing: Any, batch: Any, first: bool) -> Any:
        if not hasattr(computing, "first_batch"):
            computing.first_batch = batch
        else:
            computing.first_batch.copy_(batch)
        return computing.differentiate(computing.first_batch)

    if not static:
        yield train
        return
    with patch.object(Job, "begin", begin_static), patch.object(EagerUpdates, "add", add_in_place):
        yield train
    assert shapes, "nothing was laid out in one shape"


def curve(case: Case, home: Path) -> Curve:
    """Train a case in an empty folder."""
    texts, recipe, run = home / "texts", home / "recipe.toml", home / "run"
    texts.mkdir()
    write_texts(texts)
    recipe.write_text("".join(f"{key} = {_toml(table)}\n" for key, table in case.recipe(texts).items()))
    with patch.dict(os.environ, {"HEEDFUL_CACHE": str(home / "cache")}), training(case.static) as train:
        train(recipe, run, console=Console(file=StringIO()))
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    losses = tuple(line["loss"] for line in lines if line["part"] == "train")
    assert len(losses) == UPDATES, f"{len(losses)} updates were recorded"
    weights = [weight for tensor in load_file(run / "model.safetensors").values() for weight in tensor.ravel().tolist()]
    return Curve(losses, (math.fsum(weights), math.fsum(map(abs, weights))))


def _toml(value: Any) -> str:
    """A value on one line of TOML, whose scalars are written as JSON's."""
    match value:
        case dict():
            return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            return json.dumps(value)


def curves(names: Iterable[str]) -> Iterator[tuple[str, Curve]]:
    """Train cases, one after the other, and say how long each took."""
    for name in names:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as home:
            made = curve(CASES[name], Path(home))
        print(f"{name}: {made.losses[0]:.4f} to {made.losses[-1]:.4f}, {time.perf_counter() - began:.1f} s", flush=True)
        yield name, made


# --- what is kept of them ---------------------------------------------------------------------------------------------


def record(file: Path, names: Sequence[str]) -> None:
    """Write the exact numbers of cases."""
    rows = {
        name: {"losses": [x.hex() for x in made.losses], "weights": [x.hex() for x in made.weights]}
        for name, made in curves(names)
    }
    file.write_text(json.dumps(rows, indent=1) + "\n")


def compare(file: Path, names: Sequence[str]) -> int:
    """Say how many cases differ from what was recorded, and how."""
    rows = json.loads(file.read_text())
    differing = {name: found for name, made in curves(names) if (found := difference(made, rows.get(name)))}
    for name, found in differing.items():
        print(f"DIFFERS  {name}: {found}")
    print(f"{len(names) - len(differing)} of {len(names)} curves have the bits of {file}")
    return len(differing)


def difference(made: Curve, row: Mapping[str, Sequence[str]] | None) -> str:
    """Where a curve leaves the recorded one, in words; nothing where it does not."""
    if row is None:
        return "it was not recorded"
    losses, weights = (tuple(map(float.fromhex, row[key])) for key in ("losses", "weights"))
    if len(losses) != len(made.losses):
        return f"{len(losses)} updates were recorded, and {len(made.losses)} made"
    steps = enumerate(zip(losses, made.losses, strict=True), start=1)
    apart = next(((step, was, now) for step, (was, now) in steps if was != now), None)
    if apart:
        most = max(abs(was - now) for was, now in zip(losses, made.losses, strict=True))
        return f"at step {apart[0]} the loss was {apart[1]!r} and is {apart[2]!r}; at most they are {most:.2g} apart"
    return "" if weights == made.weights else f"the weights summed up to {weights} and do to {made.weights}"


def committed() -> dict[str, list[float]]:
    """The losses of all cases that are kept beside this file."""
    kept: dict[str, list[float]] = json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    return kept


def write(names: Sequence[str]) -> None:
    """Put the losses of cases into the kept file, in the order of the cases."""
    rows = committed() | {name: [round(loss, 7) for loss in made.losses] for name, made in curves(names)}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(rows[name])}" for name in CASES if name in rows)
    COMMITTED.write_text("{\n" + lines + "\n}\n")


def main() -> int:
    """Record, compare or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--record", metavar="FILE", type=Path, help="write the exact numbers of this commit")
    ways.add_argument("--compare", metavar="FILE", type=Path, help="compare with them, bit by bit; 1 where some differ")
    ways.add_argument("--write", action="store_true", help="write the rows of curves.json")
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=CASES, default=list(CASES), help="some cases")
    said = parser.parse_args()
    if said.record:
        record(said.record, said.only)
    elif said.compare:
        return 1 if compare(said.compare, said.only) else 0
    else:
        write(said.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
