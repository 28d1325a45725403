"""The line that a masked language model has to beat: the most frequent token for every mask.

P(token) = (count(token) + 1) / (N + V),  for the loss. It is counted once per run, from the same texts, in seconds, and
scored on the same masks as the model.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from heedful.base.errors import counted
from heedful.base.packed import IGNORED
from heedful.data.batches.masked import MaskedBatch
from heedful.data.token_store import TokenStore
from heedful.metrics.language.perplexity import Likelihood, MaskedPredictions

_MOST_TOKENS: Final = 20_000_000  # of training: of more, tokens at equal distances are counted


def fill_as_usual(
    train: Sequence[TokenStore], vocabulary: int, batches: Iterable[MaskedBatch]
) -> tuple[MaskedPredictions, str]:
    """Predict the tokens under masks by how often tokens of the vocabulary occur in training; say in how many."""
    total, counts = sum(store.tokens("text") for store in train), np.zeros(vocabulary, np.int64)
    step = -(-total // _MOST_TOKENS)
    for store in train:
        counts += np.bincount(store.streams["text"].values[::step], minlength=vocabulary)
    logs, usual = np.log((counts + 1) / (counts.sum() + vocabulary)), int(counts.argmax())
    likelihood, right = Likelihood(0.0, 0), 0
    for batch in batches:
        labels = batch.labels.numpy()
        labels = labels[labels != IGNORED]
        likelihood += Likelihood(-float(logs[labels].sum()), len(labels))
        right += int((labels == usual).sum())
    read, nouns = int(counts.sum()), counted(total, "training token")
    return MaskedPredictions(likelihood, right, 0, 0), f"{read:,} of {nouns}" if read < total else f"the {nouns}"
