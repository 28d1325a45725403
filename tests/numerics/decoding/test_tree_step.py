"""A step of trees over words: the kernel against the plain reference, and the reference against lists."""

import random
from dataclasses import fields

import pytest
import torch
from torch import Tensor

from heedful.nn.decoding.tree_step import TreeRows, TreeTables, tree_step_reference

pytest.importorskip("triton", reason="Triton is not installed here")
from heedful.nn.kernels.tree_step import tree_step_kernel

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # there in Triton's interpreter
OPENING, CLOSING, WORDS, END, VOCABULARY = (4, 5, 6), (7, 8, 9), (10, 11), 2, 13
SLOTS, DEEPEST = 3, 70  # more than one block of the kernel


def tables_of(deepest: int = DEEPEST) -> TreeTables:
    return TreeTables.of(OPENING, CLOSING, WORDS, END, VOCABULARY, deepest, DEVICE)


def tensors(state: TreeRows) -> dict[str, Tensor]:
    return {field.name: getattr(state, field.name) for field in fields(state)}


@pytest.mark.parametrize("beams", [1, 3])
def test_the_kernel_does_what_the_reference_does_step_after_step(beams: int) -> None:
    """Any tokens, as those of impossible rows: first mostly opening brackets, and then mostly closing ones."""
    generator, tables = torch.Generator().manual_seed(beams), tables_of()
    rows = SLOTS * beams
    state, plain = (TreeRows.begin([40] * rows, [DEEPEST] * rows, tables, DEEPEST) for _ in range(2))
    first_R = torch.arange(rows) // beams * beams
    for step in range(200):
        weights = torch.tensor([0.1] * 4 + [6.0 if step < 100 else 1.0] * 3 + [3.0] * 3 + [1.0] * 3)
        last_R = torch.multinomial(weights, rows, replacement=True, generator=generator).to(DEVICE)
        rows_R = (first_R + torch.randint(beams, (rows,), generator=generator)).to(DEVICE)
        tree_step_reference(tables, plain, rows_R, last_R)
        tree_step_kernel(
            rows_R, last_R, tables.changes_V5, state.counts_R4, state.open_RD, state.which_R, len(OPENING), beams
        )
        assert torch.equal(state.counts_R4, plain.counts_R4), step
        assert torch.equal(state.which_R, plain.which_R), step
        used = torch.arange(DEEPEST + 2, device=DEVICE) <= plain.counts_R4[:, 2:3]
        assert torch.equal(state.open_RD[used], plain.open_RD[used]), step
    assert all(torch.isfinite(tensor).all() for tensor in tensors(state).values())


def test_rows_that_extend_others_allow_what_lists_of_their_tokens_allow() -> None:
    chance, beams, words, brackets, tables = random.Random(1), 4, 5, 9, tables_of(9)
    state = TreeRows.begin([words] * beams, [brackets] * beams, tables, 9)
    rows: list[list[int]] = [[] for _ in range(beams)]
    for _ in range(22):
        scores_RV = torch.zeros(beams, VOCABULARY, device=DEVICE)
        tables.forbid(scores_RV, state.which_R)
        allowed = [set(row.isfinite().nonzero().flatten().tolist()) for row in scores_RV]
        assert allowed == [may_follow(row, words, brackets) for row in rows]
        parents = [chance.randrange(beams) for _ in range(beams)]
        last = [chance.choice(sorted(allowed[parent] - {END}) or [END]) for parent in parents]
        rows = [[*rows[parent], token] for parent, token in zip(parents, last, strict=True)]
        rows = [row if END not in row else [] for row in rows]
        if not all(rows):
            break
        tree_step_reference(tables, state, *(torch.tensor(some, device=DEVICE) for some in (parents, last)))
    assert max(map(len, rows)) > words


def may_follow(row: list[int], words: int, brackets: int) -> set[int]:
    """What may follow these tokens, by the rules in words."""
    opened = [OPENING.index(token) for token in row if token in OPENING]
    stack: list[int] = []
    for token in row:
        if token in OPENING:
            stack.append(OPENING.index(token))
        elif token in CLOSING:
            assert stack.pop() == CLOSING.index(token)
    left = words - sum(token in WORDS for token in row)
    allowed = set()
    if left and len(opened) < brackets:
        allowed |= set(OPENING)
    if left and stack:
        allowed |= set(WORDS)
    if stack and row[-1] not in OPENING and (len(stack) > 1 or not left):
        allowed.add(CLOSING[stack[-1]])
    if not left and not stack:
        allowed.add(END)
    return allowed
