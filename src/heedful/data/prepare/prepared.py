"""From the recipe of any task to what training needs to know about its data: the steps that all tasks share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from heedful.base.errors import HeedfulError, UserError
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.collate import Rows as Indices
from heedful.data.corpora.files import check_files, content_key
from heedful.data.prepare.sources import Source, name_rows
from heedful.data.prepare.stores import Rows, build_store
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.cached import Sample, ShortenedWords, TokenizerTraining
from heedful.data.tokenize.extending import extend_tokenizer
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies

Contents = Mapping[AnyCorpus, Mapping[str, object]]  # what decides which rows a corpus gives


@dataclass(frozen=True, eq=False)
class Prepared:
    """Vocabularies and tokenized corpora."""

    vocabularies: Vocabularies
    train: tuple[TokenStore, ...]  # one per corpus
    weights: tuple[float, ...]  # of the training corpora
    valid: tuple[TokenStore, ...]
    sources: tuple[Source, ...] = ()  # where the rows of the training stores are from

    def name_rows(self, rows: Indices) -> list[str]:
        """Return the files and lines of training rows, which are counted through all stores."""
        return name_rows(self.sources, [len(store) for store in self.train], rows)


@dataclass(frozen=True, eq=False)
class Preparation:
    """The data of a recipe on its way to stores; `given` vocabularies are those of a model that is trained further."""

    recipe: Recipe
    progress: Say
    given: Vocabularies | None
    contents: Contents
    rows: dict[AnyCorpus, Rows[Any]] = field(default_factory=dict)  # of the stores that were made

    @classmethod
    def of(cls, recipe: Recipe, progress: Say, given: Vocabularies | None) -> Self:
        """Begin with a check of the files of all corpora; missing test sets are only reported."""
        data = recipe.data
        for corpus in (*data.train, *data.valid):
            check_files(corpus, data.folder)
        for corpus in data.test:  # evaluation would not find it, but it may still be made while the model trains
            try:
                check_files(corpus, data.folder)
            except HeedfulError as error:
                progress(f"`data.test`: {error} Training does not need it, but `heedful evaluate` will.")
        contents = {corpus: content_key(corpus, data.folder) for corpus in (*data.train, *data.valid)}
        return cls(recipe, progress, given, contents)

    @property
    def data(self) -> Data:
        """The table `data` of the recipe."""
        return self.recipe.data

    @property
    def form(self) -> TextForm:
        """The form that texts are brought into."""
        return TextForm.of(self.recipe.data)

    def tokenizer(
        self,
        texts: Callable[[AnyCorpus], Iterable[str]],
        *,
        noun: str = "text",
        without: str = "all texts are blank",
        mask: bool = False,
        running: bool = False,
    ) -> Tokenizer:
        """Return the given tokenizer, or one that is trained on the texts of the training corpora.

        `noun` is what a text is called, and `without` why there may be none.
        """
        given = None if self.given is None else self.given["text"]
        if given is not None and not self.to_learn:
            return given

        def rows() -> Iterable[tuple[str]]:
            return ((text,) for corpus in self.data.train for text in texts(corpus))

        def sample() -> Sample:
            found = Sample.of(rows, self.recipe.tokenizer.sample)
            if not found.count:
                names = ", ".join(corpus.title for corpus in self.data.train)
                raise UserError(f"There is no {noun} to train a tokenizer on in {names}: {without}.")
            return found

        if given is not None:
            return self.extended(given, sample)
        contents = [self.contents[corpus] for corpus in self.data.train]
        training = TokenizerTraining(self.recipe.tokenizer, self.form, contents, mask=mask, running=running)
        return training.tokenizer("text", "", sample, self.progress)

    @property
    def to_learn(self) -> int:
        """The number of pieces that are to be added to given vocabularies."""
        return 0 if self.given is None else self.given.to_learn

    def extended(self, given: Tokenizer, texts: Callable[[], Sample], of_side: str = "") -> Tokenizer:
        """Return a given tokenizer with the new pieces that the training texts need, at most `to_learn`."""
        words = ShortenedWords(texts())
        letters_only = self.recipe.tokenizer.kind == "char"
        found = extend_tokenizer(given, words, self.to_learn, letters_only)
        fewer = f", of {self.to_learn:,} that were asked for" if len(found.parts) < self.to_learn else ""
        self.progress(
            f"the vocabulary{of_side} grows by {len(found.parts):,} pieces{fewer}: {given.size:,} become {found.size:,}"
        )
        return found

    @property
    def labelled(self) -> tuple[AnyCorpus, ...]:
        """The corpora that labels are found in: a rare one may be in the part of a file alone that is held out."""
        return (*self.data.train, *self.data.held_out_parts)

    def labels(self, find: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Return the given labels, or those that are found in the training corpora."""
        return (self.given.labels if self.given else ()) or find()

    def store(self, corpus: AnyCorpus, rows: Rows[Any]) -> TokenStore:
        """Return the store of a corpus."""
        self.rows[corpus] = rows
        return build_store(corpus, rows, self.contents[corpus], self.progress)

    def prepared(
        self, vocabularies: Vocabularies, store: Callable[[AnyCorpus, bool], TokenStore | Rows[Any]]
    ) -> Prepared:
        """Make the store of every training and validation corpus.

        `store` is called with the corpus and whether it is one of training, and returns its rows, or a store where it
        makes that itself.
        """

        def made(corpus: AnyCorpus, training: bool) -> TokenStore:
            found = store(corpus, training)
            return self.store(corpus, found) if isinstance(found, Rows) else found

        train = tuple(made(corpus, True) for corpus in self.data.train)
        weights = weights_of(self.data, [len(each) for each in train])
        sources = tuple(Source(corpus, self.rows.get(corpus)) for corpus in self.data.train)
        valid = tuple(made(corpus, False) for corpus in self.data.valid)
        return Prepared(vocabularies, train, weights, valid, sources)


def weights_of(data: Data, sizes: Sequence[int]) -> tuple[float, ...]:
    """Return how often an epoch shows each row of a corpus, on average.

    Corpora of n rows are drawn in proportion to n^(1/temperature); the largest is shown as its own weight says:
    weight * (largest / n)^(1 - 1/temperature)      Arivazhagan et al. 2019, 4
    """
    largest, exponent = max(sizes), 1 - 1 / data.temperature
    return tuple(corpus.weight * (largest / size) ** exponent for corpus, size in zip(data.train, sizes, strict=True))
