"""From a recipe to tokenizers and tokenized corpora; what the cache already has is neither trained nor read again."""

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.config.corpora import AnyCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnyTokenizer
from heedful.data.cache import Say
from heedful.data.corpora.files import check_files, content_key, corpus_name
from heedful.data.corpora.pairs import is_blank, read_pairs
from heedful.data.prepare.pair_stores import Contents, Tokenizing
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.cached import TokenizerTraining
from heedful.data.tokenize.pair_encoder import Filters
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training_sample import Sample, Side
from heedful.errors import HeedfulError, UserError


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that training needs to know of the data. With one joint vocabulary both tokenizers are the same object."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    train: tuple[TokenStore, ...]  # one a corpus
    weights: tuple[float, ...]  # of the training corpora
    valid: tuple[TokenStore, ...]
    labels: tuple[str, ...] = ()  # of a classifier


def prepare(
    recipe: Recipe,
    progress: Say = lambda message: None,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
) -> Prepared:
    """Train the tokenizers, unless they are given, and tokenize the training and validation corpora.

    `progress` gets a line of text for every longer piece of work.
    """
    data = recipe.data
    for corpus in (*data.train, *data.valid):
        check_files(corpus, data.folder)
    tell_unreadable_tests(data, progress)
    contents = {corpus: content_key(corpus, data.folder) for corpus in (*data.train, *data.valid)}
    source, target = tokenizers or _trained_tokenizers(data, recipe.tokenizer, contents, progress)
    for corpus in (*data.train, *data.valid, *data.test):
        _refuse_unknown_tag(corpus, source)
    work = Tokenizing(data, source, target, contents, progress)
    train = tuple(work.store(corpus, Filters(data.max_length, data.max_ratio)) for corpus in data.train)
    return Prepared(
        source,
        target,
        train=train,
        weights=weights_of(data, [len(store) for store in train]),
        valid=tuple(work.store(corpus, Filters()) for corpus in data.valid),
    )


def tell_unreadable_tests(data: Data, progress: Say) -> None:
    """Say now what evaluation will not find; a test set may well be made while the model is trained."""
    for corpus in data.test:
        try:
            check_files(corpus, data.folder)
        except HeedfulError as error:
            progress(f"`data.test`: {error} Training does not need it, but `heedful evaluate` will.")


def _refuse_unknown_tag(corpus: AnyCorpus, tokenizer: Tokenizer) -> None:
    """Refuse a target language without a tag, and where a given vocabulary has tags, a corpus without a language."""
    if tokenizer.tags and not corpus.to:
        known = ", ".join(f'"{language}"' for language in tokenizer.tags)
        raise UserError(
            f"{corpus_name(corpus)}: `to` is missing, but the vocabulary has tags: set it to one of {known}."
        )
    try:
        if corpus.to:
            tokenizer.tag(corpus.to)
    except UserError as error:
        raise UserError(f'{corpus_name(corpus)}: `to` is "{corpus.to}", but {error}') from error


def weights_of(data: Data, sizes: Sequence[int]) -> tuple[float, ...]:
    """How often an epoch shows each pair of a corpus, on average.

    Corpora of n pairs are drawn in proportion to n^(1/temperature); the largest is shown as its own weight says:
    weight * (largest / n)^(1 - 1/temperature)      Arivazhagan et al. 2019, 4
    """
    largest, exponent = max(sizes), 1 - 1 / data.temperature
    return tuple(corpus.weight * (largest / size) ** exponent for corpus, size in zip(data.train, sizes, strict=True))


def _trained_tokenizers(
    data: Data, config: AnyTokenizer, contents: Contents, progress: Say
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and the target side, from the cache or trained on the training corpora."""
    sides: tuple[Side, ...] = ("both",) if config.joint else ("source", "target")
    trained = [_trained_tokenizer(data, config, side, contents, progress) for side in sides]
    return trained[0], trained[-1]


def _trained_tokenizer(data: Data, config: AnyTokenizer, side: Side, contents: Contents, progress: Say) -> Tokenizer:
    languages = sorted({corpus.to for corpus in data.train if corpus.to}) if side != "target" else []

    def sample() -> Sample:
        _refuse_without_pairs(data)
        return Sample.of(data, side, config.sample)

    of_side = "" if side == "both" else f" of the {side} side"
    training = TokenizerTraining(config, TextForm.of(data), [contents[corpus] for corpus in data.train], languages)
    return training.tokenizer(side, of_side, sample, progress)


def _refuse_without_pairs(data: Data) -> None:
    for corpus in data.train:
        if all(is_blank(pair) for pair in read_pairs(corpus, data.folder)):
            raise UserError(f"{corpus_name(corpus)} has no pair with text on both sides to train on.")
