"""From the recipe of a model that reads texts to its tokenizer, its classes and its tokenized texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from heedful.base.errors import UserError
from heedful.config.corpora.texts import TEXTS, PlainTexts, RowTexts
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.corpora.documents import read_documents
from heedful.data.corpora.running_text import read_running_text
from heedful.data.corpora.tagged import read_tagged
from heedful.data.corpora.texts import read_texts
from heedful.data.prepare.prepared import Prepared, contents_of
from heedful.data.prepare.text_stores import TextStores, labels_in
from heedful.data.text_form import TextForm
from heedful.data.tokenize.cached import TokenizerTraining
from heedful.data.tokenize.encoding import running_pieces
from heedful.data.tokenize.training_sample import described, evenly
from heedful.data.tokenize.vocabularies import Vocabularies


def prepare_texts(
    recipe: Recipe,
    progress: Say = lambda message: None,
    given: Vocabularies | None = None,
    *,
    labelled: Literal["one", "several"] | None = None,
    documents: bool = False,
    running: bool = False,
    mask: bool = False,
    letters: bool = False,
) -> Prepared:
    """Train the tokenizer and find the classes, unless they are given, and tokenize training and validation corpora.

    `progress` gets a line of text for every longer piece of work. `labelled` says how many labels a text has,
    `documents` whether rows are documents of sentences, `running` whether they are documents of running text, `mask`
    whether the vocabulary needs `<mask>`, and `letters` whether documents have the letters of their words.
    """
    data = recipe.data
    contents = contents_of(data, progress)
    if given is not None:
        tokenizer = given["text"]
    else:
        of_train = [contents[corpus] for corpus in data.train]
        training = TokenizerTraining(recipe.tokenizer, TextForm.of(data), of_train, mask=mask, running=running)
        tokenizer = training.tokenizer("text", "", lambda: TextSample.of(recipe, running), progress)
    several, labels = labelled == "several", given.labels if given else ()
    if labelled is not None:
        labels = labels or labels_in(data.train, data, several)
    work = TextStores(data, tokenizer, contents, progress, labels, several, documents, running, letters)
    return Prepared.of(Vocabularies({"text": tokenizer}, labels), data, work.store)


@dataclass(frozen=True)
class TextSample:
    """`taken` of all `count` texts of the training corpora, at equal distances: what a tokenizer is trained on."""

    recipe: Recipe
    taken: int
    count: int
    running: bool = False  # whether texts are pieces of running text

    @classmethod
    def of(cls, recipe: Recipe, running: bool = False) -> "TextSample":
        """Take as many texts as the recipe allows."""
        count = sum(1 for _ in _all_texts(recipe, running))
        if not count:
            names = ", ".join(corpus.title for corpus in recipe.data.train)
            raise UserError(f"There is no text to train a tokenizer on in {names}: all texts are blank.")
        return cls(recipe, min(count, recipe.tokenizer.sample), count, running)

    def __iter__(self) -> Iterator[str]:
        return evenly(_all_texts(self.recipe, self.running), self.taken, self.count)

    @property
    def description(self) -> str:
        """The number of texts out of how many, in words; empty where all are taken."""
        return described(self.taken, self.count)


def _all_texts(recipe: Recipe, running: bool) -> Iterator[str]:
    """Yield every text of the training corpora: of documents each sentence, of pairs both texts."""
    if running:
        yield from _running_pieces(recipe)
        return
    data, form = recipe.data, TextForm.of(recipe.data)
    if recipe.rules.words:
        for corpus in data.train:
            yield from (" ".join(text.words) for text in read_tagged(corpus, data.folder, form) if not text.blank)
        return
    for corpus in data.train:
        if isinstance(corpus, PlainTexts):
            for document in read_documents(corpus, data.folder, form):
                yield from document
            continue
        assert isinstance(corpus, RowTexts)
        for text in read_texts(corpus.model_copy(update={"label": None}), data.folder, form):  # whatever their labels
            yield from (part for part in (text.text, text.second) if part and part.strip())


def _running_pieces(recipe: Recipe) -> Iterator[str]:
    """Yield the running text of the training corpora in pieces, as the tokenizer will read it."""
    spells_spaces = recipe.tokenizer.kind in ("byte_bpe", "char")
    for corpus in recipe.data.train:
        assert isinstance(corpus, TEXTS)
        for text in read_running_text(corpus, recipe.data.folder, TextForm.of(recipe.data)):
            yield from running_pieces(text, spells_spaces)
