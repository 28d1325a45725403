"""What a search asks of what it searches with: one model, or several that decode as one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.decode.limits import target_limit
from heedful.decode.slots.search import SlotSearch
from heedful.models.networks import EncoderDecoder
from heedful.models.protocols import State
from heedful.packed import Packed


class Scorer(Protocol):
    """Scores the next target token, step by step, given the sources."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    @property
    def vocab_size(self) -> int:
        """How many target tokens there are."""
        ...

    @property
    def longest(self) -> int | None:
        """The most target tokens that it has positions for; None where there is no end."""
        ...

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> State:
        """Begin K rows for each source, as `Decoder.start` does for each sentence of a memory."""
        ...

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Take one more token a row; return the scores of the next, and the new state. The old state is spent."""
        ...


@dataclass(frozen=True)
class SingleModel:
    """A model by itself, used as it is: put it into `eval` mode. Keep it: it remembers what it recorded on a GPU."""

    model: EncoderDecoder

    @cached_property
    def in_slots(self) -> SlotSearch:
        """Its fast search, for what a GPU can record."""
        return SlotSearch(self.model)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.model.parameters()).device

    @property
    def vocab_size(self) -> int:
        """How many target tokens there are."""
        return self.model.decoder.output.weight.shape[0]

    @property
    def longest(self) -> int | None:
        """The most target tokens that the decoder has positions for; None where there is no end."""
        return target_limit(self.model)

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> State:
        """Encode the sources and start the decoder."""
        return self.model.decoder.start(self.model.encoder(sources), beams, aligned)

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Step the decoder."""
        return self.model.decoder.step(tokens_R, state)
