"""The constraint that targets contain some words, and do not contain others.

A row has a state of its sentence's automaton, and the words that it has met. A token may follow if that leaves room for
all that must still follow. Where `</s>` would be the best token of a row but words are missing, these follow at once:
its room is what they need.

With a beam, rows compete within banks of equal progress: see `frontiers/banks.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.constraints.protocol import OfSentences, Sharing
from heedful.decode.constraints.words.automaton import UNREACHED, WordAutomaton
from heedful.decode.constraints.words.tables import Ahead, Tables


@dataclass(eq=False)
class _Noted:
    """What `forbid` found out about the rows of this step."""

    limit_BK: Int[Tensor, "B K"] | None = None
    advancing_RF: Int[Tensor, "R F"] | None = None


@dataclass(frozen=True, eq=False)
class Words(OfSentences, Sharing):
    """Targets contain their required words, and no forbidden ones."""

    tables: Tables
    requires: bool  # whether any sentence requires words
    requires_B: Bool[Tensor, "B"]
    most_B: Int[Tensor, "B"]  # maximum number of tokens, `</s>` included; without words there is always room
    state_BK: Int[Tensor, "B K"]
    met_BKC: Bool[Tensor, "B K C"]
    limit_BK: Int[Tensor, "B K"]  # the maximum, or less where words were missing at the end: see `tighten`
    used: int = 0  # tokens
    noted: _Noted = field(default_factory=_Noted)

    @classmethod
    def of(cls, automata: Sequence[WordAutomaton], limits: Sequence[int], device: torch.device) -> "Words":
        """Make the constraint of a batch, with one automaton and one limit per sentence."""
        distinct = list(dict.fromkeys(automata))
        tables = Tables.join(distinct, device)
        firsts = accumulate([0, *(len(one.root_S) for one in distinct)])
        base = dict(zip(distinct, firsts, strict=False))
        requires = [bool(one.required) for one in automata]
        state_BK = torch.tensor([[base[one]] for one in automata], device=device)
        most_B = torch.tensor(
            [limit if one.words else 2 * UNREACHED for one, limit in zip(automata, limits, strict=True)], device=device
        )
        return cls(
            tables,
            any(requires),
            torch.tensor(requires, device=device),
            most_B,
            state_BK,
            torch.zeros_like(tables.pending_SC[state_BK]),
            most_B.unsqueeze(1),
        )

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid what completes a forbidden word, or leaves too little room."""
        beams = scores_RV.shape[0] // len(self.most_B)
        rows = self._spread(beams)
        state_R, limit_R = rows.state_BK.flatten(), rows.limit_BK.flatten()
        ahead = self.tables.look_ahead(state_R, rows.met_BKC.flatten(0, 1))
        if self.requires:
            most_R = self.most_B.repeat_interleave(beams)
            limit_R = tighten(ahead, limit_R, most_R, self.used, scores_RV)
        room_R1 = (limit_R - self.used - 1).unsqueeze(1)
        forbid_after(scores_RV, ahead, room_R1, self._forbid_kinds)
        self.noted.limit_BK = limit_R.view_as(rows.limit_BK)
        self.noted.advancing_RF = advancing(ahead)

    def _forbid_kinds(self, scores_RV: Float[Tensor, "R V"], forbidden_RX: Bool[Tensor, "R X"]) -> None:
        """Forbid all pieces of some kinds. Most of the time there are none."""
        rows_A = forbidden_RX.any(1).nonzero().flatten()
        if len(rows_A):
            forbidden_AV = forbidden_RX[rows_A].index_select(1, self.tables.kinds.kind_V)
            forbidden_AV = F.pad(forbidden_AV, (0, scores_RV.shape[1] - forbidden_AV.shape[1]), value=True)
            scores_RV[rows_A] = scores_RV[rows_A].masked_fill(forbidden_AV, -math.inf)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Words":
        """Return the rule for the next step."""
        state = self._spread(last_BK.shape[1])
        state_BK, met_BKC, limit_BK = state.state_BK, state.met_BKC, state.limit_BK
        if self.noted.limit_BK is not None:
            limit_BK = self.noted.limit_BK
        if parents_BK is not None:
            state_BK, limit_BK = state_BK.gather(1, parents_BK), limit_BK.gather(1, parents_BK)
            met_BKC = met_BKC.gather(1, parents_BK.unsqueeze(2).expand(-1, -1, met_BKC.shape[2]))
        state_BK, met_BKC = self.tables.read(state_BK, met_BKC, last_BK)
        return replace(self, state_BK=state_BK, met_BKC=met_BKC, limit_BK=limit_BK, used=self.used + 1, noted=_Noted())

    def select(self, sentences: Int[Tensor, "A"]) -> "Words":
        """Keep only these sentences."""
        return replace(super().select(sentences), noted=_Noted())

    def advancing(self) -> Int[Tensor, "R F"]:
        """Return tokens after which less is left to a row; `<pad>` fills up."""
        assert self.noted.advancing_RF is not None, "`forbid` comes first"
        return self.noted.advancing_RF

    def left(self, tokens_RC: Int[Tensor, "R C"]) -> Int[Tensor, "R C"]:
        """Return the number of tokens of required words that are left after each of these tokens."""
        rows = self._spread(len(tokens_RC) // len(self.most_B))
        return left_after(self.tables, rows.state_BK.flatten(), rows.met_BKC.flatten(0, 1), tokens_RC)

    def _spread(self, beams: int) -> "Words":
        """Return the state with this number of rows per sentence: at the start there is one for all."""
        if self.state_BK.shape[1] > 1:
            return self
        names = ("state_BK", "met_BKC", "limit_BK")
        return replace(self, **{name: getattr(self, name).repeat_interleave(beams, 1) for name in names})


# --- of rows ----------------------------------------------------------------------------------------------------------


def tighten(
    ahead: Ahead,
    limit_R: Int[Tensor, "R"],
    most_R: Int[Tensor, "R"],
    used: int | Int[Tensor, "R"],
    scores_RV: Float[Tensor, "R V"],
) -> Int[Tensor, "R"]:
    """Return the limit of each row: what it needs where it would end without a word, until all are there."""
    needed_R = ahead.now_R + used
    limit_R = torch.where(ahead.missing_R & (needed_R <= limit_R), limit_R, most_R)
    at_end_R = ahead.missing_R & (scores_RV[:, END] >= scores_RV.amax(1))
    return torch.where(at_end_R, limit_R.minimum(needed_R), limit_R)


def forbid_after(
    scores_RV: Float[Tensor, "R V"],
    ahead: Ahead,
    room_R1: Int[Tensor, "R 1"],
    forbid_kinds: Callable[[Tensor, Tensor], None],
) -> None:
    """Forbid tokens after which more is left than there is room for, given what forbids all pieces of some kinds."""
    end_R = scores_RV[:, END].masked_fill(ahead.unended_R, -math.inf)
    given_RF = scores_RV.gather(1, ahead.tokens_RF).masked_fill(ahead.edges_RF > room_R1, -math.inf)
    forbid_kinds(scores_RV, ahead.kinds_RX > room_R1)
    scores_RV.scatter_(1, ahead.tokens_RF, given_RF)
    scores_RV[:, END] = end_R


def advancing(ahead: Ahead) -> Int[Tensor, "R F"]:
    """Return the tokens after which less is left than now; `<pad>` for the others."""
    return ahead.tokens_RF.masked_fill(ahead.edges_RF >= ahead.now_R.unsqueeze(1), PAD)


def left_after(
    tables: Tables, state_R: Int[Tensor, "R"], met_RC: Bool[Tensor, "R C"], tokens_RX: Int[Tensor, "R X"]
) -> Int[Tensor, "R X"]:
    """Return the number of tokens of required words that are left to rows after each of these tokens."""
    state_RX = state_R.unsqueeze(1).expand_as(tokens_RX)
    met_RXC = met_RC.unsqueeze(1).expand(-1, tokens_RX.shape[1], -1)
    return tables.unwritten(*tables.read(state_RX, met_RXC, tokens_RX))
