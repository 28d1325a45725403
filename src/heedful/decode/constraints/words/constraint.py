"""The constraint that targets contain some words, and do not contain others.

A row has a state of its sentence's automaton, and the words that it has met. A token may follow if that leaves room for
all that must still follow. Where `</s>` would be the best token of a row but words are missing, these follow at once:
its room is what they need.

With a beam, rows compete within banks of equal progress: see `frontiers/banks.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.constraints.protocol import Sharing
from heedful.decode.constraints.words.automaton import WordAutomaton
from heedful.decode.constraints.words.distances import UNREACHED
from heedful.decode.constraints.words.spelling import NOTHING, REST
from heedful.decode.constraints.words.tables import Tables, first_states

_LETTER_FIRST: Final = 2  # kind of the first pieces that begin with a letter


@dataclass(eq=False)
class _Noted:
    """What `forbid` found out about the rows of this step."""

    limit_BK: Int[Tensor, "B K"] | None = None
    advancing_RF: Int[Tensor, "R F"] | None = None


@dataclass(frozen=True, eq=False)
class Words(Sharing):
    """Targets contain their required words, and no forbidden ones."""

    tables: Tables
    requires: bool  # whether any sentence requires words
    requires_B: Bool[Tensor, "B"]
    most_B: Int[Tensor, "B"]  # maximum number of tokens, `</s>` included; without words there is always room
    state_BK: Int[Tensor, "B K"]
    met_BKC: Bool[Tensor, "B K C"]
    limit_BK: Int[Tensor, "B K"]  # the maximum, or less where words are missing at the end
    used: int = 0  # tokens
    noted: _Noted = field(default_factory=_Noted)

    @classmethod
    def of(cls, automata: Sequence[WordAutomaton], limits: Sequence[int], device: torch.device) -> "Words":
        """Make the constraint of a batch, with one automaton and one limit per sentence."""
        distinct = list(dict.fromkeys(automata))
        tables = Tables.join(distinct, device)
        base = dict(zip(distinct, first_states(distinct), strict=True))
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
        rows = self._spread(scores_RV.shape[0] // len(self.most_B))
        state_R, met_RC, limit_R = rows.state_BK.flatten(), rows.met_BKC.flatten(0, 1), rows.limit_BK.flatten()
        missing_R = self._missing(state_R, met_RC).any(1)
        before_R = self._left(state_R, met_RC)
        if self.requires:
            at_end_R = missing_R & (scores_RV[:, END] >= scores_RV.amax(1))
            limit_R = torch.where(at_end_R, limit_R.minimum(self.used + before_R), limit_R)
        edges_RF = self.tables.edges_SF[state_R]
        tokens_RF = self.tables.token_E[edges_RF]
        after_RF = self._left_by_edge(state_R, met_RC, edges_RF)
        room_R1 = (limit_R - self.used - 1).unsqueeze(1)
        end_R = scores_RV[:, END].masked_fill(missing_R | self.tables.held_S[state_R], -math.inf)
        given_RF = scores_RV.gather(1, tokens_RF).masked_fill(after_RF > room_R1, -math.inf)
        self._forbid_kinds(scores_RV, self._left_by_kind(state_R, met_RC) > room_R1)
        scores_RV.scatter_(1, tokens_RF, given_RF)
        scores_RV[:, END] = end_R
        self.noted.limit_BK = limit_R.view_as(rows.limit_BK)
        self.noted.advancing_RF = tokens_RF.masked_fill(after_RF >= before_R.unsqueeze(1), PAD)

    def _forbid_kinds(self, scores_RV: Float[Tensor, "R V"], forbidden_RX: Bool[Tensor, "R X"]) -> None:
        """Forbid all pieces of some kinds. Most of the time there are none."""
        if not self.tables.has_empty:
            forbidden_RX[:, NOTHING] = False
        rows_A = forbidden_RX.any(1).nonzero().flatten()
        if len(rows_A):
            forbidden_AV = forbidden_RX[rows_A].index_select(1, self.tables.kind_V)
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
        state_BK, met_BKC = self._read(state_BK, met_BKC, last_BK)
        left_BK = self._left(state_BK, met_BKC)
        kept_BK = (self.used + 1 + left_BK <= limit_BK) & self._missing(state_BK, met_BKC).any(2)
        return replace(
            self,
            state_BK=state_BK,
            met_BKC=met_BKC,
            limit_BK=torch.where(kept_BK, limit_BK, self.most_B.unsqueeze(1)),
            used=self.used + 1,
            noted=_Noted(),
        )

    def select(self, sentences: Int[Tensor, "A"]) -> "Words":
        """Keep only these sentences."""
        names = ("requires_B", "most_B", "state_BK", "met_BKC", "limit_BK")
        return replace(self, noted=_Noted(), **{name: getattr(self, name)[sentences] for name in names})

    def advancing(self) -> Int[Tensor, "R F"]:
        """Return tokens after which less is left to a row; `<pad>` fills up."""
        assert self.noted.advancing_RF is not None, "`forbid` comes first"
        return self.noted.advancing_RF

    def left(self, tokens_RC: Int[Tensor, "R C"]) -> Int[Tensor, "R C"]:
        """Return the number of tokens of required words that are left after each of these tokens.

        The shortest way to a place where a word may begin does not count.
        """
        rows = self._spread(len(tokens_RC) // len(self.most_B))
        state_RX = rows.state_BK.flatten().unsqueeze(1).expand_as(tokens_RC)
        met_RXC = rows.met_BKC.flatten(0, 1).unsqueeze(1).expand(-1, tokens_RC.shape[1], -1)
        state_RX, met_RXC = self._read(state_RX, met_RXC, tokens_RC)
        missing_RXC = self._missing(state_RX, met_RXC)
        words_RX = (self.tables.base_SC[state_RX] * missing_RXC).sum(2)
        return words_RX - (self.tables.begun_SC[state_RX] * missing_RXC).amax(2)

    def _spread(self, beams: int) -> "Words":
        """Return the state with this number of rows per sentence: at the start there is one for all."""
        if self.state_BK.shape[1] > 1:
            return self
        names = ("state_BK", "met_BKC", "limit_BK")
        return replace(self, **{name: getattr(self, name).repeat_interleave(beams, 1) for name in names})

    def _missing(self, state_X: Tensor, met_XC: Tensor) -> Tensor:
        """Return which words are required, and neither met nor pending."""
        return self.tables.required_SC[state_X] & ~met_XC & ~self.tables.pending_SC[state_X]

    def _left(self, state_X: Tensor, met_XC: Tensor) -> Tensor:
        """Return the number of tokens that are enough for what must still follow."""
        tables = self.tables
        missing_XC = self._missing(state_X, met_XC)
        cost_XC = tables.cost_SC[state_X]
        pending_X = (cost_XC * (tables.pending_SC[state_X] & ~met_XC)).sum(-1)
        kept_X, lost_X = (
            (table_SC[state_X] - cost_XC).masked_fill(~missing_XC, UNREACHED).amin(-1)
            for table_SC in (tables.keeping_SC, tables.to_word_SC)
        )
        words_X = kept_X.minimum(lost_X + pending_X) + (cost_XC * missing_XC).sum(-1) + tables.close_S[state_X]
        return torch.where(missing_XC.any(-1), words_X, tables.to_end_S[state_X])

    def _left_by_kind(self, state_R: Int[Tensor, "R"], met_RC: Bool[Tensor, "R C"]) -> Int[Tensor, "R X"]:
        """Return what is left after a piece of each kind that has no edge; more than any room if none may follow."""
        tables = self.tables
        other_R, letter_R = tables.roots_S2[state_R].unbind(1)
        closed_RC = met_RC | tables.pending_SC[state_R]
        next_RX = torch.stack([other_R, letter_R, other_R, letter_R, tables.root_S[state_R]], dim=1)
        met_RXC = torch.stack([closed_RC, closed_RC, met_RC, met_RC, met_RC], dim=1)
        left_RX = F.pad(self._left(next_RX, met_RXC), (0, 1), value=UNREACHED)
        closing_X = torch.tensor([True, True, False, False, True, True], device=state_R.device)
        return left_RX.masked_fill(tables.held_S[state_R].unsqueeze(1) & closing_X, UNREACHED)

    def _left_by_edge(
        self, state_R: Int[Tensor, "R"], met_RC: Bool[Tensor, "R C"], edges_RF: Int[Tensor, "R F"]
    ) -> Int[Tensor, "R F"]:
        """Return what is left after each edge; more than any room if it may not follow."""
        tables = self.tables
        kind_RF = tables.kind_V[tables.token_E[edges_RF]]
        closes_RF = kind_RF < _LETTER_FIRST
        closed_RC = met_RC | tables.pending_SC[state_R]
        met_RFC = torch.where(closes_RF.unsqueeze(2), closed_RC.unsqueeze(1), met_RC.unsqueeze(1))
        left_RF = self._left(tables.next_E[edges_RF], met_RFC | tables.done_EC[edges_RF])
        stays_RF = tables.held_S[state_R].unsqueeze(1) & (closes_RF | (kind_RF == REST))
        return left_RF.masked_fill(stays_RF | tables.banned_E[edges_RF], UNREACHED)

    def _read(self, state_X: Tensor, met_XC: Tensor, last_X: Tensor) -> tuple[Tensor, Tensor]:
        """Return states and met words after one more token per row."""
        tables = self.tables
        last_X = last_X.clamp(max=len(tables.kind_V) - 1)  # impossible rows may have logits that are no token's
        kind_X = tables.kind_V[last_X]
        closes_X = (kind_X < _LETTER_FIRST) | (last_X == END)
        met_XC = met_XC | (tables.pending_SC[state_X] & closes_X.unsqueeze(-1))
        key_X = state_X * len(tables.kind_V) + last_X
        edge_X = torch.searchsorted(tables.key_E, key_X)
        found_X = tables.key_E[edge_X] == key_X
        root_X = tables.roots_S2[state_X].gather(-1, (kind_X % 2).unsqueeze(-1)).squeeze(-1)
        default_X = torch.where(kind_X < REST, root_X, tables.root_S[state_X])
        next_X = torch.where(found_X, tables.next_E[edge_X], default_X)
        return next_X, met_XC | (tables.done_EC[edge_X] & found_X.unsqueeze(-1))
