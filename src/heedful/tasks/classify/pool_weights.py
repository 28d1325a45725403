"""Weights of a classifier's pools: the share of each token, and of each sentence, in a text's vector."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from heedful.base.packed import Nested, Packed
from heedful.models.hierarchical import HierarchicalEncoder
from heedful.models.networks import Classifier


@dataclass(frozen=True)
class PoolWeights:
    """Weights within a sentence of a document, or within a text or a pair that is read as one sequence."""

    pieces: tuple[str, ...]  # markers included, as the pool weights them too
    weights: tuple[float, ...]  # weight of each piece; they sum to one, unless the pool's own weights do not
    weight: float  # weight of the sentence in its document, which sum to one; 1 where the text is one sequence


@torch.inference_mode()
def pool_weights(
    network: Classifier, text: Packed | Nested, pieces_of: Callable[[Sequence[int]], list[str]]
) -> list[PoolWeights]:
    """Return the weights of one text, or of each text of a pair, the mean over features if a pool has one for each.

    The network must be in `eval` mode.
    """
    outer = network.pooled.weights(text).mean(dim=1).tolist()
    if isinstance(text, Packed):
        words, inner, outer = text, outer, [1.0] * text.layout.sentences
    else:
        assert isinstance(network.encoder, HierarchicalEncoder)
        words, inner = text.words, network.encoder.words.weights(text.words).mean(dim=1).tolist()
    pieces, ends = pieces_of(words.values.tolist()), words.layout.offsets.tolist()
    spans = zip(ends, ends[1:], outer, strict=False)
    return [PoolWeights(tuple(pieces[begin:end]), tuple(inner[begin:end]), weight) for begin, end, weight in spans]
