"""The common shape of a GPU's batches, for every task."""

from dataclasses import replace
from typing import Final

import torch

from heedful.config.data import Data
from heedful.config.model.attention import SEVERAL_PLACES
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.pooled import TextModel
from heedful.config.model.transformer import TransformerStack
from heedful.data.collate import StaticShape
from heedful.nn.attention.backends import fused_width, supports_packed

SHORTEST_TEXT: Final = 32  # tokens: batches of texts that are all shorter leave some of the budget unused
_MOST_PADDED: Final = 10  # times the tokens of a batch: the padded size that co-attention is captured with


def static_layout(model: object, data: Data, longest: int, shortest: int, precision: torch.dtype) -> StaticShape | None:
    """Return the common shape if a model is a Transformer whose attention can run on packed batches; None otherwise.

    Sentences have at most `longest` tokens, markers included; if all are shorter than `shortest`, some of the budget
    is unused.
    """
    # Positions that add to scores need padded rows on every device: see `nn.attention.relative_positions`.
    if not isinstance(model, TransformerStack) or not model.fused or model.positions_kind.adds_to_scores:
        return None
    if not supports_packed(precision, fused_width(*model.head_widths), model.dropout_attention):
        return None
    longest = min(longest, data.batch_tokens)
    return StaticShape.around(data.batch_tokens, max(1, data.batch_tokens // shortest), longest)


def shape_of_pairs(shape: StaticShape) -> StaticShape | None:
    """Return the shape for pairs whose texts are sequences of their own: twice as many, of as many tokens in all.

    Co-attention pads them; None if the padding of short texts to the longest length would take most of the time.
    """
    pairs = replace(shape, sentences=2 * shape.sentences)
    return pairs if pairs.sentences * pairs.bound <= _MOST_PADDED * pairs.tokens else None


def pooled_shape(model: TextModel, data: Data, precision: torch.dtype) -> StaticShape | None:
    """Return the common shape for a model with one output for a text or a pair; None if it needs padding."""
    encoder = model.encoder.decoder if isinstance(model.encoder, LanguageModelTable) else model.encoder
    if getattr(model.pool, "alignment", "") in SEVERAL_PLACES:
        return None  # areas of tokens are scored in padded rows
    shape = static_layout(encoder, data, data.max_length, SHORTEST_TEXT, precision)
    return shape_of_pairs(shape) if shape is not None and model.joins_after_reading else shape
