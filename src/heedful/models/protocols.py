"""What trainers and searches ask of a model. They never ask which family it is."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from heedful.nn.layers.embedding import Output
from heedful.packed import Packed


class Encoder(Protocol):
    """Turns packed tokens (or patches) into packed vectors: the memory."""

    def __call__(self, source: Packed) -> Packed:
        """Encode."""
        ...


@runtime_checkable
class State(Protocol):
    """What a decoder remembers of the rows it decodes: K rows for each of B sentences, sentence by sentence."""

    @property
    def attention_RL(self) -> Float[Tensor, "R L"] | None:
        """The weights over the memory's tokens by which each row attended in the last step, to score the next token.

        A row sums to 1; places behind a sentence's end are 0. None before the first step, and where the state was not
        started `aligned`. The weights go with their rows when these are reordered or narrowed: read them from the
        state that `step` returned to have them in the order of the scores.
        """
        ...

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "State":
        """Row k of a sentence goes on from that sentence's row parents[k]."""
        ...

    def narrow(self, sentences: Int[Tensor, "A"]) -> "State":
        """Keep only these sentences, with all their rows."""
        ...


class Decoder(Protocol):
    """Scores the next token, for all positions at once or step by step.

    Law, tested for every family: stepping equals forward.
    """

    output: Output

    def states(self, tokens: Packed, memory: Packed) -> Float[Tensor, "N E"]:
        """The vectors that `output` turns into scores, for whole sentences."""
        ...

    def __call__(self, tokens: Packed, memory: Packed) -> Float[Tensor, "N V"]:
        """The scores of every next token, for whole sentences: output(states)."""
        ...

    def start(self, memory: Packed, beams: int = 1, aligned: bool = False) -> State:
        """Begin K rows for each sentence of the memory; `aligned` where the weights of each step are asked for."""
        ...

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Take one more token a row; return the scores of the next, and the new state. The old state is spent."""
        ...
