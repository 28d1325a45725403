"""The training batches of a recipe."""

import torch

from heedful.config.models import SCORES_BY_PLACE, TransformerModel
from heedful.config.schema import Recipe
from heedful.data.batches import CPU_MULTIPLE, StaticShape
from heedful.data.loader import PairFeed
from heedful.data.prepare import Prepared
from heedful.nn.backends import packed_takes


def ragged_feed(recipe: Recipe, prepared: Prepared) -> PairFeed:
    """The training batches. Which sentences stand together depends on no device."""
    data = recipe.data
    most = max(1, data.batch_tokens // 8)  # sentences: shorter ones than 8 tokens leave some of the budget unused
    return PairFeed(prepared.train, prepared.weights, recipe.train.seed, data.batch_tokens, most, multiple=CPU_MULTIPLE)


def static_shape(recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
    """The one shape of a GPU's batches, where attention runs straight on it: padding it would be wasteful."""
    data, model = recipe.data, recipe.model
    # What adds to scores by place needs padded rows on every device: see `nn.relative`.
    if not isinstance(model, TransformerModel) or not model.fused or model.positions in SCORES_BY_PLACE:
        return None
    if not packed_takes(precision, model.width // model.heads, model.dropout_attention):
        return None
    longest = min(data.max_length + 1, data.batch_tokens)
    return StaticShape.around(data.batch_tokens, max(1, data.batch_tokens // 8), longest)
