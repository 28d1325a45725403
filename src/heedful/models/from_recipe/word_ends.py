"""Which tokens of a vocabulary count as words, for models that count words."""

from typing import Final

import torch
from jaxtyping import Bool
from torch import Tensor

from heedful.base.trees import closes, opens
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer

WordEnds = tuple[Bool[Tensor, "V"], Bool[Tensor, "V2"]]  # of the source and the target vocabulary

_END: Final = "</w>"  # of pieces that end a word, in vocabularies that mark them


def word_ends(tokenizer: Tokenizer) -> Bool[Tensor, "V"]:
    """Return for each token whether it ends a word; in vocabularies that mark where words begin, whether it begins one.

    Brackets of trees and markers do neither.
    """
    pieces = tokenizer.pieces(range(tokenizer.size))
    if any(piece.endswith(_END) for piece in pieces):
        marked = [piece.endswith(_END) or token == UNKNOWN for token, piece in enumerate(pieces)]
    else:
        marked = [not tokenizer.continues_word(token) for token in range(tokenizer.size)]
    ends = torch.tensor(
        [mark and not opens(piece) and not closes(piece) for mark, piece in zip(marked, pieces, strict=True)]
    )
    ends[[PAD, BEGIN, END, *tokenizer.tags.values()]] = False
    return ends
