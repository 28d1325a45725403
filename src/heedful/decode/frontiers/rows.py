"""K rows per sentence: what the decoding loop asks of the hypotheses of a search, and what all frontiers share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from heedful.base.packed import Layout
from heedful.data.tokenize.tokenizer import BEGIN, PAD
from heedful.decode.constraints.protocol import Constraint, OfSentences, Timeless
from heedful.decode.frontiers.token_scores import USUAL, Ranking
from heedful.decode.hypothesis import Coverage, Hypothesis
from heedful.decode.settings import SearchSettings


@dataclass(frozen=True, eq=False)
class Attended(OfSentences):
    """The attention of K rows per sentence over its source, in the steps that output their tokens.

    It serves coverage and alignments.
    """

    sums_BKL: Float[Tensor, "B K L"]  # of the weights; plus 1 after the end of a source: nothing is left to cover there
    indices_BKT: Int[Tensor, "B K T"]  # of the source token with the greatest weight; `<s>` has none

    @classmethod
    def begin(cls, sources: Layout, beams: int) -> "Attended":
        """Start before the first step over the memory of these sources."""
        sums_BL = (~sources.keep).to(torch.float32)
        nothing_BK0 = torch.empty(len(sums_BL), beams, 0, dtype=torch.int64, device=sums_BL.device)
        return cls(sums_BL.unsqueeze(1).repeat(1, beams, 1), nothing_BK0)

    def add(self, attention_RL: Float[Tensor, "R L"] | None, going_BK: Bool[Tensor, "B #K"]) -> "Attended":
        """Add one step. Rows that are over output no token, so their weights do not count."""
        assert attention_RL is not None, "a decoder that is started `aligned` gives its attention at every step"
        attention_BKL = attention_RL.unflatten(0, (len(self.sums_BKL), -1))
        return Attended(
            self.sums_BKL + attention_BKL * going_BK.unsqueeze(2),
            torch.cat([self.indices_BKT, attention_BKL.argmax(2, keepdim=True)], dim=2),
        )

    def pick(self, rows_BI: Int[Tensor, "B I"]) -> "Attended":
        """Return I of the rows of each sentence."""
        return Attended(pick(self.sums_BKL, rows_BI), pick(self.indices_BKT, rows_BI))


Kind = TypeVar("Kind", bound="Frontier")


@dataclass(frozen=True, eq=False)
class Frontier(OfSentences, ABC):
    """The hypotheses of B sentences, K rows each, and the rule by which they grow and end."""

    settings: SearchSettings
    constraints: tuple[Constraint, ...]
    tokens_BKT: Int[Tensor, "B K T"]  # first `<s>`, or the last token of the prompt; `<pad>` after the end of a row
    log_p_BK: Float[Tensor, "B K"]
    limit_B: Int[Tensor, "B"]  # maximum number of tokens, `</s>` included
    attended: Attended | None
    # Steps before each sentence began, since it joined others; None if all began together.
    begun_B: Int[Tensor, "B"] | None = field(default=None, kw_only=True)
    ranking: Ranking = field(default=USUAL, kw_only=True)

    @classmethod
    def begin(
        cls: type[Kind],
        limits: Sequence[int],
        settings: SearchSettings,
        constraints: tuple[Constraint, ...],
        device: torch.device,
        attended: Attended | None = None,
        firsts: Sequence[int] | None = None,
        **own: Any,
    ) -> Kind:
        """Start every row with `<s>`, or with the first token that is given for its sentence."""
        tokens_BK1 = torch.full((len(limits), settings.rows, 1), BEGIN, device=device)
        if firsts is not None:
            tokens_BK1[:] = torch.tensor(firsts, device=device).view(-1, 1, 1)
        shared = {
            "tokens_BKT": tokens_BK1,
            "log_p_BK": torch.zeros(tokens_BK1.shape[:2], device=device),
            "limit_B": torch.tensor(limits, device=device),
            "attended": attended,
        }
        return cls(settings, constraints, **{**shared, **cls._start(limits, settings, device), **own})

    @classmethod
    @abstractmethod
    def _start(cls, limits: Sequence[int], settings: SearchSettings, device: torch.device) -> Mapping[str, Any]:
        """Return the fields that are not the same at the start of all frontiers."""

    @property
    def joins(self) -> bool:
        """Whether its sentences can go on among others: what constraints and alignments know is of one batch."""
        timeless = all(isinstance(one, Timeless) and not one.counts for one in self.constraints)
        return timeless and self.attended is None

    def together(self: Kind, other: Kind) -> Kind:
        """Return the sentences of both, those of the other after these, each at its own length."""
        length = max(self.length, other.length)
        both = self.delayed(length - self.length).join(other.delayed(length - other.length))
        assert both.begun_B is not None, "a sentence that is delayed has begun at some step"
        return both.delayed(-int(both.begun_B.min()))

    def delayed(self: Kind, steps: int) -> Kind:
        """Return the same sentences as if they had begun some steps later, or earlier."""
        begun_B = torch.zeros_like(self.limit_B) if self.begun_B is None else self.begun_B
        return replace(
            self,
            tokens_BKT=F.pad(self.tokens_BKT, (steps, 0), value=PAD),
            limit_B=self.limit_B + steps,
            begun_B=begun_B + steps,
        )

    @property
    def begun(self) -> list[int]:
        """Steps before each sentence began. Waits for the device."""
        found: list[int] = [0] * len(self.limit_B) if self.begun_B is None else self.begun_B.tolist()
        return found

    @property
    def beams(self) -> int:
        """K: rows of each sentence."""
        return self.tokens_BKT.shape[1]

    @property
    def aligned(self) -> bool:
        """Whether the attention of each step is needed."""
        return self.attended is not None

    @property
    def length(self) -> int:
        """The number of tokens decoded."""
        return self.tokens_BKT.shape[2] - 1

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row, which the decoder has not seen yet."""
        return self.tokens_BKT[:, :, -1].flatten()

    @abstractmethod
    def extend(
        self, logits_RV: Float[Tensor, "R V"], attention_RL: Float[Tensor, "R L"] | None
    ) -> tuple["Frontier", Int[Tensor, "B K"] | None]:
        """Grow by one token. Also return the row that each row extends, or None where each extends itself.

        The attention is that of the step which gave the scores, where it is needed. The scores are used up.
        """

    @property
    @abstractmethod
    def done_B(self) -> Bool[Tensor, "B"]:
        """Which sentences need no further step. Every sentence is done after a finite number of steps."""

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Return what was found for each sentence, scored by its present length. Waits for the device."""
        settings, attended, indices_BKT = self.settings, self.attended, None
        covered_BK = torch.zeros_like(self.log_p_BK)
        if attended is not None:
            covered_BK = Coverage(settings.coverage)(attended.sums_BKL)
            indices_BKT = attended.indices_BKT if settings.aligned else None
        rows = zip(
            self.tokens_BKT[:, :, 1:].tolist(),
            self.log_p_BK.tolist(),
            covered_BK.tolist(),
            list_alignments(self.log_p_BK, indices_BKT),
            strict=True,
        )
        return [
            [
                Hypothesis.scored(tokens[begun:], log_p, settings.penalty, covered, aligned)
                for tokens, log_p, covered, aligned in zip(*row, strict=True)
                if math.isfinite(log_p)
            ]
            for begun, row in zip(self.begun, rows, strict=True)
        ]


def list_alignments(
    like_BK: Float[Tensor, "B K"], indices_BKT: Int[Tensor, "B K T"] | None
) -> list[list[list[int] | None]]:
    """Return the aligned source tokens of each row, or None for each."""
    if indices_BKT is None:
        sentences, rows = like_BK.shape
        return [[None] * rows] * sentences
    alignments: list[list[list[int] | None]] = indices_BKT.tolist()
    return alignments


def pick(x_BW: Shaped[Tensor, "B W *rest"], indices_BI: Int[Tensor, "B I"]) -> Shaped[Tensor, "B I *rest"]:
    """Return I of the W items of each sentence."""
    rest = x_BW.shape[2:]
    return x_BW.gather(1, indices_BI.view(*indices_BI.shape, *(1 for _ in rest)).expand(*indices_BI.shape, *rest))


def is_known_to_be_none(given: Bool[Tensor, "*any"]) -> bool:
    """Whether nothing is true, where that may be asked: on a GPU it is not known without waiting for it."""
    return given.device.type == "cpu" and not bool(given.any())
