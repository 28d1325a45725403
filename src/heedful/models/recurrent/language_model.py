"""The recurrent language model: a decoder without memory, which keeps the protocol of `models.protocols.Decoder`."""

from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import Packed
from heedful.models.protocols import DecoderWithoutMemory
from heedful.models.recurrent.decoder import EachSentence, EachToken
from heedful.models.recurrent.state import RecurrentRows
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.output_feedback import OutputFeedbackStack
from heedful.nn.recurrent.stack import RecurrentStack


class RecurrentLanguageModel(DecoderWithoutMemory):
    """h(t) = f(x(t), h(t-1)),  scores of token t + 1 = W D(h(t)) + b      Mikolov et al. 2010; D: Zaremba et al. 2014

    `read` takes and returns the state between tokens, so that a text may come in pieces of any length.
    """

    def __init__(
        self,
        embedding: Embedding,
        stack: RecurrentStack | OutputFeedbackStack,
        output: Output,
        dropout: float = 0.0,
        variational: bool = False,
    ) -> None:
        super().__init__()
        if stack.directions > 1:
            raise ValueError("a language model of two directions would see the tokens that it is to predict")
        if embedding.positions is not None:
            raise ValueError("a recurrent language model has no first position: its embedding must have no positions")
        self.embedding, self.stack, self.output = embedding, stack, output
        self.drop = (EachSentence if variational else EachToken)(dropout)

    def hidden(
        self, tokens: Packed, state: RecurrentState | None = None
    ) -> tuple[Float[Tensor, "N E"], RecurrentState]:
        """Return the output of the last layer, and the state after each sentence; without one, start from zeros."""
        return self.stack(self.embedding(tokens.values, tokens.layout), tokens.layout, state)

    def read(self, tokens: Packed, state: RecurrentState | None = None) -> tuple[Float[Tensor, "N E"], RecurrentState]:
        """Return the vectors that `output` scores, and the state after each sentence; without one, start from zeros."""
        h_NE, last = self.hidden(tokens, state)
        return self.drop(h_NE, tokens.layout), last

    def zeros(self, rows: int) -> RecurrentState:
        """Return the state of rows before their first token."""
        return self.stack.start(rows, self._like)

    @property
    def _like(self) -> Float[Tensor, "0"]:
        return self.embedding.weight.new_empty(0, dtype=self.embedding.precision)

    # --- the protocol of decoders -------------------------------------------------------------------------------------

    def states(self, tokens: Packed, memory: Packed | None = None) -> Float[Tensor, "N E"]:
        """Return the vectors that `output` turns into scores, for whole sentences."""
        self.refuse(memory)
        return self.read(tokens)[0]

    def start(
        self, memory: Packed | None = None, beams: int = 1, aligned: bool = False, prompt: Packed | None = None
    ) -> RecurrentRows:
        """Read the prompt and start K rows per sentence after it."""
        prompt = self.check_start(memory, aligned, prompt)
        _, last = self.read(prompt)
        return RecurrentRows(prompt.layout.bound, 1, self.stack.cells_without_masks(self._like), last).repeat(beams)

    def step(self, tokens_R: Int[Tensor, "R"], state: RecurrentRows) -> tuple[Float[Tensor, "R V"], RecurrentRows]:
        """Decode one token per row."""
        h_RE, recurrent = state.cells.step(self.embedding.step(tokens_R, 0), state.recurrent)
        return self.output(self.drop(h_RE, None)), state.stepped(recurrent, None)
