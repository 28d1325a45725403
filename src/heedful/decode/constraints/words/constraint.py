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

from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.protocol import Left, Sharing
from heedful.decode.constraints.words.automaton import WordAutomaton
from heedful.decode.constraints.words.distances import UNREACHED
from heedful.decode.constraints.words.spelling import REST
from heedful.decode.constraints.words.tables import Tables, first_states

_LETTER_FIRST: Final = 2  # kind of the first pieces that begin with a letter


@dataclass(eq=False)
class _Noted:
    """What `forbid` found out about the rows of this step."""

    limit_BK: Int[Tensor, "B K"] | None = None
    left: Left | None = None


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
        state = self._spread(scores_RV.shape[0] // len(self.most_B))
        state_R, met_RC = state.state_BK.flatten(), state.met_BKC.flatten(0, 1)
        before_R = self._left(state_R, met_RC)
        after_RV = self._left_after(state_R, met_RC)
        after_RV = F.pad(after_RV, (0, scores_RV.shape[1] - after_RV.shape[1]), value=UNREACHED)
        limit_BK = state.limit_BK
        if self.requires:
            ends_R = scores_RV[:, END] >= scores_RV.amax(1)
            at_end_BK = (ends_R & self._missing(state_R, met_RC).any(1)).view_as(limit_BK)
            limit_BK = torch.where(at_end_BK, limit_BK.minimum(self.used + before_R.view_as(limit_BK)), limit_BK)
        room_R1 = limit_BK.flatten().unsqueeze(1) - self.used - 1
        scores_RV.masked_fill_(after_RV > room_R1, -math.inf)
        self.noted.limit_BK, self.noted.left = limit_BK, Left(before_R, after_RV)

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

    @property
    def left(self) -> Left:
        """What is left of the required words, before and after every next token; known after `forbid`."""
        assert self.noted.left is not None, "`forbid` comes first"
        return self.noted.left

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

    def _left_after(self, state_R: Int[Tensor, "R"], met_RC: Bool[Tensor, "R C"]) -> Int[Tensor, "R V"]:
        """Return what is left after each next token; more than any room if it may not follow."""
        tables = self.tables
        closed_RC = met_RC | tables.pending_SC[state_R]
        held_R = tables.held_S[state_R]
        other_R, letter_R = tables.roots_S2[state_R].unbind(1)
        never_R = torch.full_like(state_R, UNREACHED)
        by_kind = [  # in the order of the kinds: begins without and with a letter, ends without and with one
            self._left(other_R, closed_RC).masked_fill(held_R, UNREACHED),
            self._left(letter_R, closed_RC).masked_fill(held_R, UNREACHED),
            self._left(other_R, met_RC),
            self._left(letter_R, met_RC),
            self._left(tables.root_S[state_R], met_RC).masked_fill(held_R, UNREACHED),
            never_R,
        ]
        after_RV = torch.stack(by_kind, 1).index_select(1, tables.kind_V)
        for edges_RF in (tables.edges_SF[tables.root_S[state_R]], tables.edges_SF[state_R]):
            after_RV.scatter_(1, tables.token_E[edges_RF], self._left_over(edges_RF, met_RC, closed_RC, held_R))
        whole_R = ~held_R & ~self._missing(state_R, met_RC).any(1)
        after_RV[:, END] = torch.where(whole_R, 0, never_R)
        return after_RV

    def _left_over(self, edges_RF: Tensor, met_RC: Tensor, closed_RC: Tensor, held_R: Tensor) -> Int[Tensor, "R F"]:
        """Return what is left after each of these edges."""
        tables = self.tables
        kind_RF = tables.kind_V[tables.token_E[edges_RF]]
        closes_RF = kind_RF < _LETTER_FIRST
        met_RFC = torch.where(closes_RF.unsqueeze(2), closed_RC.unsqueeze(1), met_RC.unsqueeze(1))
        left_RF = self._left(tables.next_E[edges_RF], met_RFC | tables.done_EC[edges_RF])
        stays_RF = held_R.unsqueeze(1) & (closes_RF | (kind_RF == REST))
        return left_RF.masked_fill(stays_RF | tables.banned_E[edges_RF], UNREACHED)

    def _read(self, state_BK: Tensor, met_BKC: Tensor, last_BK: Tensor) -> tuple[Tensor, Tensor]:
        """Return states and met words after one more token per row."""
        tables = self.tables
        kind_BK = tables.kind_V[last_BK]
        closes_BK = (kind_BK < _LETTER_FIRST) | (last_BK == END)
        met_BKC = met_BKC | (tables.pending_SC[state_BK] & closes_BK.unsqueeze(2))
        default_BK = torch.where(
            kind_BK < REST,
            tables.roots_S2[state_BK].gather(2, (kind_BK % 2).unsqueeze(2)).squeeze(2),
            tables.root_S[state_BK],
        )
        own_BK = self._edge(state_BK, last_BK)
        edge_BK = torch.where(own_BK < self._none, own_BK, self._edge(tables.root_S[state_BK], last_BK))
        next_BK = torch.where(edge_BK < self._none, tables.next_E[edge_BK], default_BK)
        return next_BK, met_BKC | tables.done_EC[edge_BK]

    @property
    def _none(self) -> int:
        """The number of the edge that stands for none."""
        return len(self.tables.key_E) - 1

    def _edge(self, state_BK: Int[Tensor, "B K"], token_BK: Int[Tensor, "B K"]) -> Int[Tensor, "B K"]:
        """Return the number of the edge that a token takes from a state."""
        key_BK = state_BK * len(self.tables.kind_V) + token_BK
        edge_BK = torch.searchsorted(self.tables.key_E, key_BK)
        return edge_BK.masked_fill(self.tables.key_E[edge_BK] != key_BK, self._none)
