"""Tables of scores per class and of confusions between classes."""

from typing import Final

import numpy as np

from heedful.base.columns import align_columns, one_column
from heedful.metrics.classification import ClassificationResult

_WIDEST: Final = 10  # maximum classes of a full matrix; with more, this number of most frequent mistakes is shown


def class_table(result: ClassificationResult, noun: str = "text") -> list[str]:
    """Format precision, recall and F1, one line per class; `noun` is what is classified."""
    rows = [
        [one_column(label), *(f"{100 * share:.2f}%" for share in shares), f"{count:,}"]
        for label, *shares, count in result.by_class()
    ]
    return align_columns([["class", "precision", "recall", "F1", f"{noun}s"], *rows])


def confusion_table(result: ClassificationResult, noun: str = "text") -> list[str]:
    """Format the confusion matrix, one line per class, or the most frequent mistakes if there are many classes."""
    labels, counts = [one_column(label) for label in result.labels], result.confusion
    if len(labels) <= _WIDEST:
        rows = [[label, *(f"{count:,}" for count in row)] for label, row in zip(labels, counts, strict=True)]
        return align_columns([["true \\ predicted", *labels], *rows])
    wrong = counts * (1 - np.eye(len(labels), dtype=np.int64))
    most_frequent = np.argsort(-wrong, axis=None, kind="stable")[:_WIDEST]
    pairs = [divmod(int(index), len(labels)) for index in most_frequent]
    rows = [[labels[true], labels[said], f"{wrong[true, said]:,}"] for true, said in pairs if wrong[true, said]]
    return align_columns([["true", "predicted", f"{noun}s"], *rows], left=2) if rows else []
