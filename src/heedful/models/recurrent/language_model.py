"""Language models: the scores of every next token, given all before it."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.packed import Packed


class RecurrentLanguageModel(nn.Module):
    """h(t) = f(x(t), h(t-1)),  scores of token t + 1 = W D(h(t)) + b      Mikolov et al. 2010; D: Zaremba et al. 2014

    What was read is in the state, which the caller carries: a text may come in pieces of any length.
    """

    def __init__(self, embedding: Embedding, stack: RecurrentStack, output: Output, dropout: float = 0.0) -> None:
        super().__init__()
        if stack.directions > 1:
            raise ValueError("a language model of two directions would see the tokens that it is to predict")
        if embedding.positions is not None:
            raise ValueError("a recurrent language model has no first position: its embedding must have no positions")
        self.embedding, self.stack, self.output, self.drop = embedding, stack, output, Dropout(dropout)

    def forward(
        self, tokens: Packed, state: RecurrentState | None = None
    ) -> tuple[Float[Tensor, "N E"], RecurrentState]:
        """The vectors that `output` turns into scores, and the state after each sentence; by default from zeros."""
        x_NE = self.embedding(tokens.values, tokens.layout)
        h_NE, last = self.stack(x_NE, tokens.layout, state)
        return self.drop(h_NE), last

    def start(self, rows: int) -> RecurrentState:
        """The state of so many rows before their first token."""
        return self.stack.start(rows, self.embedding.weight.new_empty(0, dtype=self.embedding.precision))

    def step(self, tokens_R: Int[Tensor, "R"], state: RecurrentState) -> tuple[Float[Tensor, "R V"], RecurrentState]:
        """Take one more token a row; return the scores of the next, and the new state."""
        h_RE, state = self.stack.step(self.embedding.step(tokens_R, 0), state)
        return self.output(self.drop(h_RE)), state
