"""Compares two language models on the same documents: which one predicts them better, and how significantly.

Every document is scored by itself, from beginning to end, and the tests draw documents. Words and bytes do not depend
on a vocabulary, so models with different ones can be compared.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Literal

import numpy as np

from heedful.base.errors import UserError, by_caller, suggestion
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.texts import TEXTS
from heedful.config.recipe import Recipe
from heedful.data.corpora.files import check_files
from heedful.data.corpora.running_text import count_words, read_running_text
from heedful.data.text_form import TextForm
from heedful.lab.compare import Bucket, Comparison, ScorePair, compare_counts
from heedful.metrics.buckets import LENGTHS, span_index
from heedful.metrics.significance import run_scores
from heedful.metrics.summed_metrics import Floats, Scoring
from heedful.models.bundle import read_description
from heedful.tasks.generate.model import TextGenerator

Bar = Callable[[int], AbstractContextManager[Callable[[int], None]]]
_AT_ONCE: Final = 64  # documents that are scored together

# Counts of a document: log P, words and line breaks, bytes.
METRICS: Final[Mapping[str, tuple[str, Scoring]]] = {
    "bits_per_byte": ("bits per byte", lambda sums: -sums[..., 0] / math.log(2) / np.maximum(1, sums[..., 2])),
    "word_perplexity": (
        "word perplexity",
        lambda sums: np.exp(np.minimum(-sums[..., 0] / np.maximum(1, sums[..., 1]), 700)),
    ),
}
_SIGNATURES: Final = {
    "bits_per_byte": "-log2 P over bytes of UTF-8, of whole documents",
    "word_perplexity": "exp(-log P / words), a line break counts as a word",
}


def are_language_models(models: Sequence[str]) -> bool:
    """Whether the first of some models is a language model: the others must then be so too."""
    return bool(models) and read_description(Path(models[0]))[0].rules.scored == "texts"


def compare_documents(
    a: Sequence[str],
    b: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    split: Literal["valid", "test"] = "test",
    corpus: str | None = None,
    samples: int,
    seed: int,
    device: str = "auto",
    precision: str = "auto",
    say: Callable[[str], None] = lambda message: None,
    bar: Bar,
) -> tuple[Comparison, str]:
    """Compare two sides, each the folders of one or several runs; also return the name of the test set."""
    names = _metric_names(metrics)
    recipes = {model: read_description(Path(model))[0] for model in dict.fromkeys([*a, *b])}
    for model, recipe in recipes.items():
        if recipe.rules.scored != "texts":
            raise UserError(
                f"{model} is a model that {recipe.rules.does}, but {a[0]} is a language model: compare models of one "
                "task."
            )
    title, texts = _common_documents(recipes, split, corpus)
    counts = {model: _counts(model, texts, device, precision, say, bar) for model in recipes}
    side_a, side_b = (np.stack([counts[model] for model in side]) for side in (a, b))
    found = Comparison(
        a=tuple(a),
        b=tuple(b),
        sentences=len(texts),
        samples=samples,
        seed=seed,
        metrics=tuple(
            compare_counts((METRICS[name][0], _SIGNATURES[name], True), METRICS[name][1], side_a, side_b, samples, seed)
            for name in names
        ),
        lengths=_by_length(names, side_a, side_b),
        words=(),
        frequencies_of="",
        better_a=(),
        better_b=(),
        unit="document",
        lengths_of="document",
    )
    return found, title


def _metric_names(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in METRICS:
            raise UserError(f"`{name}` is not a metric of language models.{suggestion(name, list(METRICS))}")
    return tuple(dict.fromkeys(names)) or tuple(METRICS)


# --- documents --------------------------------------------------------------------------------------------------------


def _common_documents(
    recipes: Mapping[str, Recipe], split: Literal["valid", "test"], wanted: str | None
) -> tuple[str, list[str]]:
    """Return the documents that all recipes share: those of the first corpus, or of the one of this name."""
    (first, (title, common)), *others = (
        (model, _documents(model, recipe, split, wanted)) for model, recipe in recipes.items()
    )
    for model, (_, here) in others:
        if here != common:
            raise UserError(
                f"{first} and {model} have different test documents, or read them in another form (`data.lowercase`, "
                "`data.nfc`): only predictions of the same text can be compared."
            )
    if len(common) < 2:
        raise UserError(
            f"{title} is one document, but a comparison needs at least two, as it draws documents: divide it with "
            '`documents = "blank_line"` in the recipes, or compare the scores of `heedful evaluate`.'
        )
    return title, common


def _documents(
    model: str, recipe: Recipe, split: Literal["valid", "test"], wanted: str | None
) -> tuple[str, list[str]]:
    corpora: tuple[AnyCorpus, ...] = getattr(recipe.data, split)
    known = {corpus.name or str(number): corpus for number, corpus in enumerate(corpora, start=1)}
    if not known:
        other = "valid" if split == "test" else "test"
        way_out = f"choose {by_caller(f'--split {other}', f'split={other!r}')}"
        raise UserError(f"{model}: its recipe has no `data.{split}`: {way_out}.")
    if wanted is not None and wanted not in known:
        raise UserError(
            f"{model}: its recipe has no corpus `{wanted}` in `data.{split}`.{suggestion(wanted, list(known))}"
        )
    corpus = corpora[0] if wanted is None else known[wanted]
    assert isinstance(corpus, TEXTS)
    check_files(corpus, recipe.data.folder)
    return corpus.title, list(read_running_text(corpus, recipe.data.folder, TextForm.of(recipe.data)))


def _counts(
    model: str, texts: Sequence[str], device: str, precision: str, say: Callable[[str], None], bar: Bar
) -> Floats:
    """Return log P, words and bytes of each document [documents, 3]."""
    say(f"{model}: reading {len(texts):,} documents")
    loaded = TextGenerator.load(model, device, precision)
    rows = np.empty((len(texts), 3))
    with bar(len(texts)) as advance:
        for start in range(0, len(texts), _AT_ONCE):
            part = texts[start : start + _AT_ONCE]
            for row, (text, score) in enumerate(zip(part, loaded.score(part), strict=True), start=start):
                rows[row] = score.log_probability, count_words(text), len(text.encode())
            advance(len(part))
    return rows


# --- scores -----------------------------------------------------------------------------------------------------------


def _by_length(names: Sequence[str], a: Floats, b: Floats) -> tuple[Bucket, ...]:
    """Compute every metric over the documents of each length in words; empty groups are left out."""
    indices = np.array([span_index(int(words), LENGTHS) for words in a[0, :, 1]])
    found = []
    for number, span in enumerate(LENGTHS):
        rows = np.flatnonzero(indices == number)
        if len(rows):
            scores = tuple(
                ScorePair(
                    METRICS[name][0],
                    *(float(run_scores(METRICS[name][1], side[:, rows]).mean()) for side in (a, b)),
                )
                for name in names
            )
            found.append(Bucket(span, len(rows), scores))
    return tuple(found)
