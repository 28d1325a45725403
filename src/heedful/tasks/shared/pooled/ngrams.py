"""Regression on n-grams of tokens: the lines that models of texts have to beat.

It is computed once per run, from the same training texts, in seconds. Nothing in it is drawn at random, so that it
changes neither the run nor a resumed one.

Shape letter of this file: J  features: n-grams that occur in the training texts
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import Layout
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.nn.layers.ngrams import hash_ngrams
from heedful.tasks.shared.line import sample_rows
from heedful.tasks.shared.pooled.sparse_regression import Features, Loss, minimise

MOST_TEXTS: Final = 10_000  # of training: more of them are sampled at equal distances
_MOST_TOKENS: Final = 1_000  # of a text
_HASHES: Final = 2**31 - 1  # of pairs of tokens
_KIND: Final = 2**32  # from the keys of a kind of features to those of the next one: single tokens, pairs of tokens


@dataclass(frozen=True, eq=False)
class NgramRegression:
    """A regression with an L2 penalty on n-grams of tokens, by tf-idf."""

    known: NDArray[np.int64]  # keys of the features, sorted
    rarity: NDArray[np.float32]  # log((1 + n) / (1 + texts with the feature)) + 1; of pairs of tokens, a share of it
    weights_JC: Float[Tensor, "J C"]
    bias_C: Float[Tensor, "C"]

    @classmethod
    @torch.no_grad()
    def fit(cls, texts: Sequence[NDArray[np.int64]], true_BC: Float[Tensor, "B C"], kind: Loss) -> "NgramRegression":
        """Minimise the loss by L-BFGS, from zero."""
        known, counts = np.unique(np.concatenate([np.unique(text) for text in texts]), return_counts=True)
        rarity = (np.log((1 + len(texts)) / (1 + counts)) + 1).astype(np.float32)
        columns = true_BC.shape[1]
        start = cls(known, rarity, torch.zeros(len(known), columns), torch.zeros(columns))
        x = start.features(texts)
        pairs = known // _KIND % 2 == 1
        factor_J = minimise(x, torch.from_numpy(pairs), true_BC, start.weights_JC, start.bias_C, kind)
        return replace(start, rarity=factor_J.numpy() * rarity)

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
        """Return the scores of texts."""
        return self.features(texts).times(self.weights_JC) + self.bias_C


def ngrams_of_rows(stores: Sequence[TokenStore], rows: Indices) -> list[NDArray[np.int64]]:
    """Return the keys of all n-grams of the texts of these rows, counted through all stores."""
    ends, texts = np.cumsum([len(store) for store in stores]), []
    for row in rows.tolist():
        number = int(np.searchsorted(ends, row, side="right"))
        store, inside = stores[number], row - (int(ends[number - 1]) if number else 0)
        parts = [name for name in ("text", "second") if name in store.streams]
        keys = [_ngrams(store.sentence(name, inside)[:_MOST_TOKENS], which) for which, name in enumerate(parts)]
        texts.append(np.concatenate(keys))
    return texts


def _ngrams(tokens: NDArray[np.unsignedinteger], part: int) -> NDArray[np.int64]:
    """Return the keys of single tokens and pairs of tokens, markers included; those of second texts are others."""
    marked = torch.from_numpy(np.concatenate(([BEGIN], tokens.astype(np.int64), [END])))
    (pairs,) = hash_ngrams(marked, 2, _HASHES)
    both = torch.cat((marked, pairs[Layout.of([len(marked)]).positions > 0] + _KIND))
    return (both + 2 * part * _KIND).numpy()


def fit_stores(
    stores: Sequence[TokenStore], aims: Callable[[Indices], Tensor], kind: Loss
) -> tuple[NgramRegression, str]:
    """Fit a regression on the texts of training stores, or a sample of them; return it, and of which, in words.

    `aims` returns what is true of rows, counted through all stores: rows x scores.
    """
    rows, sample = sample_rows(sum(map(len, stores)), MOST_TEXTS, "text")
    return NgramRegression.fit(ngrams_of_rows(stores, rows), aims(rows), kind), sample
