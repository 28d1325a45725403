"""Rows that grow independently: one token is chosen for each, the best or a random one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.constraints.protocol import Constraint, follow, select
from heedful.decode.frontiers.results import list_unfinished
from heedful.decode.frontiers.rows import Attended, Rows, first_tokens
from heedful.decode.frontiers.token_scores import Scores
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.settings import SearchSettings


@runtime_checkable
class Chooser(Protocol):
    """The rule that chooses the next token of a row."""

    def choose(self, scores: Scores, step: int) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the log P and the token of each row; minus infinity and any token where no token may follow."""
        ...

    def select(self, sentences: Int[Tensor, "A"]) -> "Chooser":
        """Keep only these sentences."""
        ...


@dataclass(frozen=True, eq=False)
class IndependentRows(Rows):
    """K rows per sentence, in a fixed order. A row that is over, by `</s>` or because no token may follow, stays."""

    settings: SearchSettings
    chooser: Chooser
    constraints: tuple[Constraint, ...]
    tokens_BKT: Int[Tensor, "B K T"]  # `<s>` first; `<pad>` after the last token of a row that is over
    log_p_BK: Float[Tensor, "B K"]
    over_BK: Bool[Tensor, "B K"]
    limit_B: Int[Tensor, "B"]  # maximum number of tokens, `</s>` included
    attended: Attended | None

    @classmethod
    def begin(
        cls,
        limits: Sequence[int],
        settings: SearchSettings,
        chooser: Chooser,
        constraints: tuple[Constraint, ...],
        device: torch.device,
        attended: Attended | None = None,
        firsts: Sequence[int] | None = None,
    ) -> "IndependentRows":
        """Start every row with `<s>`, or with the first token that is given for its sentence."""
        size = (len(limits), settings.rows)
        return cls(
            settings,
            chooser,
            constraints,
            first_tokens(*size, firsts, device),
            torch.zeros(size, device=device),
            torch.zeros(size, dtype=torch.bool, device=device),
            torch.tensor(limits, device=device),
            attended,
        )

    @property
    def beams(self) -> int:
        """K: rows of each sentence."""
        return self.tokens_BKT.shape[1]

    def extend(
        self, logits_RV: Float[Tensor, "R V"], attention_RL: Float[Tensor, "R L"] | None
    ) -> "tuple[IndependentRows, None]":
        """Choose a token for each row that is not over."""
        scores = Scores.of(logits_RV, self.constraints, self.tokens_BKT.flatten(0, 1))
        log_p_BK, last_BK = (chosen_R.view(-1, self.beams) for chosen_R in self.chooser.choose(scores, self.length))
        going_BK = ~self.over_BK & (log_p_BK > -math.inf)
        last_BK = last_BK.where(going_BK, PAD)
        extended = replace(
            self,
            constraints=follow(self.constraints, None, last_BK),
            tokens_BKT=torch.cat([self.tokens_BKT, last_BK.unsqueeze(2)], dim=2),
            log_p_BK=self.log_p_BK + log_p_BK.where(going_BK, 0.0),
            over_BK=~going_BK | (last_BK == END),
            attended=self.attended and self.attended.add(attention_RL, going_BK),
        )
        return extended, None

    @property
    def done_B(self) -> Bool[Tensor, "B"]:
        """Which sentences have no row that may grow."""
        return self.over_BK.all(1) | (self.limit_B <= self.length)

    def select(self, sentences: Int[Tensor, "A"]) -> "IndependentRows":
        """Keep only these sentences."""
        return replace(
            self,
            chooser=self.chooser.select(sentences),
            constraints=select(self.constraints, sentences),
            tokens_BKT=self.tokens_BKT[sentences],
            log_p_BK=self.log_p_BK[sentences],
            over_BK=self.over_BK[sentences],
            limit_B=self.limit_B[sentences],
            attended=self.attended and self.attended.select(sentences),
        )

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Return the K hypotheses of each sentence, in their order."""
        return list_unfinished(self.settings, self.tokens_BKT, self.log_p_BK, self.attended)


@dataclass(frozen=True)
class Greedy:
    """Chooses the best token of each row: what a beam of one finds with any length penalty.

    A beam of one with a coverage penalty continues longer: the best token may end a sentence before it is covered.
    """

    def choose(self, scores: Scores, step: int) -> tuple[Float[Tensor, "R"], Int[Tensor, "R"]]:
        """Return the log P and the token of each row."""
        log_p_R1, tokens_R1 = scores.best(1)
        return log_p_R1.squeeze(1), tokens_R1.squeeze(1)

    def select(self, sentences: Int[Tensor, "A"]) -> "Greedy":
        """Keep only these sentences."""
        return self
