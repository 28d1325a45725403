"""Greedy search: the most probable next token, again and again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenizer import BEGIN, END
from heedful.decode.choices import best_tokens
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.penalties import LengthPenalty


@dataclass(frozen=True, eq=False)
class Greedy:
    """One row a sentence. It finds what a beam of one finds, whatever the penalty, which only scales the score."""

    tokens_BT: Int[Tensor, "B T"]  # `<s>` first
    log_p_B: Float[Tensor, "B"]
    limit_B: Int[Tensor, "B"]
    penalty: LengthPenalty
    beams: int = 1

    @classmethod
    def begin(cls, limits: Sequence[int], penalty: LengthPenalty, device: torch.device) -> "Greedy":
        """Start with nothing but `<s>`; `limits` are the most tokens of each sentence, `</s>` counted."""
        tokens_B1 = torch.full((len(limits), 1), BEGIN, device=device)
        return cls(tokens_B1, torch.zeros(len(limits), device=device), torch.tensor(limits, device=device), penalty)

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row."""
        return self.tokens_BT[:, -1]

    def extend(self, logits_RV: Float[Tensor, "R V"]) -> "tuple[Greedy, None]":
        """Take the best token."""
        log_p_B1, token_B1 = best_tokens(logits_RV, 1)
        tokens_BT = torch.cat([self.tokens_BT, token_B1], dim=1)
        return replace(self, tokens_BT=tokens_BT, log_p_B=self.log_p_B + log_p_B1.squeeze(1)), None

    @property
    def done_B(self) -> Bool[Tensor, "B"]:
        """Ended, or as long as allowed."""
        return (self.last_R == END) | (self.limit_B < self.tokens_BT.shape[1])  # `<s>` is not counted

    def select(self, sentences: Int[Tensor, "A"]) -> "Greedy":
        """Keep only these sentences."""
        return replace(
            self,
            tokens_BT=self.tokens_BT[sentences],
            log_p_B=self.log_p_B[sentences],
            limit_B=self.limit_B[sentences],
        )

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The one hypothesis of each sentence."""
        divisor = self.penalty(self.tokens_BT.shape[1] - 1)
        return [
            [Hypothesis.of(tokens, log_p / divisor, log_p)]
            for tokens, log_p in zip(self.tokens_BT[:, 1:].tolist(), self.log_p_B.tolist(), strict=True)
        ]
