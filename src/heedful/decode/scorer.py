"""Scorers: what a search asks of one model, or of several that decode as one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import Packed
from heedful.decode.slots.search import SlotSearch
from heedful.models.protocols import Generator, State


class Scorer(Protocol):
    """Scores the next target token, step by step, given the sources."""

    @property
    def device(self) -> torch.device:
        """The device that computes."""
        ...

    @property
    def vocab_size(self) -> int:
        """The number of target tokens."""
        ...

    @property
    def longest(self) -> int | None:
        """The number of target tokens that there are positions for; None if it is unlimited."""
        ...

    @property
    def continues(self) -> bool:
        """Whether targets continue their sources, which are then prompts without their last tokens."""
        ...

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> State:
        """Start K rows per source, as `Decoder.start` does for each sentence."""
        ...

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Take one more token per row; return the scores of the next, and the new state. The old state is used up."""
        ...


@dataclass(frozen=True)
class SingleModel:
    """One model, used as it is: put it into `eval` mode. Keep the scorer: it holds what was recorded on a GPU."""

    model: Generator

    @cached_property
    def in_slots(self) -> SlotSearch:
        """The fast search, for what a GPU can record."""
        return SlotSearch(self.model)

    @property
    def device(self) -> torch.device:
        """The device that computes."""
        return next(self.model.parameters()).device

    @property
    def vocab_size(self) -> int:
        """The number of target tokens."""
        return self.model.decoder.output.weight.shape[0]

    @property
    def longest(self) -> int | None:
        """The number of target tokens that the decoder has positions for; None if it is unlimited."""
        return self.model.decoder.longest

    @property
    def continues(self) -> bool:
        """Whether there is no encoder, so that the decoder continues the sources."""
        return self.model.encoder is None

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> State:
        """Encode the sources and start the decoder, or start it after the sources."""
        if self.model.encoder is None:
            return self.model.decoder.start(None, beams, aligned, prompt=sources)
        return self.model.decoder.start(self.model.encoder(sources), beams, aligned)

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Step the decoder."""
        return self.model.decoder.step(tokens_R, state)
