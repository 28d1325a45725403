"""One step of the rule that targets are trees over words: the tokens that may follow a row are one row of a table.

A row has l words left, may still open b brackets, and has d brackets open. These tokens may follow it:

    (X      if l > 0 and b > 0
    word    if l > 0 and d > 0
    )X      if X is what was opened last, the last token did not open it, and d > 1 or l = 0
    </s>    if l = 0 and d = 0

So they depend on min(l, 1), min(b, 1), min(d, 2), the last token and X alone. Every token changes l, b and d by fixed
numbers. The labels of open brackets are a stack: every token writes its label just above the top, and an opening
bracket then raises the top, so that all rows do the same.

Shape letters of this file: D  brackets that can be open at once, plus 2    I  rows of the table    X  labels
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.nn.kernels import use_kernels

_KEPT: Final = (1, 1, 1, 0)  # what remains of each count: whether the last token was a part is decided by it alone
_CAPS: Final = (1, 1, 2, 1)  # what matters of each count
_WEIGHTS: Final = (12, 6, 2, 1)  # of the capped counts in the number of a row of the table
_STATES: Final = 24
_DEPTH: Final = 2  # column of the counts


@dataclass(frozen=True, eq=False)
class TreeTables:
    """What each token changes, and what may not follow in each state."""

    labels: int
    deepest: int  # brackets that can be open at once
    changes_V5: Int[Tensor, "V 5"]  # of the counts, where the last one is set; then the label that a token opens
    forbidden_IV: Bool[Tensor, "I V"]
    bounds_24: Int[Tensor, "2 4"]  # of the counts: impossible rows may count anything
    kept_4: Int[Tensor, "4"]
    caps_4: Int[Tensor, "4"]
    weights_4: Int[Tensor, "4"]

    @classmethod
    def of(
        cls,
        opening: Sequence[int],
        closing: Sequence[int],
        words: Sequence[int],
        end: int,
        vocab_size: int,
        deepest: int,
        device: torch.device,
    ) -> "TreeTables":
        """Make the tables for brackets, one for each label, of which at most `deepest` are open at once.

        `words` are the tokens that can be in the place of a word.
        """
        labels = len(opening)
        changes_V5 = torch.zeros(vocab_size, 5, dtype=torch.int64)
        changes_V5[list(opening)] = torch.tensor([0, -1, 1, 0, 0])
        changes_V5[list(opening), 4] = torch.arange(labels)
        changes_V5[list(closing)] = torch.tensor([0, 0, -1, 1, 0])
        changes_V5[list(words)] = torch.tensor([-1, 0, 0, 1, 0])
        state = torch.arange(_STATES).unsqueeze(1)
        left, fits, depth, part = state // 12, state // 6 % 2 > 0, state // 2 % 3, state % 2 > 0
        allowed = torch.zeros(_STATES, labels, vocab_size, dtype=torch.bool)
        allowed[:, :, list(opening)] = ((left > 0) & fits).unsqueeze(2)
        allowed[:, :, list(words)] = ((left > 0) & (depth > 0)).unsqueeze(2)
        allowed[:, torch.arange(labels), torch.tensor(closing)] = part & (depth > left)
        allowed[:, :, end] = (left == 0) & (depth == 0)
        return cls(
            labels,
            deepest,
            changes_V5.to(device),
            ~allowed.flatten(0, 1).to(device),
            torch.tensor([[0] * 4, [2**31, 2**31, deepest, 1]], device=device),
            torch.tensor(_KEPT, device=device),
            torch.tensor(_CAPS, device=device),
            torch.tensor(_WEIGHTS, device=device) * labels,
        )

    def forbid(self, scores_RV: Float[Tensor, "R V"], which_R: Int[Tensor, "R"]) -> None:
        """Write minus infinity where a token may not follow a row, given its row of the table."""
        scores_RV.masked_fill_(self.forbidden_IV.index_select(0, which_R), -math.inf)


@dataclass(frozen=True, eq=False)
class TreeRows:
    """How far the tree of each row is."""

    counts_R4: Int[Tensor, "R 4"]  # words left, brackets that may be opened, brackets open, whether the last is a part
    open_RD: Int[Tensor, "R D"]  # the labels of the brackets that are open, from column 1 on
    which_R: Int[Tensor, "R"]  # the row of the table that says what may not follow

    @classmethod
    def begin(cls, words: Sequence[int], brackets: Sequence[int], tables: TreeTables) -> "TreeRows":
        """Start one row for each number of words, with the number of brackets that there is room for."""
        started_R5 = start_trees(words, brackets, tables)
        open_RD = started_R5.new_zeros(len(started_R5), tables.deepest + 2)
        return cls(started_R5[:, :4].contiguous(), open_RD, started_R5[:, 4].contiguous())

    def pick(self, rows_R: Int[Tensor, "some"]) -> "TreeRows":
        """Return these rows."""
        return TreeRows(
            self.counts_R4.index_select(0, rows_R),
            self.open_RD.index_select(0, rows_R),
            self.which_R.index_select(0, rows_R),
        )


def start_trees(words: Sequence[int], brackets: Sequence[int], tables: TreeTables) -> Int[Tensor, "R 5"]:
    """Return the counts of rows before their first token, and then the row of the table for each.

    They are computed on the host, and take one transfer.
    """
    counts = [(count, most, 0, 0) for count, most in zip(words, brackets, strict=True)]
    states = [
        sum(weight * min(number, cap) for number, cap, weight in zip(some, _CAPS, _WEIGHTS, strict=True))
        for some in counts
    ]
    numbers = [[*some, state * tables.labels] for some, state in zip(counts, states, strict=True)]
    return torch.tensor(numbers, dtype=torch.int64, device=tables.kept_4.device).view(-1, 5)


def follow_trees(
    tables: TreeTables, state: TreeRows, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]
) -> TreeRows:
    """Return the state in which each row extends another, or itself without `rows`, by its last token."""
    counts_R4, open_RD = state.counts_R4, state.open_RD
    if rows_R is None:
        open_RD = open_RD.clone()
    else:
        counts_R4, open_RD = counts_R4.index_select(0, rows_R), open_RD.index_select(0, rows_R)
    change_R5 = tables.changes_V5.index_select(0, last_R)
    open_RD[:, 1:].scatter_(1, counts_R4[:, _DEPTH : _DEPTH + 1], change_R5[:, 4:])
    counts_R4 = torch.addcmul(change_R5[:, :4], counts_R4, tables.kept_4)
    counts_R4 = counts_R4.clamp_(tables.bounds_24[0], tables.bounds_24[1])
    return TreeRows(counts_R4, open_RD, _which(tables, counts_R4, open_RD))


def _which(tables: TreeTables, counts_R4: Int[Tensor, "R 4"], open_RD: Int[Tensor, "R D"]) -> Int[Tensor, "R"]:
    """Return the row of the table for each row."""
    innermost_R1 = open_RD.gather(1, counts_R4[:, _DEPTH : _DEPTH + 1])
    return torch.minimum(counts_R4, tables.caps_4).mul_(tables.weights_4).sum(1).add_(innermost_R1.squeeze(1))


# --- in place ---------------------------------------------------------------------------------------------------------


def tree_step(
    tables: TreeTables, state: TreeRows, rows_R: Int[Tensor, "R"], last_R: Int[Tensor, "R"], beams: int
) -> None:
    """Extend rows as `follow_trees` does, in place; a row extends one of the `beams` rows of its slot."""
    if use_kernels(last_R):
        from heedful.nn.kernels.tree_step import tree_step_kernel

        tree_step_kernel(
            rows_R, last_R, tables.changes_V5, state.counts_R4, state.open_RD, state.which_R,
            tables.labels, beams,
        )  # fmt: skip
        return
    after = follow_trees(tables, state, rows_R, last_R)
    state.counts_R4.copy_(after.counts_R4)
    state.open_RD.copy_(after.open_RD)
    state.which_R.copy_(after.which_R)
