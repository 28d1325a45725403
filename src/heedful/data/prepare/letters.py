"""Letters of words: as numbers in stores, and packed in batches.

There is no vocabulary of letters, so that every model reads every letter.

A letter is a Unicode character. Those below U+0800 (Latin, Greek, Cyrillic, Hebrew, Arabic and more) have a number of
their own; all others share as many numbers, by remainder, as in Clark et al. 2022, 3.1. Long words keep their first and
last letters, which carry most of what letters say of a word.
"""

from typing import Final

import numpy as np
import torch

from heedful.base.packed import Packed
from heedful.data.collate import Lengths, StaticShape, layouts

SPELLING: Final = 1  # raise it when a word would have other numbers
LETTERS: Final = 4096  # numbers
LONGEST_WORD: Final = 16  # letters
_OWN: Final = 0x800
_HALF: Final = LONGEST_WORD // 2


def letters_of(word: str) -> list[int]:
    """Return the numbers of a word's letters, at most LONGEST_WORD of them."""
    kept = word if len(word) <= LONGEST_WORD else word[:_HALF] + word[-_HALF:]
    return [code if code < _OWN else _OWN + code % _OWN for code in map(ord, kept)]


def pack_letters(letters: Lengths, counts_N: Lengths, static: bool = False, multiple: int = 1) -> Packed:
    """Pack the letters of tokens, given how many each token of a batch has; dummies may follow.

    If batches have a static shape, so have their letters: enough for words that all have the most letters.
    """
    tokens = len(counts_N)
    shape = StaticShape.around(LONGEST_WORD * tokens, tokens, LONGEST_WORD) if static else None
    (layout,) = layouts([counts_N], shape, multiple)
    values = np.zeros(layout.tokens, np.int64)
    values[: len(letters)] = letters
    return Packed(torch.from_numpy(values), layout)
