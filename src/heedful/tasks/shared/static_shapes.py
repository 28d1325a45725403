"""The one shape of a GPU's batches, for every task."""

from typing import Final

import torch

from heedful.config.data import Data
from heedful.config.model.attention import SCORES_BY_PLACE
from heedful.config.model.transformer import TransformerStack
from heedful.data.batch_layout import StaticShape
from heedful.nn.attention.backends import supports_packed

SHORTEST_TEXT: Final = 32  # tokens: were all texts of a batch shorter, some of its budget would be unused


def static_layout(
    model: TransformerStack, data: Data, longest: int, shortest: int, precision: torch.dtype
) -> StaticShape | None:
    """The shape, where attention runs straight on it: padding it would be wasteful.

    Sentences have `longest` tokens at most, markers included; were all shorter than `shortest`, some of the budget
    would be unused.
    """
    # What adds to scores by place needs padded rows on every device: see `nn.attention.relative_positions`.
    if not model.fused or model.positions in SCORES_BY_PLACE:
        return None
    if not supports_packed(precision, model.width // model.heads, model.dropout_attention):
        return None
    longest = min(longest, data.batch_tokens)
    return StaticShape.around(data.batch_tokens, max(1, data.batch_tokens // shortest), longest)
