"""A recurrent reader of the letters of a word, in two directions."""

from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.nn.layers.embedding import Embedding
from heedful.nn.recurrent.stack import RecurrentStack


class RecurrentLetters(nn.Module):
    """y = [h(n); h'(1)]: the last state of each direction over embeddings of letters      Lample et al. 2016, 4.1

    Letters are packed, with a layout whose "sentences" are words. A word without letters becomes zeros.
    """

    def __init__(self, embedding: Embedding, stack: RecurrentStack) -> None:
        super().__init__()
        self.embedding, self.stack, self.width = embedding, stack, stack.output_width

    def forward(self, letters: Packed) -> Float[Tensor, "B O"]:
        """Return one vector per word."""
        x_NE = self.embedding(letters.values, letters.layout)
        _, last = self.stack(x_NE, letters.layout)
        return last.top(self.stack.directions).to(x_NE.dtype)
