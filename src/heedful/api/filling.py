"""The task of masked language models: running text, masked tokens, and whether one text follows another."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch

from heedful.api.feeds import static_layout
from heedful.api.judging import metric_first
from heedful.config.encoders import BertModel
from heedful.config.schema import Recipe
from heedful.data.layouts import CPU_MULTIPLE, StaticShape
from heedful.data.masked_feed import MaskedBatch, MaskedFeed, validation_batches
from heedful.data.prepare import Prepared
from heedful.data.prepare_texts import prepare_texts
from heedful.data.tokenizer import Tokenizer
from heedful.errors import UserError
from heedful.evaluate.masked import foreseen
from heedful.models.bundle import Bundle, Tokenizers
from heedful.models.families import MaskedModel
from heedful.train.masked_tokens import MaskedTokens

_SHORTEST = 32  # tokens of an input: were all shorter, some of a batch's budget would be unused


class Filling:
    """From texts with masks to what is masked."""

    def prepare(self, recipe: Recipe, given: Tokenizers | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a vocabulary that is given is kept."""
        return prepare_texts(recipe, say, given.source if given else None)

    def objective(self, recipe: Recipe, prepared: Prepared) -> MaskedTokens:
        """What training minimises."""
        return MaskedTokens(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> MaskedFeed:
        """The training batches. Which texts stand together depends on no device."""
        return masked_feed(recipe, prepared)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """The one shape of a GPU's batches, where attention runs straight on it."""
        return static_layout(_model(recipe), recipe.data, recipe.data.max_length, _SHORTEST, precision)

    def judge(self, bundle: Bundle[MaskedModel], prepared: Prepared) -> "MaskedJudge":
        """What scores the model in training; the recipe's metric comes first."""
        return MaskedJudge(bundle, prepared)

    def tokens(self, prepared: Prepared) -> float:
        """The tokens of an epoch, about: markers depend on how texts are cut."""
        weighted = zip(prepared.train, prepared.weights, strict=True)
        return sum(weight * store.tokens("text") for store, weight in weighted)


class MaskedJudge:
    """Scores a masked language model in training, always by the same masks; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[MaskedModel], prepared: Prepared) -> None:
        self._bundle, self._prepared = bundle, prepared

    def __call__(self) -> Mapping[str, float]:
        """All scores; none where there is nothing to judge by."""
        recipe, prepared = self._bundle.recipe, self._prepared
        if not prepared.valid:
            return {}
        judged = replace(prepared, train=prepared.valid, weights=(1.0,) * len(prepared.valid))
        batches = _first(validation_batches(masked_feed(recipe, judged)), recipe.train.validation.max_sentences)
        found = foreseen(self._bundle.model, batches)
        scores = {"loss": found.likelihood.loss, "perplexity": found.likelihood.perplexity, "accuracy": found.accuracy}
        if found.next_accuracy is not None:
            scores["next_accuracy"] = found.next_accuracy
        return metric_first(scores, recipe.train.validation.metric)


def _first(batches: Iterator[MaskedBatch], most: int | None) -> Iterator[MaskedBatch]:
    """The first batches, until they have so many inputs; all of them where no number is said."""
    inputs = 0
    for batch in batches:
        yield batch
        inputs += batch.sentences
        if most is not None and inputs >= most:
            return


def masked_feed(recipe: Recipe, prepared: Prepared) -> MaskedFeed:
    """Batches of the training stores, with masks as the recipe says."""
    data, masking, tokenizer = recipe.data, recipe.train.masking, prepared.source_tokenizer
    if tokenizer.mask is None:
        raise UserError(
            "The vocabulary has no `<mask>`: start from a masked language model, or train from the beginning."
        )
    return MaskedFeed(
        prepared.train,
        prepared.weights,
        seed=recipe.train.seed,
        batch_tokens=data.batch_tokens,
        max_length=data.max_length,
        next_sentence=_model(recipe).next_sentence,
        masking=masking,
        mask_id=tokenizer.mask,
        vocabulary=range(tokenizer.markers, tokenizer.size),
        begins_word=begins_word(tokenizer) if masking.whole_words else None,
        max_sentences=max(1, data.batch_tokens // _SHORTEST),
        multiple=CPU_MULTIPLE,
    )


def begins_word(tokenizer: Tokenizer) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Of every id, whether a word begins with that piece."""
    inside = [tokenizer.continues_word(token) for token in range(tokenizer.size)]
    return ~np.array(inside, np.bool_)


def _model(recipe: Recipe) -> BertModel:
    assert isinstance(recipe.model, BertModel)
    return recipe.model
