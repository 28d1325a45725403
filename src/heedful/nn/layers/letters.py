"""The letters of a word as a level below it: one vector per word, made from its letters by a convolution.

The recurrent reader is `nn.recurrent.letters`. Both read packed letters, with a layout whose "sentences" are words.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.nn.layers.convolutions.centred import shifted
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.linear import Linear
from heedful.nn.layers.pooling import MaxPool


class ConvolutionalLetters(nn.Module):
    """y = max_t tanh(sum_j W_j x(t + j) + b),  j = -(kernel - 1) / 2 ... (kernel - 1) / 2      Ma and Hovy 2016, 2.1

    x are embeddings of letters, 0 outside of the word; the maximum is over the letters of a word, feature by feature,
    and tanh as in Kim et al. 2016. A word without letters becomes zeros.
    """

    def __init__(self, embedding: Embedding, width: int, kernel: int) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"a kernel of {kernel} letters has no letter in its middle: it must be odd")
        self.embedding, self.reach, self.width = embedding, kernel // 2, width
        self.project, self.pool = Linear(kernel * embedding.weight.shape[1], width), MaxPool()

    def forward(self, letters: Packed) -> Float[Tensor, "B O"]:
        """Return one vector per word."""
        layout = letters.layout
        x_NE = self.embedding(letters.values, layout)
        if not layout.tokens:
            return x_NE.new_zeros(layout.sentences, self.width)
        seen = [shifted(x_NE, layout, by) for by in range(-self.reach, self.reach + 1)]
        y_NO: Tensor = self.project(torch.cat(seen, dim=1)).tanh()
        return self.pool(y_NO, layout)


class LetterVectors(nn.Module):
    """x_i = W reader(letters of token i), which is added to the embedding of token i; 0 where a token has no letters

    The letters of a word are those of its first piece; the other pieces have none.
    """

    def __init__(self, reader: nn.Module, reader_width: int, width: int) -> None:
        super().__init__()
        self.reader, self.project = reader, Linear(reader_width, width, bias=False)

    def forward(self, text: Packed) -> Packed:
        """Return the text with a vector for each of its tokens. Letters may have more rows, of dummies."""
        assert text.letters is not None, "a text without letters"
        x_NE: Tensor = self.project(self.reader(text.letters))
        return replace(text, added=x_NE[: text.layout.tokens])
