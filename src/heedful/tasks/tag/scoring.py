"""Scores of a tagger for words in token stores, and the labels that it decides for."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import Packed
from heedful.data.batches.tagged import TaggedCollator
from heedful.data.collate import CPU_MULTIPLE
from heedful.data.epochs.plan import batches_by_length
from heedful.data.token_store import TokenStore
from heedful.models.bundle import Bundle
from heedful.models.networks import WordClassifier
from heedful.nn.crf import LinearChain
from heedful.tasks.tag.data import sentences_of

Scores = Sequence[Float[Tensor, "W C"]]  # of the words of each sentence


@torch.inference_mode()
def scores_of(
    bundle: Bundle[WordClassifier],
    store: TokenStore,
    sentences: Sequence[int] | None = None,
) -> list[Float[Tensor, "W C"]]:
    """Return the scores of every label for the words of sentences of a store, by default of all.

    A long sentence has several rows, whose words come one after the other. The model must be in `eval` mode.
    """
    rows_of = sentences_of(store)
    chosen = [rows_of[number] for number in (range(len(rows_of)) if sentences is None else sentences)]
    rows = np.array([row for rows in chosen for row in rows], np.int64)
    collator, device = TaggedCollator(), next(bundle.model.parameters()).device
    found: dict[int, Tensor] = {}
    for indices in batches_by_length(collator.costs([store], rows), batch_tokens=bundle.recipe.data.batch_tokens):
        batch = collator.batch([store], rows[indices], multiple=CPU_MULTIPLE)
        scores_WC = bundle.model(batch.to(device)).float().cpu()
        counts = store.lengths("words", rows[indices]).tolist()
        found.update(zip(rows[indices].tolist(), scores_WC[: batch.real_words].split(counts), strict=True))
    return [torch.cat([found[row] for row in rows]) for rows in chosen]


def decide_labels(network: WordClassifier, scores: Scores) -> list[Int[Tensor, "W"]]:
    """Choose the labels of each sentence: the most likely one of each word, or the best path of a CRF."""
    if network.chain is None or not scores:
        return [of_words.argmax(dim=1) for of_words in scores]
    packed = _packed(network.chain, scores)
    return list(network.chain.best(packed.values, packed.layout).labels_N.cpu().split([*map(len, scores)]))


def label_probabilities(network: WordClassifier, scores: Scores) -> list[Float[Tensor, "W C"]]:
    """Return the probability of every label for each word; by a CRF, over all paths of its sentence."""
    if network.chain is None or not scores:
        return [of_words.softmax(dim=1) for of_words in scores]
    packed = _packed(network.chain, scores)
    shares_WC = network.chain.marginals(packed.values, packed.layout).clamp(max=1)  # rounding may exceed the bound
    return list(shares_WC.cpu().split([*map(len, scores)]))


@torch.inference_mode()
def label_loss(network: WordClassifier, scores: Scores, true: Sequence[Sequence[int]]) -> float:
    """Return -log P of the true labels, the mean over words."""
    labels_W = torch.tensor([label for labels in true for label in labels])
    if network.chain is None:
        return float(F.cross_entropy(torch.cat(list(scores)), labels_W))
    packed = _packed(network.chain, scores)
    return float(network.chain.loss(packed.values, labels_W.to(packed.values.device), packed.layout)) / len(labels_W)


def _packed(chain: LinearChain, scores: Scores) -> Packed:
    """Pack the scores of sentences, on the device of a CRF."""
    return Packed.join(scores).to(chain.start.device)
