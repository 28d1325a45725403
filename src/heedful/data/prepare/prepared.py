"""What training needs to know about the data, whatever the task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from heedful.base.errors import HeedfulError
from heedful.config.corpora.any import AnyCorpus
from heedful.config.data import Data
from heedful.data.cache import Say
from heedful.data.corpora.files import check_files, content_key
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies

Contents = Mapping[AnyCorpus, Mapping[str, object]]  # what decides which rows a corpus gives


@dataclass(frozen=True, eq=False)
class Prepared:
    """Vocabularies and tokenized corpora."""

    vocabularies: Vocabularies
    train: tuple[TokenStore, ...]  # one per corpus
    weights: tuple[float, ...]  # of the training corpora
    valid: tuple[TokenStore, ...]

    @classmethod
    def of(cls, vocabularies: Vocabularies, data: Data, store: Callable[[AnyCorpus], TokenStore]) -> Self:
        """Make the store of every training and validation corpus."""
        train = tuple(store(corpus) for corpus in data.train)
        weights = weights_of(data, [len(each) for each in train])
        return cls(vocabularies, train, weights, tuple(store(corpus) for corpus in data.valid))


def contents_of(data: Data, progress: Say) -> Contents:
    """Check the files of all corpora, and return what decides which rows those of training give."""
    for corpus in (*data.train, *data.valid):
        check_files(corpus, data.folder)
    tell_unreadable_tests(data, progress)
    return {corpus: content_key(corpus, data.folder) for corpus in (*data.train, *data.valid)}


def tell_unreadable_tests(data: Data, progress: Say) -> None:
    """Report test sets that evaluation would not find; they may still be made while the model trains."""
    for corpus in data.test:
        try:
            check_files(corpus, data.folder)
        except HeedfulError as error:
            progress(f"`data.test`: {error} Training does not need it, but `heedful evaluate` will.")


def weights_of(data: Data, sizes: Sequence[int]) -> tuple[float, ...]:
    """Return how often an epoch shows each row of a corpus, on average.

    Corpora of n rows are drawn in proportion to n^(1/temperature); the largest is shown as its own weight says:
    weight * (largest / n)^(1 - 1/temperature)      Arivazhagan et al. 2019, 4
    """
    largest, exponent = max(sizes), 1 - 1 / data.temperature
    return tuple(corpus.weight * (largest / size) ** exponent for corpus, size in zip(data.train, sizes, strict=True))
