"""The line that a classifier has to beat: logistic regression on n-grams of tokens, by tf-idf.

It is computed once per run, from the same training texts, in seconds. Nothing in it is drawn at random, so that it
changes neither the run nor a resumed one.

Shape letter of this file: J  features: n-grams that occur in the training texts
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import Layout
from heedful.data.epochs.plan import spread
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.metrics.classification import mark_classes
from heedful.metrics.rows import validation_scores
from heedful.nn.layers.ngrams import hash_ngrams
from heedful.tasks.classify.classification import compare_classes
from heedful.tasks.classify.metrics import METRICS
from heedful.tasks.classify.regression import Features, minimise

MOST_TEXTS: Final = 10_000  # of training: more of them are sampled at equal distances
_MOST_TOKENS: Final = 1_000  # of a text
_HASHES: Final = 2**31 - 1  # of pairs of tokens
_KIND: Final = 2**32  # from the keys of a kind of features to those of the next one: single tokens, pairs of tokens


@dataclass(frozen=True, eq=False)
class NgramRegression:
    """Logistic regression with an L2 penalty: of the classes of a text, or of each of several by itself."""

    known: NDArray[np.int64]  # keys of the features, sorted
    rarity: NDArray[np.float32]  # log((1 + n) / (1 + texts with the feature)) + 1; of pairs of tokens, a share of it
    weights_JC: Float[Tensor, "J C"]
    bias_C: Float[Tensor, "C"]

    @classmethod
    @torch.no_grad()
    def fit(
        cls, texts: Sequence[NDArray[np.int64]], labels: Sequence[Sequence[int]], classes: int, several: bool
    ) -> "NgramRegression":
        """Minimise the loss by L-BFGS, from zero."""
        known, counts = np.unique(np.concatenate([np.unique(text) for text in texts]), return_counts=True)
        rarity = (np.log((1 + len(texts)) / (1 + counts)) + 1).astype(np.float32)
        start = cls(known, rarity, torch.zeros(len(known), classes), torch.zeros(classes))
        x, true_BC = start.features(texts), torch.from_numpy(mark_classes(labels, classes)).float()
        pairs = known // _KIND % 2 == 1
        share = minimise(x, torch.from_numpy(pairs), true_BC, start.weights_JC, start.bias_C, several)
        return replace(start, rarity=np.where(pairs, np.float32(share), np.float32(1)) * rarity)

    def features(self, texts: Sequence[NDArray[np.int64]]) -> Features:
        """Return (1 + log count) * rarity of the known features of texts, each text of length 1."""
        columns, values, rows = [], [], []
        for row, text in enumerate(texts):
            found, counts = np.unique(text, return_counts=True)
            index = np.searchsorted(self.known, found).clip(max=len(self.known) - 1)
            seen = self.known[index] == found
            weights = (1 + np.log(counts[seen])) * self.rarity[index[seen]]
            columns.append(index[seen])
            values.append(weights / max(float(np.linalg.norm(weights)), 1e-9))
            rows.append(np.full(int(seen.sum()), row))
        text_of, feature, value = (torch.from_numpy(np.concatenate(parts)) for parts in (rows, columns, values))
        return Features(len(texts), text_of, feature, value.float())

    @torch.no_grad()
    def scores(self, texts: Sequence[NDArray[np.int64]]) -> Float[Tensor, "B C"]:
        """Return the scores of every class."""
        return self.features(texts).times(self.weights_JC) + self.bias_C


class Baseline:
    """Trains the regression when its scores are first asked for, and keeps them."""

    def __init__(
        self, train: Sequence[TokenStore], valid: Sequence[TokenStore], labels: Sequence[str], several: bool
    ) -> None:
        self.train, self._valid, self._labels, self._several = train, valid, tuple(labels), several
        self._scores: dict[str, float] | None = None

    def scores(self, most: int | None, say: Callable[[str], None], metric: str = "accuracy") -> dict[str, float]:
        """Return the scores on the validation texts that the model is scored on: see `evaluate_stores`.

        What is said the first time begins with the `metric` that models are compared by.
        """
        if self._scores is None:
            began = time.perf_counter()
            with torch.inference_mode(False):
                self._scores, used, of = self._fitted(most)
            sample = f"{used:,} of {of:,} training texts" if used < of else f"the {of:,} training texts"
            names = [name for name in dict.fromkeys((metric, "accuracy")) if name in self._scores]
            named = ", ".join(f"{name} {self._scores[name]:.4g}" for name in names)
            say(
                f"the line to beat: {named}, of logistic regression on n-grams of "
                f"{sample} ({time.perf_counter() - began:.1f} s)"
            )
        return self._scores

    def _fitted(self, most: int | None) -> tuple[dict[str, float], int, int]:
        of = sum(map(len, self.train))
        texts, labels = _read(self.train, min(of, MOST_TEXTS))
        model = NgramRegression.fit(texts, labels, len(self._labels), self._several)
        asked, true = _read(self._valid, most or sum(map(len, self._valid)))
        result = compare_classes(model.scores(asked), true, self._labels, self._several)
        return validation_scores(METRICS, result), len(texts), of


def _read(stores: Sequence[TokenStore], most: int) -> tuple[list[NDArray[np.int64]], list[list[int]]]:
    """Return the keys of all n-grams of `most` texts at equal distances, and the classes of these texts."""
    ends = np.cumsum([len(store) for store in stores])
    texts, labels = [], []
    for row in spread(most, int(ends[-1])).tolist():
        number = int(np.searchsorted(ends, row, side="right"))
        store, inside = stores[number], row - (int(ends[number - 1]) if number else 0)
        parts = [name for name in ("text", "second") if name in store.streams]
        keys = [_ngrams(store.sentence(name, inside)[:_MOST_TOKENS], which) for which, name in enumerate(parts)]
        texts.append(np.concatenate(keys))
        labels.append([int(label) for label in store.sentence("label", inside)])
    return texts, labels


def _ngrams(tokens: NDArray[np.unsignedinteger], part: int) -> NDArray[np.int64]:
    """Return the keys of single tokens and pairs of tokens, markers included; those of second texts are others."""
    marked = torch.from_numpy(np.concatenate(([BEGIN], tokens.astype(np.int64), [END])))
    (pairs,) = hash_ngrams(marked, 2, _HASHES)
    both = torch.cat((marked, pairs[Layout.of([len(marked)]).positions > 0] + _KIND))
    return (both + 2 * part * _KIND).numpy()
