"""Batches of a masked language model: for training, and for evaluation with masks that never change."""

from collections.abc import Sequence

import numpy as np

from heedful.base.errors import UserError
from heedful.config.model.encoder_only import BertModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.data.batches.masked import MaskedFeed, validation_feed
from heedful.data.collate import CPU_MULTIPLE
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel
from heedful.tasks.shared.static_shapes import SHORTEST_TEXT


def evaluation_feed(bundle: Bundle[MaskedModel], stores: Sequence[TokenStore], name: str) -> MaskedFeed:
    """Make the batches for evaluation, always the same; refuse unsuitable documents, called `name` in messages."""
    feed = validation_feed(masked_feed(bundle.recipe, bundle.vocabularies["text"], stores, [1.0] * len(stores)))
    try:
        next(feed.plan(0))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return feed


def masked_feed(
    recipe: Recipe, tokenizer: Tokenizer, stores: Sequence[TokenStore], weights: Sequence[float]
) -> MaskedFeed:
    """Make batches of documents with the recipe's masking."""
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
        next_sentence=model_of(recipe, BertModel).next_sentence,
        masking=masking,
        mask_id=tokenizer.mask,
        vocabulary=range(tokenizer.markers, tokenizer.size),
        begins_word=begins_word(tokenizer) if masking.whole_words else None,
        max_sentences=max(1, data.batch_tokens // SHORTEST_TEXT),
        multiple=CPU_MULTIPLE,
    )


def begins_word(tokenizer: Tokenizer) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return for every token id whether its piece starts a word."""
    inside = [tokenizer.continues_word(token) for token in range(tokenizer.size)]
    return ~np.array(inside, np.bool_)
