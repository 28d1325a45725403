"""The task of masked language models: running text, masked tokens, and whether one text follows another."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from heedful.config.model.bert import BertModel
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import CPU_MULTIPLE, StaticShape
from heedful.data.batches.masked import MaskedFeed, some_inputs, validation_feed
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import prepare_texts
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.errors import UserError
from heedful.metrics.masked_tokens import predict_masked
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT, static_layout
from heedful.tasks.shared.validation_scores import metric_first
from heedful.training.objectives import MaskedTokens


class FillTask:
    """From texts with masks to what is masked."""

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; a vocabulary that is given is kept."""
        return prepare_texts(recipe, say, given)

    def objective(self, recipe: Recipe, prepared: Prepared) -> MaskedTokens:
        """What training minimises."""
        return MaskedTokens(recipe.label_smoothing)

    def feed(self, recipe: Recipe, prepared: Prepared) -> MaskedFeed:
        """The training batches. Which texts stand together depends on no device."""
        return masked_feed(recipe, prepared.vocabularies["text"], prepared.train, prepared.weights)

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """The one shape of a GPU's batches, where attention runs straight on it."""
        return static_layout(_model(recipe), recipe.data, recipe.data.max_length, SHORTEST_TEXT, precision)

    def judge(self, bundle: Bundle[MaskedModel], prepared: Prepared) -> "MaskedValidator":
        """What scores the model in training; the recipe's metric comes first."""
        return MaskedValidator(bundle, prepared)

    def tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """The tokens of an epoch: of the first one, as each cuts texts anew."""
        return float(sum(spans.lengths.sum() for spans in self.feed(recipe, prepared).plan(0)))


class MaskedValidator:
    """Scores a masked language model in training, always by the same masks; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[MaskedModel], prepared: Prepared) -> None:
        self._bundle, self._settings = bundle, bundle.recipe.train.validation
        stores, most = prepared.valid, self._settings.max_sentences
        self._feed = judging_feed(bundle, stores, "`data.valid`") if stores else None
        self._chosen = some_inputs(self._feed, most) if self._feed and most is not None else None

    def __call__(self) -> Mapping[str, float]:
        """All scores; none where there is nothing to judge by."""
        if self._feed is None:
            return {}
        plan = self._feed.plan(0) if self._chosen is None else self._chosen
        found = predict_masked(self._bundle.model, map(self._feed.batch, plan))
        scores = {"loss": found.likelihood.loss, "perplexity": found.likelihood.perplexity, "accuracy": found.accuracy}
        if found.next_accuracy is not None:
            scores["next_accuracy"] = found.next_accuracy
        return metric_first(scores, self._settings.metric)


def judging_feed(bundle: Bundle[MaskedModel], stores: Sequence[TokenStore], name: str) -> MaskedFeed:
    """The batches to judge by, always the same. Refuses documents that will not do, which `name` says in messages."""
    feed = validation_feed(masked_feed(bundle.recipe, bundle.vocabularies["text"], stores, [1.0] * len(stores)))
    try:
        next(feed.plan(0))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return feed


def masked_feed(
    recipe: Recipe, tokenizer: Tokenizer, stores: Sequence[TokenStore], weights: Sequence[float]
) -> MaskedFeed:
    """Batches of documents, with masks as the recipe says."""
    data, masking = recipe.data, recipe.train.masking
    if tokenizer.mask is None:
        raise UserError(
            "The vocabulary has no `<mask>`: start from a masked language model, or train from the beginning."
        )
    return MaskedFeed(
        stores,
        weights,
        seed=recipe.train.seed,
        batch_tokens=data.batch_tokens,
        max_length=data.max_length,
        next_sentence=_model(recipe).next_sentence,
        masking=masking,
        mask_id=tokenizer.mask,
        vocabulary=range(tokenizer.markers, tokenizer.size),
        begins_word=begins_word(tokenizer) if masking.whole_words else None,
        max_sentences=max(1, data.batch_tokens // SHORTEST_TEXT),
        multiple=CPU_MULTIPLE,
    )


def begins_word(tokenizer: Tokenizer) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Of every id, whether a word begins with that piece."""
    inside = [tokenizer.continues_word(token) for token in range(tokenizer.size)]
    return ~np.array(inside, np.bool_)


def _model(recipe: Recipe) -> BertModel:
    assert isinstance(recipe.model, BertModel)
    return recipe.model
