"""The constraint that a target is a tree over the words of its source: see `heedful.base.trees.linearize`.

A target is a sequence of opening brackets, closing brackets that name what they close, and one token for each word.
With n words of which r were read, and d brackets open, these tokens may follow:

    (X      if a word is left for it, nothing was closed for good yet, and there is room for what must follow
    word    if r < n and d > 0
    )X      if X is what was opened last, it has at least one part, and d > 1 or r = n
    </s>    if the tree is complete

What must follow takes n - r + d + 1 tokens: the words, the closing brackets and `</s>`. Room for it is kept, so every
prefix that is allowed can be completed within the limit; and every tree over the words that fits is allowed. Without
words the target is empty.

How a row changes from step to step is in `nn.decoding.tree_step`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.errors import UserError, option
from heedful.config.decode import LEAST_OF_TREE
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.protocol import SlotRows
from heedful.decode.query import Query
from heedful.nn.decoding.tree_step import TreeRows, TreeTables, follow_trees, start_trees, tree_step


@dataclass(frozen=True)
class TreeTokens:
    """The tokens of linearised trees in a vocabulary."""

    opening: Sequence[int]  # one for each label
    closing: Sequence[int]  # those of the same labels
    words: Sequence[int]  # those that can be in the place of a word: one symbol, or tags

    def __post_init__(self) -> None:
        for name in ("opening", "closing", "words"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # so that it can be hashed

    def tables(self, vocabulary: int, deepest: int, device: torch.device) -> TreeTables:
        """Return the rule as tables, for at most `deepest` brackets that are open at once."""
        return TreeTables.of(self.opening, self.closing, self.words, END, vocabulary, deepest, device)


@dataclass(frozen=True, eq=False)
class Brackets:
    """Targets are trees over exactly the words of their sources."""

    tables: TreeTables
    state: TreeRows
    beams: int  # rows per sentence: at the start there is one for all

    def forbid(self, scores_RV: Float[Tensor, "R V"], tokens_RT: Int[Tensor, "R T"]) -> None:
        """Forbid what cannot be part of a tree over the words."""
        which_R = self.state.which_R
        if len(which_R) != len(scores_RV):
            which_R = which_R.repeat_interleave(len(scores_RV) // len(which_R))
        self.tables.forbid(scores_RV, which_R)

    def follow(self, parents_BK: Int[Tensor, "B K"] | None, last_BK: Int[Tensor, "B K"]) -> "Brackets":
        """Return the rule for the next step."""
        sentences, beams = last_BK.shape
        rows_R, state = None, self.state
        if self.beams != beams:
            state = state.pick(torch.arange(sentences, device=last_BK.device).repeat_interleave(beams))
        if parents_BK is not None:
            first_B1 = torch.arange(0, sentences * beams, beams, device=last_BK.device).unsqueeze(1)
            rows_R = (parents_BK + first_B1).flatten()
        return replace(self, state=follow_trees(self.tables, state, rows_R, last_BK.flatten()), beams=beams)

    def select(self, sentences: Int[Tensor, "A"]) -> "Brackets":
        """Keep only these sentences."""
        rows_K = torch.arange(self.beams, device=sentences.device)
        return replace(self, state=self.state.pick((sentences.unsqueeze(1) * self.beams + rows_K).flatten()))


def _count_brackets(queries: Sequence[Query]) -> list[int]:
    """Return how many brackets each target has room for, besides its words; refuse a target without room for one."""
    for query in queries:
        if query.words and query.limit < query.words + LEAST_OF_TREE:
            raise UserError(
                f"Sentence {query.number + 1:,} has {query.words:,} words, but its tree may have {query.limit:,} "
                f"tokens only, and needs at least {query.words + LEAST_OF_TREE:,}: raise {option('max_extra')}."
            )
    return [(query.limit - query.words - 1) // 2 for query in queries]


# --- factory and slots ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trees:
    """A factory: targets are trees over exactly the words of their sources, which queries count."""

    tokens: TreeTokens
    vocabulary: int

    def __call__(self, queries: Sequence[Query], device: torch.device) -> Brackets:
        """Make the constraint of a batch."""
        brackets = _count_brackets(queries)
        tables = self.tokens.tables(self.vocabulary, max([1, *brackets]), device)
        return Brackets(tables, TreeRows.begin([query.words for query in queries], brackets, tables), beams=1)

    def in_slots(self, rows: SlotRows) -> "BracketsInSlots":
        """Make the constraint of slots."""
        return BracketsInSlots(self.tokens, rows)


class BracketsInSlots:
    """The rule of `Brackets`, on buffers that never move."""

    def __init__(self, tokens: TreeTokens, rows: SlotRows) -> None:
        count = rows.slots * rows.beams
        self._beams = rows.beams
        self._tables = tokens.tables(rows.vocab_size, max(1, (rows.room - 1) // 2), rows.device)
        self._state = TreeRows.begin([0] * count, [0] * count, self._tables)
        self._own_R = torch.arange(count, device=rows.device)

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start trees over the words of these queries."""
        words = [query.words for query in queries]
        started_A15 = start_trees(words, _count_brackets(queries), self._tables).unsqueeze(1)
        self._state.counts_R4.unflatten(0, (-1, self._beams))[slots] = started_A15[:, :, :4]
        self._state.which_R.unflatten(0, (-1, self._beams))[slots] = started_A15[:, :, 4]

    def forbid(self, scores_RV: Float[Tensor, "R V"]) -> None:
        """Forbid what cannot be part of a tree over the words."""
        self._tables.forbid(scores_RV, self._state.which_R)

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Go to the next step."""
        tree_step(self._tables, self._state, self._own_R if rows_R is None else rows_R, last_R, self._beams)
