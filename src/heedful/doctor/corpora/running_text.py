"""Finds running text that is too little, or whose documents and sentences are not where a model looks for them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from heedful.base.errors import counted
from heedful.config.corpora.containers import PlainText
from heedful.config.recipe import Recipe
from heedful.data.corpora.documents import read_documents
from heedful.data.text_form import TextForm
from heedful.doctor.corpora.corpus_lint import LintedCorpus
from heedful.doctor.findings import Finding

_FEW: Final = 50  # sentences: fewer are not worth training on
_FEW_WINDOWS: Final = 20
_LONE: Final = 0.5  # fraction of documents of one sentence
_TOO_LONG: Final = 0.05  # fraction of sentences with more words than an input has tokens
_ENDS: Final = tuple(".!?:;\"'”’»)]…。！？」』؟।")
_WRAPPED: Final = 0.35  # fraction of wrapped lines that end with a sentence, at most
_LINES: Final = 50  # lines that show whether text is wrapped
_NARROW: Final = (45, 100)  # characters: the median of wrapped lines at least, the longest at most


@dataclass(frozen=True)
class _Documents:
    """What was counted in a corpus."""

    count: int
    lone: int  # documents of one sentence
    sentences: int
    too_long: int  # sentences with more words than an input has tokens


def find_text_problems(recipe: Recipe, train: Sequence[LintedCorpus]) -> Iterator[Finding]:
    """Check the documents of the training corpora, as far as these were read."""
    pairs_wanted = bool(getattr(recipe.model, "next_sentence", False))
    sentences = 0
    for linted in train:
        found = _count(recipe, linted)
        sentences += found.sentences
        yield from _of_documents(linted, found, pairs_wanted)
        yield from _of_sentences(linted, found, recipe.data.max_length)
        yield from _wrapped(linted)
    if sentences < _FEW and all(linted.whole for linted in train):
        yield Finding(
            "warning",
            "few_sentences",
            "train",
            f"the training text has {counted(sentences, 'sentence')} in {sum(map(len, train)):,} {train[0].form.unit}",
            "This is too little to learn a language from. If the file has more, its line ends may be unusual: "
            "lines end with a newline.",
            ", ".join(linted.name for linted in train),
            ", ".join(file for linted in train for file in linted.corpus.files()),
        )


def find_window_problems(recipe: Recipe, train: Sequence[LintedCorpus]) -> Iterator[Finding]:
    """Check the training text of a language model that reads windows; lines may end and repeat as they like."""
    for linted in train:
        if getattr(linted.corpus, "documents", "") == "heading":
            yield from _of_documents(linted, _count(recipe, linted), pairs_wanted=False)
    characters = sum(int(linted.length.sum()) + len(linted) for linted in train)  # with line breaks
    window = recipe.data.max_length
    if characters < _FEW_WINDOWS * window and all(linted.whole for linted in train):
        filled = "not one window" if characters <= window else f"at most {counted(-(-characters // window), 'window')}"
        yield Finding(
            "problem" if characters <= window else "warning",
            "few_windows",
            "train",
            f"the training text has {counted(characters, 'character')}: {filled} of `data.max_length` ({window:,}) "
            "tokens",
            "This is too little to learn a language from: give more text, or lower `data.max_length`.",
            ", ".join(linted.name for linted in train),
            ", ".join(file for linted in train for file in linted.corpus.files()),
        )


def _count(recipe: Recipe, linted: LintedCorpus) -> _Documents:
    corpus, most = linted.corpus, None if linted.whole else len(linted)
    if most is not None and isinstance(corpus, PlainText) and not corpus.part:
        first = int(corpus.lines.partition("-")[0] or 1)  # a document may be as long as the file
        corpus = corpus.model_copy(update={"lines": f"{first}-{first + most - 1}"})
    count = lone = sentences = too_long = 0
    for document in islice(read_documents(corpus, recipe.data.folder, TextForm.of(recipe.data)), most):
        count += 1
        lone += len(document) == 1
        sentences += len(document)
        too_long += sum(sentence.count(" ") >= recipe.data.max_length for sentence in document)
    return _Documents(count, lone, sentences, too_long)


def _of_documents(linted: LintedCorpus, found: _Documents, pairs_wanted: bool) -> Iterator[Finding]:
    how = getattr(linted.corpus, "documents", "row")
    if found.count == 1 and found.sentences > 1 and linted.whole and (pairs_wanted or how == "heading"):
        separator = {"blank_line": "a blank line", "heading": 'a heading such as " = Title = "'}.get(how, "a line end")
        yield linted.finding(
            "problem" if pairs_wanted else "warning",
            "one_document",
            f"the whole text is one document: {separator} never separates two",
            "Separate documents, set `documents` to what separates them"
            + (
                ", or set `model.next_sentence = false`: next-sentence prediction draws sentences from other documents."
                if pairs_wanted
                else "."
            ),
        )
    elif pairs_wanted and found.count and found.lone >= _LONE * found.count:
        yield linted.finding(
            "problem" if found.lone == found.count else "warning",
            "lone_sentences",
            f"documents of one sentence: {found.lone:,} of {found.count:,} ({found.lone / found.count:.2%})",
            "Next-sentence prediction needs several: keep the sentences of a document together, or set "
            "`model.next_sentence = false`.",
            count=found.lone,
            keys=() if found.lone == found.count else ("model.next_sentence",),  # training refuses lone ones alone
        )


def _of_sentences(linted: LintedCorpus, found: _Documents, max_length: int) -> Iterator[Finding]:
    if found.sentences and found.too_long >= _TOO_LONG * found.sentences:
        by_line = getattr(linted.corpus, "sentences", "split") == "line"
        yield linted.finding(
            "warning",
            "long_sentences",
            f"sentences with more words than `data.max_length` ({max_length:,}) has tokens: {found.too_long:,} of "
            f"{found.sentences:,} ({found.too_long / found.sentences:.2%})",
            'Lines are whole documents: set `sentences = "split"` and `documents = "line"`.'
            if by_line
            else "Raise `data.max_length`, or add punctuation at which sentences can be split.",
            count=found.too_long,
            keys=() if by_line else ("data.max_length",),
        )


def _wrapped(linted: LintedCorpus) -> Iterator[Finding]:
    """Report lines of nearly the same length that end in the middle of a sentence."""
    lines = [text.strip() for text, _ in linted.sample]
    if not isinstance(linted.corpus, PlainText) or linted.corpus.part or len(lines) < _LINES:
        return
    lengths = np.array([len(line) for line in lines])
    usual, longest = float(np.median(lengths)), int(lengths.max())
    ended = sum(line.endswith(_ENDS) for line in lines)
    narrow = _NARROW[0] <= usual and longest <= _NARROW[1] and np.percentile(lengths, 90) - usual < 0.2 * usual
    if narrow and ended < _WRAPPED * len(lines):
        yield linted.finding(
            "warning",
            "wrapped",
            f"lines end in the middle of sentences: only {ended:,} of {len(lines):,} end with a sentence, and none has "
            f"more than {longest} characters",
            "The text is wrapped: join the lines of each paragraph, as a sentence never goes beyond its line.",
        )
