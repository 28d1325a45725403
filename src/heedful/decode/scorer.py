"""Scorers: what a search asks of one model, or of several that decode as one."""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.base.notes import detail
from heedful.base.packed import Packed
from heedful.decode.frontiers.token_scores import USUAL, Ranking, normaliser
from heedful.decode.shortlist import Shortlists
from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.models.protocols import Decoder, Generator, State, with_words
from heedful.native.decoder import NativeDecoder, native_decoder
from heedful.native.floats import has_float_maps, ranks_by_kernel
from heedful.native.int8 import is_int8
from heedful.native.library import library
from heedful.nn.layers.embedding import Output


@dataclass(frozen=True)
class SingleModel:
    """One model, used as it is: put it into `eval` mode. Keep the scorer: it holds its engine (`engine_of`)."""

    model: Generator

    def __reduce__(self) -> tuple[Any, ...]:  # a copy looks anew for what can take its steps
        return type(self), tuple(getattr(self, each.name) for each in fields(self))

    @cached_property
    def decoder(self) -> Decoder:
        """What takes the steps: kernels, where they can run the decoder."""
        if is_int8(self.model) or has_float_maps(self.model):
            found = native_decoder(self.model.decoder)
            if isinstance(found, NativeDecoder):
                return found
            if library() is not None:
                precision = "int8" if is_int8(self.model) else "float32"
                detail(f"{precision}: PyTorch runs this decoder, not the kernels: {found}")
        return self.model.decoder

    @property
    def ranking(self) -> Ranking:
        """What ranks its scores: kernels, where they also multiply."""
        if isinstance(self.decoder, NativeDecoder):
            return self.decoder
        return (ranks_by_kernel(self.decoder.output) and library()) or USUAL

    @property
    def device(self) -> torch.device:
        """The device that computes."""
        return self.model.decoder.output.weight.device

    @property
    def vocab_size(self) -> int:
        """The number of target tokens."""
        return self.model.decoder.output.weight.shape[0]

    @cached_property
    def longest(self) -> int | None:
        """The number of target tokens that the decoder has positions for; None if it is unlimited."""
        return self.model.decoder.longest  # which looks at all modules: once is enough

    @property
    def continues(self) -> bool:
        """Whether there is no encoder, so that targets continue their sources: prompts without their last tokens."""
        return self.model.encoder is None

    def listed(self, lists: Shortlists, words_U: Int[Tensor, "U"]) -> "ListedModel":
        """Return the model for one batch whose sentences have shortlists."""
        return ListedModel(self.model, self, lists, words_U)

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> State:
        """Encode the sources and start K rows for each, or start them after the sources."""
        if self.model.encoder is None:
            return self.decoder.start(None, beams, aligned, prompt=sources)
        return self.decoder.start(self.model.encoder(sources), beams, aligned)

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Take one more token per row; return the scores of the next, and the new state. The old state is used up."""
        return self.decoder.step(tokens_R, state)


@dataclass(frozen=True)
class ListedState:
    """A decoder's state, and the shortlists of the sentences it is about."""

    decoder: State
    lists: Shortlists

    @property
    def attention_RL(self) -> Float[Tensor, "R L"] | None:
        """That of the decoder."""
        return self.decoder.attention_RL

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "ListedState":
        """Let row k of a sentence continue that sentence's row parents[k]."""
        return replace(self, decoder=self.decoder.reorder(parents_BK))

    def narrow(self, sentences: Int[Tensor, "A"]) -> "ListedState":
        """Keep only these sentences, with all their rows."""
        return ListedState(self.decoder.narrow(sentences), self.lists.select(sentences))


@dataclass(frozen=True)
class ListedModel(SingleModel):
    """One model for one batch whose sentences have shortlists: ids are indices in the list of a sentence."""

    whole: SingleModel
    lists: Shortlists
    words_U: Int[Tensor, "U"]  # that are on any list

    @cached_property
    def decoder(self) -> Decoder:
        """What takes the steps: it scores the words of the batch, if its output layer can be divided."""
        decoder = self.whole.decoder
        if isinstance(decoder, NativeDecoder):
            return decoder.select(self.words_U)
        if isinstance(decoder, nn.Module) and isinstance(decoder.output, Output):
            return cast(Decoder, with_words(decoder, self.words_U))
        return decoder

    @property
    def vocab_size(self) -> int:
        """The number of tokens of the longest list."""
        return self.lists.tokens_BL.shape[1]

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> ListedState:
        """Encode the sources and start K rows for each."""
        return ListedState(super().begin(sources, beams, aligned), self.lists)

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R L"], ListedState]:
        """Take one more token per row; return the scores of the next, and the new state. The old state is used up."""
        listed = cast(ListedState, state)
        logits_RU, after = super().step(listed.lists.tokens(tokens_R), listed.decoder)
        if logits_RU.shape[1] != len(self.words_U):  # a decoder of the caller's may not use its output layer as ours do
            logits_RU = logits_RU.index_select(1, self.words_U)
        return listed.lists.own(logits_RU), replace(listed, decoder=after)


