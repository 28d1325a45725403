"""From a recipe to tokenizers and tokenized corpora; what the cache already has is neither trained nor read again."""

from typing import Final

from heedful.base.errors import UserError
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.trees import TreeCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnySide, AnyTokenizer, SideName, side_of
from heedful.data.cache import Say
from heedful.data.corpora.pairs import is_blank, read_pairs
from heedful.data.prepare.pair_stores import Tokenizing
from heedful.data.prepare.prepared import Contents, Prepared, contents_of, weights_of
from heedful.data.text_form import TextForm
from heedful.data.tokenize.cached import TokenizerTraining
from heedful.data.tokenize.pair_encoder import Filters
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training_sample import Sample, Side
from heedful.data.tokenize.vocabularies import Vocabularies

SIDES: Final[tuple[SideName, ...]] = ("source", "target")


def prepare(
    recipe: Recipe,
    progress: Say = lambda message: None,
    given: Vocabularies | None = None,
) -> Prepared:
    """Train the tokenizers, unless vocabularies are given, and tokenize the training and validation corpora.

    `progress` is called with a line of text for each longer task.
    """
    data = recipe.data
    contents = contents_of(data, progress)
    vocabularies = given or _train_tokenizers(data, recipe.tokenizer, contents, progress)
    source, target = vocabularies["source"], vocabularies["target"]
    for corpus in (*data.train, *data.valid, *data.test):
        _refuse_unknown_tag(corpus, source)
    work = Tokenizing(data, source, target, contents, progress)
    train = tuple(work.store(corpus, Filters(data.max_length, data.max_ratio)) for corpus in data.train)
    return Prepared(
        vocabularies,
        train=train,
        weights=weights_of(data, [len(store) for store in train]),
        valid=tuple(work.store(corpus, Filters()) for corpus in data.valid),
    )


def _refuse_unknown_tag(corpus: AnyCorpus, tokenizer: Tokenizer) -> None:
    """Refuse a target language without a tag, and where a given vocabulary has tags, a corpus without a language."""
    if tokenizer.tags and not corpus.to:
        known = ", ".join(f'"{language}"' for language in tokenizer.tags)
        raise UserError(f"{corpus.title}: `to` is missing, but the vocabulary has tags: set it to one of {known}.")
    try:
        if corpus.to:
            tokenizer.tag(corpus.to)
    except UserError as error:
        raise UserError(f'{corpus.title}: `to` is "{corpus.to}", but {error}') from error


def _train_tokenizers(data: Data, config: AnyTokenizer, contents: Contents, progress: Say) -> Vocabularies:
    """Return the tokenizers of both sides, from the cache or trained on the training corpora."""
    if config.joint:
        return Vocabularies(dict.fromkeys(SIDES, _train_tokenizer(data, config, "both", contents, progress)))
    return Vocabularies(
        {side: _train_tokenizer(data, side_of(config, side), side, contents, progress) for side in SIDES}
    )


def _train_tokenizer(data: Data, config: AnySide, side: Side, contents: Contents, progress: Say) -> Tokenizer:
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
            missing = "tree" if isinstance(corpus, TreeCorpus) else "pair with text on both sides"
            raise UserError(f"{corpus.title} has no {missing} to train on.")
