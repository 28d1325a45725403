"""Inputs on which an exported model is compared with the original: validation data, lines, or drawn tokens."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from torch import nn

from heedful.base.errors import UserError
from heedful.base.trees import Tree
from heedful.config.corpora.containers import AnyCorpus, PlainText
from heedful.data.corpora.formats.lines import read_lines
from heedful.data.corpora.images import AskedImage, Captioned, LabelledImage
from heedful.data.corpora.questions import Question
from heedful.data.corpora.tagged import TaggedText
from heedful.data.corpora.texts import Text
from heedful.data.tokenize.tokenizer import SPECIALS
from heedful.models.bundle import Bundle
from heedful.tasks.loading import task_named

COUNT: Final = 32  # inputs: enough for a wrong matrix to show, few enough for a few seconds
TRANSLATED: Final = 500  # inputs with references: the BLEU of fewer changes by chance more than int8 may cost
_DRAWN: Final = 12  # tokens of an input that is drawn
_SIDE: Final = 32  # pixels of an image whose size is free
_SEED: Final = 1


@dataclass(frozen=True)
class Samples:
    """Inputs of a model: texts (two where it reads pairs or questions), or images."""

    texts: tuple[tuple[str, ...], ...] = ()
    images: tuple[LabelledImage, ...] = ()
    of: str = ""  # what they are, in words
    references: tuple[str, ...] = ()  # translations of all texts, where weights are less precise and data has them


def read_samples(
    bundle: Bundle[nn.Module], folder: Path, file: Path | None = None, references: bool = False
) -> Samples:
    """Return inputs of a model: lines of a file, else rows of its validation data, else tokens drawn by a fixed seed.

    Data that is no longer there, or that the model never had, is no reason to export without a comparison. With
    `references`, translations come along where validation or test data has them.
    """
    if file is not None:
        texts = tuple(tuple(line.split("\t")) for line in islice(read_lines(file), COUNT) if line.strip())
        if not texts:
            raise UserError(f"{file} has no lines to compare with: choose a file with sentences.")
        return Samples(texts, of=f"{len(texts)} lines of {file}")
    data = bundle.recipe.data
    translated = _translated(bundle, (*data.valid, *data.test)) if references else None
    if translated is not None:
        return translated
    for corpus in (*data.valid, *data.test, *data.train):
        try:
            rows = list(islice(_inputs(bundle, corpus), COUNT))
        except (UserError, OSError, NotImplementedError):  # the last: of tasks that score no rows of their own
            continue
        if rows:
            return _samples(rows, f"{len(rows)} rows of {corpus.title}")
    return _drawn(bundle)


def _translated(bundle: Bundle[nn.Module], corpora: Iterable[AnyCorpus]) -> Samples | None:
    """Return texts with their translations, from the first corpus that can be read; None if there are none."""
    if bundle.recipe.rules.name != "translate":
        return None
    task, folder = task_named(bundle.recipe.rules.name), bundle.recipe.data.folder
    for corpus in corpora:
        try:
            rows: Any = list(islice(task.read_corpus(task.model_type(bundle), corpus, folder), TRANSLATED))
        except (UserError, OSError):
            continue
        if rows:
            texts = tuple((source,) for source, _ in rows)
            references = tuple(of if isinstance(of, str) else of[0] for _, of in rows)  # the first of several variants
            return Samples(texts, of=f"{len(rows)} rows of {corpus.title}", references=references)
    return None


def _inputs(bundle: Bundle[nn.Module], corpus: AnyCorpus) -> Iterator[Any]:
    """Yield the inputs of a corpus as the task of the model reads them."""
    task, folder = task_named(bundle.recipe.rules.name), bundle.recipe.data.folder
    if bundle.recipe.rules.running or isinstance(corpus, PlainText):  # of language models, and of masked ones
        yield from ((line,) for line in read_lines(Path(folder) / corpus.files()[0]) if line.strip())
        return
    for row in task.read_corpus(task.model_type(bundle), corpus, folder):
        match row:
            case str(), _:
                yield (row[0],)
            case Text(text=text, second=second):
                yield (text,) if second is None else (text, second)
            case TaggedText(words=words):
                yield (" ".join(words),)
            case Question(question=question, text=text):
                yield question, text
            case Tree():
                yield (" ".join(leaf.word for leaf in row.leaves),)
            case LabelledImage():
                yield row
            case Captioned(image=image) | AskedImage(image=image):
                yield image


def _samples(rows: list[Any], of: str) -> Samples:
    if isinstance(rows[0], LabelledImage):
        return Samples(images=tuple(rows), of=of)
    return Samples(texts=tuple(rows), of=of)


def _drawn(bundle: Bundle[nn.Module]) -> Samples:
    """Return texts of random pieces, or images of random pixels."""
    draws = np.random.default_rng(_SEED)
    rules, form = bundle.recipe.rules, bundle.recipe.data.images
    if rules.images:
        shape = (form.height or _SIDE, form.width or _SIDE, 3)
        pixels = [draws.integers(0, 256, size=shape).astype(np.uint8) for _ in range(COUNT)]
        images = tuple(LabelledImage(each) for each in pixels)
        return Samples(images=images, of=f"{COUNT} images of random pixels")
    tokenizer = bundle.vocabularies[rules.vocabularies[0]]
    texts = [
        tokenizer.decode([int(piece) for piece in draws.integers(len(SPECIALS), tokenizer.size, size=length)])
        for length in draws.integers(1, _DRAWN, size=COUNT)
    ]
    return Samples(texts=tuple((text,) for text in texts if text.strip()), of=f"{COUNT} texts of random pieces")
