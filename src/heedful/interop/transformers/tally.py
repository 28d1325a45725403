"""Answers of a folder in `transformers` next to those of the original."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from heedful.interop.exports.comparison import Comparison


@dataclass
class Tally:
    """Counts answers that are not equal, and keeps the greatest difference of their scores."""

    count: int = 0
    unequal: int = 0
    difference: float = 0.0

    def compare(self, ours: Tensor, theirs: Tensor) -> None:
        """Compare the scores of an input, whose rows each choose a token, a label or a place."""
        self.count += 1
        if ours.shape != theirs.shape:
            self.unequal, self.difference = self.unequal + 1, inf
            return
        self.unequal += not torch.equal(ours.argmax(-1), theirs.argmax(-1))
        self.differ(ours, theirs)

    def differ(self, ours: Tensor, theirs: Tensor) -> None:
        """Compare numbers."""
        if ours.numel():
            found = float((ours - theirs).abs().max())
            self.difference = found if found != found else max(self.difference, found)  # NaN stays

    def result(self, of: str) -> Comparison:
        """Return what was found; `of` says what the inputs were."""
        return Comparison(self.count, self.unequal, self.difference, of)


@contextmanager
def quietly() -> Iterator[None]:
    """Keep `transformers` from writing to the terminal of a command that reports for itself."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
