"""How each class was recognised, as tables for a person."""

from typing import Final

import numpy as np

from heedful.columns import align_columns, one_column
from heedful.metrics.classification import ClassificationResult

_WIDEST: Final = 10  # classes up to which the whole matrix is shown; of more, this many of the most frequent mistakes


def class_table(result: ClassificationResult) -> list[str]:
    """Precision, recall and F1, one line per class."""
    rows = [
        [one_column(label), *(f"{100 * share:.2f}%" for share in shares), f"{count:,}"]
        for label, *shares, count in result.by_class()
    ]
    return align_columns([["class", "precision", "recall", "F1", "texts"], *rows])


def confusion_table(result: ClassificationResult) -> list[str]:
    """Which classes were taken for which: one line per class, or the most frequent mistakes of many classes."""
    labels, counts = [one_column(label) for label in result.labels], result.confusion
    if len(labels) <= _WIDEST:
        rows = [[label, *(f"{count:,}" for count in row)] for label, row in zip(labels, counts, strict=True)]
        return align_columns([["true \\ said", *labels], *rows])
    wrong = counts * (1 - np.eye(len(labels), dtype=np.int64))
    commonest = np.argsort(-wrong, axis=None, kind="stable")[:_WIDEST]
    pairs = [divmod(int(index), len(labels)) for index in commonest]
    rows = [[labels[true], labels[said], f"{wrong[true, said]:,}"] for true, said in pairs if wrong[true, said]]
    return align_columns([["true", "said", "texts"], *rows], left=2) if rows else []
