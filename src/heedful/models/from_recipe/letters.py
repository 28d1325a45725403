"""From a recipe's `letters` table to the module that reads the letters of words."""

from typing import assert_never

from torch import nn

from heedful.config.model.encoders import AnyLetters, ConvolutionalLettersTable, RecurrentLettersTable
from heedful.data.prepare.letters import LETTERS
from heedful.models.from_recipe.recurrent import letters_stack
from heedful.nn.layers.embedding import Embedding, make_table
from heedful.nn.layers.letters import ConvolutionalLetters, LetterVectors
from heedful.nn.recurrent.letters import RecurrentLetters


def build_letters(config: AnyLetters, width: int) -> LetterVectors:
    """Make a reader of letters, whose vectors are added to embeddings of this width, with new weights."""
    return LetterVectors(_reader(config), config.width, width)


def _reader(config: AnyLetters) -> nn.Module:
    embedding = Embedding(make_table(LETTERS, config.embedding), positions=None, dropout=config.dropout)
    match config:
        case ConvolutionalLettersTable():
            return ConvolutionalLetters(embedding, config.width, config.kernel)
        case RecurrentLettersTable():
            return RecurrentLetters(embedding, letters_stack(config))
        case _:
            assert_never(config)
