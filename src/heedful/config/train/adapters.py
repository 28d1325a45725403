"""The table [train.adapter]: what a run trains in place of the weights of the model that it starts from."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, PositiveFloat

from heedful.config.section import Section, Share, as_tuple

MapName = Literal["attention", "cross", "network", "recurrent", "embedding", "output"]
HIDDEN: Final[tuple[MapName, ...]] = ("attention", "cross", "network", "recurrent")  # the default, as far as there are


class Lora(Section):
    """Adapters of low rank: W + alpha / rank * B A, where W stays and only A and B learn      Hu et al. 2022, 4.1"""

    kind: Literal["lora"]
    rank: Annotated[int, Field(ge=1, le=65_536)] = 8
    """Number of rows of A and of columns of B: of W with N outputs and K inputs, rank (N + K) numbers are trained."""
    alpha: PositiveFloat | None = Field(default=None, examples=[16.0])
    """Factor of the adapter, which is divided by the rank; by default twice the rank.

    With that default every rank has the factor 2, so that a learning rate that suits one rank suits the others.
    """
    on: Annotated[tuple[MapName, ...], Field(min_length=1), BeforeValidator(as_tuple)] | None = Field(
        default=None, examples=[["attention", "cross"]]
    )
    """Groups of matrices that are adapted; by default those of the hidden layers.

    attention: of self-attention; cross: of attention over another sequence; network: of feed-forward layers, and other
    linear maps; recurrent: of recurrent cells; embedding: of tokens; output: of what scores tokens or classes.
    """
    dropout: Share = 0.0
    """Probability that an input of an adapter is dropped in an update, for all tokens of a micro-batch alike."""

    @property
    def scale(self) -> float:
        """Factor of B A."""
        return 2.0 if self.alpha is None else self.alpha / self.rank
