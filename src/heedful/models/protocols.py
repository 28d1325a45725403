"""What trainers, metrics and searches ask of a network. They never ask which family it is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Any, Final, Protocol, TypeVar, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.nn.alignments.networks import Location
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.positions import Learned

BatchType = TypeVar("BatchType", contravariant=True)


@runtime_checkable
class Encoder(Protocol):
    """Turns packed tokens (or patches) into packed vectors: the memory."""

    def __call__(self, source: Any) -> Packed:
        """Encode what this encoder reads: packed tokens, or images."""


# --- decoders ---------------------------------------------------------------------------------------------------------


@runtime_checkable
class State(Protocol):
    """What a decoder remembers of the rows it decodes: K rows for each of B sentences, sentence by sentence."""

    @property
    def attention_RL(self) -> Float[Tensor, "R L"] | None:
        """The weights over the memory's tokens with which each row attended in the last step, to score the next token.

        A row sums to 1; it is 0 after the end of a sentence. None before the first step, and unless the state was
        started `aligned`. The weights move with their rows when these are reordered or narrowed: read them from the
        state that `step` returned to have them in the order of the scores.
        """

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "State":
        """Let row k of a sentence continue that sentence's row parents[k]."""

    def narrow(self, sentences: Int[Tensor, "A"]) -> "State":
        """Keep only these sentences, with all their rows."""


@runtime_checkable
class JoiningState(State, Protocol):
    """A state whose sentences can go on among others, which began at another time."""

    @property
    def joins_in_place(self) -> bool:
        """Whether others join without a copy of what the state has."""

    def join(self, other: Any) -> "JoiningState | None":
        """Return the state of both, the other's sentences after these; None if they cannot share one."""


_JOINING: Final[dict[type, bool]] = {}  # by the type of a state: a protocol takes long to look for


def joining(state: State) -> JoiningState | None:
    """Return a state if others can join it."""
    if type(state) not in _JOINING:
        _JOINING[type(state)] = isinstance(state, JoiningState)
    return cast(JoiningState, state) if _JOINING[type(state)] else None


@runtime_checkable
class Decoder(Protocol):
    """Scores the next token, for all positions at once or step by step, with or without a memory.

    Laws, tested for every family: stepping equals forward; starting with a prompt equals stepping through it.
    """

    output: Output

    @property
    def longest(self) -> int | None:
        """The number of tokens that there are positions for; None if it is unlimited."""

    def states(self, tokens: Packed, memory: Packed | None) -> Float[Tensor, "N E"]:
        """Return the vectors that `output` turns into scores, for whole sentences."""

    def __call__(self, tokens: Packed, memory: Packed | None) -> Float[Tensor, "N V"]:
        """Return the scores of every next token, for whole sentences."""

    def start(
        self, memory: Packed | None, beams: int = 1, aligned: bool = False, prompt: Packed | None = None
    ) -> State:
        """Start K rows per sentence; with `aligned`, every step keeps its weights over the memory.

        The decoder reads all tokens of a prompt at once, and the state stands after them. Without a memory the prompt
        says how many sentences there are; it may be empty.
        """

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Take one more token per row; return the scores of the next, and the new state. The old state is used up."""


DecoderType = TypeVar("DecoderType", bound=nn.Module)


def with_words(decoder: DecoderType, words_U: Int[Tensor, "U"]) -> DecoderType:
    """Return a decoder whose output layer scores these words only, in their order. It shares all other weights."""
    made = copy(decoder)
    made._modules = {**decoder._modules}  # which a copy has in common with what it is a copy of
    made.output = cast(Output, decoder.output).select(words_U)
    return made


# --- networks ---------------------------------------------------------------------------------------------------------


class Generator(nn.Module):
    """A network that generates text: a decoder over the memory of an encoder, or a decoder alone.

    A base class, not a protocol: from Python 3.12 on, a protocol does not see attributes that are modules at run time.
    """

    encoder: Encoder | None  # what reads the source; None where the decoder continues the source itself
    decoder: Decoder  # what scores the next token


@runtime_checkable
class NextTokenModel(Protocol[BatchType]):
    """A network that predicts every next token of a batch: what one loss and one perplexity are computed from."""

    @property
    def output(self) -> Output:
        """The layer that turns states into scores."""

    def next_token_states(self, batch: BatchType) -> Float[Tensor, "N E"]:
        """Return one vector for each label of the batch, for `output`: a loss need not hold the scores of all."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """All weights."""


@runtime_checkable
class HasPrecision(Protocol):
    """A module that sets the type in which values are computed after it."""

    precision: torch.dtype


class DecoderWithoutMemory(nn.Module, ABC):
    """What language models that read texts of any length have in common."""

    output: Output

    @property
    def longest(self) -> None:
        """The number of tokens is unlimited."""
        return None

    @abstractmethod
    def states(self, tokens: Packed, memory: Packed | None = None) -> Float[Tensor, "N E"]:
        """Return the vectors that `output` turns into scores, for whole sentences."""

    def forward(self, tokens: Packed, memory: Packed | None = None) -> Float[Tensor, "N V"]:
        """Return the scores of every next token, for whole sentences."""
        logits: Tensor = self.output(self.states(tokens, memory))
        return logits

    def check_start(self, memory: Packed | None, aligned: bool, prompt: Packed | None) -> Packed:
        """Return the prompt that rows start after; refuse what only a memory makes possible."""
        self.refuse(memory)
        if prompt is None:
            raise ValueError("a decoder without memory starts with a prompt, which may be empty")
        if aligned:
            raise ValueError("a decoder without memory has no weights over it to align with")
        return prompt

    def refuse(self, memory: Packed | None) -> None:
        """Refuse a memory."""
        if memory is not None:
            raise ValueError("this decoder has no attention over a memory, but was given one")


# --- how long sentences may be ----------------------------------------------------------------------------------------


def source_limit(model: Generator) -> int | None:
    """Return the number of source tokens that a network has positions for; None if it is unlimited."""
    if model.encoder is None:
        return model.decoder.longest
    encoder = cast(nn.Module, model.encoder)
    return min((*position_limit(encoder), *place_limit(cast(nn.Module, model))), default=None)


def position_limit(part: nn.Module) -> Iterator[int]:
    """Yield the number of positions of each table of learned positions."""
    return (module.limit for module in part.modules() if isinstance(module, Learned))


def place_limit(part: nn.Module) -> Iterator[int]:
    """Yield the number of keys that each alignment by place can score."""
    return (module.weight.shape[1] for module in part.modules() if isinstance(module, Location))