@dataclass(frozen=True)
class States:
    """One state per member."""

    members: tuple[State, ...]

    @property
    def attention_RL(self) -> Float[Tensor, "R L"] | None:
        """The mean of the members' attention."""
        known = [state.attention_RL for state in self.members if state.attention_RL is not None]
        return torch.stack(known).mean(0) if len(known) == len(self.members) else None

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "States":
        """Let row k of a sentence continue that sentence's row parents[k]."""
        return States(tuple(state.reorder(parents_BK) for state in self.members))

    def narrow(self, sentences: Int[Tensor, "A"]) -> "States":
        """Keep only these sentences, with all their rows."""
        return States(tuple(state.narrow(sentences) for state in self.members))


class Ensemble(nn.Module):
    """Models that vote with their probabilities, with equal weights. They read and write the same token ids.

        P(y_t | y_<t, x) = 1/M sum_m P_m(y_t | y_<t, x)

    The members may differ in family, width, depth and seed: each keeps its own state.
    """

    def __init__(self, models: Sequence[EncoderDecoder] | Sequence[LanguageModel]) -> None:
        super().__init__()
        if not models:
            raise UserError("An ensemble has no models, but needs at least one: name them.")
        self._members: list[SingleModel] = [SingleModel(model) for model in models]
        self.models = nn.ModuleList(models)
        for number, member in enumerate(self._members, start=1):
            if member.vocab_size != self.vocab_size:
                raise UserError(
                    f"Model {number} of the ensemble has {member.vocab_size:,} target tokens, but the first has "
                    f"{self.vocab_size:,}: the models of an ensemble must share their vocabularies."
                )
            if member.continues != self.continues:
                raise UserError(
                    f"Model {number} of the ensemble {_use(member)}, but the first {_use(self._members[0])}: the "
                    "models of an ensemble must use their sources alike."
                )

    @property
    def ranking(self) -> Ranking:
        """What ranks the members' mean."""
        return self._members[0].ranking

    @property
    def device(self) -> torch.device:
        """The device that computes."""
        return self._members[0].device

    @property
    def vocab_size(self) -> int:
        """The number of target tokens."""
        return self._members[0].vocab_size

    @property
    def continues(self) -> bool:
        """Whether targets continue their sources."""
        return self._members[0].continues

    @property
    def longest(self) -> int | None:
        """The number of target tokens that all members have positions for; None if it is unlimited."""
        return min((member.longest for member in self._members if member.longest is not None), default=None)

    def forward(self, *inputs: Packed) -> Float[Tensor, "N V"]:
        """Return the log probabilities of every next token, from what a model takes: source and target, or a text."""
        return _mean([model(*inputs) for model in self.models])

    def listed(self, lists: Shortlists, words_U: Int[Tensor, "U"]) -> "Ensemble":
        """Return the ensemble for one batch whose sentences have shortlists."""
        made = copy(self)
        made._members = [member.listed(lists, words_U) for member in self._members]
        return made

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> States:
        """Start K rows per source with every member."""
        return States(tuple(member.begin(sources, beams, aligned) for member in self._members))

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], States]:
        """Step every member; return the log probabilities of the next token, and the new states."""
        states = cast(States, state).members
        stepped = [member.step(tokens_R, own) for member, own in zip(self._members, states, strict=True)]
        return _mean([logits_RV for logits_RV, _ in stepped]), States(tuple(own for _, own in stepped))


Scorer = SingleModel | Ensemble  # scores the next target token, step by step, given the sources


def _use(member: SingleModel) -> str:
    return "continues its source" if member.continues else "reads its source"


def _mean(logits: Sequence[Float[Tensor, "N V"]]) -> Float[Tensor, "N V"]:
    """Return the log of the mean probability, in float32 or wider."""
    log_p = []
    for logits_NV in logits:
        scores_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
        greatest_N1, log_sum_N1 = normaliser(scores_NV)
        log_p.append(scores_NV - greatest_N1 - log_sum_N1)
    return reduce(torch.logaddexp, log_p) - math.log(len(logits))
