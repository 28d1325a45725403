"""Scores of a tagger for words in token stores, and the labels that it decides for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.label_schemes import mark_spans
from heedful.base.packed import Packed
from heedful.data.batch_layout import CPU_MULTIPLE
from heedful.data.batches.tagged import TaggedCollator
from heedful.data.epochs.plan import batches_by_length
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import ClassificationResult, mark_classes
from heedful.metrics.edits import Floats
from heedful.metrics.label_spans import LabelResult, SpanCounts
from heedful.metrics.rows import ItemCounts
from heedful.metrics.scores import f1_of_sums, macro_f1_of_sums, percent_of_sums
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


Numbers = Sequence[Sequence[int]]  # of the labels of each sentence
Names = Sequence[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class LabelScores:
    """Labels of sentences by name, the words as a classification, and the spans if labels mark spans."""

    said: Names
    true: Names
    words: ClassificationResult  # each word as one text
    spans: LabelResult | None
    loss: float = math.nan  # -log P of the true labels, mean over words

    @classmethod
    def of(cls, labels: tuple[str, ...], said: Numbers, true: Numbers, loss: float = math.nan) -> "LabelScores":
        """Compare labels by number with the true ones."""
        found, wanted = ([tuple(labels[label] for label in sentence) for sentence in one] for one in (said, true))
        spans = LabelResult(found, wanted) if mark_spans(labels) else None
        predicted, right = (
            mark_classes([[label] for part in one for label in part], len(labels)) for one in (said, true)
        )
        return cls(found, wanted, ClassificationResult(labels, right, predicted), spans, loss)

    def outputs(self) -> tuple[Names, Names]:
        """Return the predicted and the true labels of each sentence."""
        return self.said, self.true

    @property
    def marks_spans(self) -> bool:
        """Whether labels mark spans, as BIO and BIOES do."""
        return self.spans is not None

    @property
    def found(self) -> SpanCounts:
        """Counts over spans; there are none where labels do not mark spans."""
        return SpanCounts() if self.spans is None else self.spans.spans

    @property
    def f1(self) -> float:
        """F1 over spans; for labels that do not mark spans, the mean F1 over labels."""
        return self.words.macro_f1 if self.spans is None else self.found.f1

    def span_items(self) -> ItemCounts:
        """Return what each sentence adds to the F1 over spans."""
        assert self.spans is not None
        counts = [(one.right, one.predicted, one.true) for one in self.spans.by_sentence()]
        return ItemCounts("spans with the right words and type", f1_of_sums, lambda: np.array(counts, dtype=np.float64))

    def label_items(self) -> ItemCounts:
        """Return what each sentence adds to the mean F1 over labels."""
        return ItemCounts("mean F1 of labels", macro_f1_of_sums, lambda: self._sums(self.words.class_counts()))

    def accuracy_items(self) -> ItemCounts:
        """Return what each sentence adds to the accuracy over words."""
        right_W = self.words.right_rows
        counts = np.stack([right_W, np.ones_like(right_W)], axis=1).astype(np.float64)
        return ItemCounts("words", percent_of_sums, lambda: self._sums(counts))

    def _sums(self, counts: Floats) -> Floats:
        """Add up the counts of the words of each sentence, none of which is empty."""
        starts = np.cumsum([0, *map(len, self.true)])[:-1]
        return np.add.reduceat(counts, starts, axis=0)
