"""Constraints on repetition in slots: what they know of the tokens of each row is kept in buffers that never move.

Shape letters of this file: S  slots    P  tokens that a row has room for, plus 1
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import BEGIN, PAD
from heedful.decode.constraints.protocol import SlotRows, Timeless
from heedful.decode.constraints.tokens import penalise
from heedful.decode.query import Query, token_ids


class TimelessInSlots:
    """A constraint that looks at the tokens of a row alone. They are kept at the end of the row's buffer.

    So the last tokens of all rows are in the same columns, as in a batch; before the first is `<pad>`. The rule must
    take that as tokens that differ from all others, and must not look at their number.
    """

    def __init__(self, rule: Timeless, rows: SlotRows) -> None:
        self._rule, self._beams = rule, rows.beams
        self._tokens_RP = torch.full((rows.slots * rows.beams, rows.room + 1), PAD, device=rows.device)

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start with the first token alone."""
        tokens_SKP = self._tokens_RP.unflatten(0, (-1, self._beams))
        tokens_SKP[slots] = PAD
        first_A = torch.tensor([BEGIN] * len(queries) if firsts is None else firsts, device=slots.device)
        tokens_SKP[slots, :, -1] = first_A.unsqueeze(1)

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Forbid what the rule forbids."""
        self._rule.forbid(scores_RV, self._tokens_RP)

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Move all tokens forward by one, and add the last."""
        tokens_RP = self._tokens_RP if rows_R is None else self._tokens_RP.index_select(0, rows_R)
        self._tokens_RP.copy_(torch.cat([tokens_RP[:, 1:], last_R.unsqueeze(1)], dim=1))


class RepetitionPenaltyInSlots:
    """The rule of `RepetitionPenalty`, with one flag per row and token of the vocabulary."""

    def __init__(self, penalty: float, rows: SlotRows) -> None:
        self._penalty, self._beams = penalty, rows.beams
        self._seen_RV = torch.zeros((rows.slots * rows.beams, rows.vocab_size), dtype=torch.bool, device=rows.device)

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start with the tokens of the sources."""
        sources = [token_ids(query.source) for query in queries]
        lengths = torch.tensor([len(source) for source in sources], device=slots.device)
        tokens_N = torch.tensor(
            [token for source in sources for token in source], dtype=torch.int64, device=slots.device
        )
        seen_SKV = self._seen_RV.unflatten(0, (-1, self._beams))
        seen_SKV[slots] = False
        seen_SKV[slots.repeat_interleave(lengths, output_size=len(tokens_N)), :, tokens_N] = True

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Lower the scores of all tokens that occurred in the source or in the row."""
        penalise(scores_RV, self._seen_RV, self._penalty)

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Take the flags of the row that each row extends, and add its last token."""
        if rows_R is not None:
            self._seen_RV.copy_(self._seen_RV.index_select(0, rows_R))
        self._seen_RV.scatter_(1, last_R.unsqueeze(1), True)
