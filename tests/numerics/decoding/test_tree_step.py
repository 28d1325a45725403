"""A step of trees over words: the kernel against the plain reference, and the reference against lists."""

import random

import pytest
import torch

from heedful.nn.decoding.tree_step import TreeRows, TreeTables, tree_step
from heedful.nn.kernels import without_kernels

pytest.importorskip("triton", reason="Triton is not installed here")
from heedful.nn.kernels.tree_step import tree_step_kernel

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # there in Triton's interpreter
OPENING, CLOSING, WORDS, END, VOCABULARY = (4, 5, 6), (7, 8, 9), (10, 11), 2, 13
tree_step_reference = without_kernels()(tree_step)  # in plain PyTorch
SLOTS, DEEPEST = 2, 66  # more than one block of the kernel


def tables_of(deepest: int = DEEPEST) -> TreeTables:
    return TreeTables.of(OPENING, CLOSING, WORDS, END, VOCABULARY, deepest, DEVICE)


@pytest.mark.parametrize(("beams", "depth"), [(3, 0), (2, 62)])
def test_the_kernel_does_what_the_reference_does_step_after_step(beams: int, depth: int) -> None:
    """Any tokens, as those of impossible rows: first mostly opening brackets, and then mostly closing ones."""
    generator, tables = torch.Generator().manual_seed(beams), tables_of()
    rows = SLOTS * beams
    state, plain = (TreeRows.begin([3] * rows, [6] * rows, tables) for _ in range(2))
    labels_RD = torch.randint(len(OPENING), (rows, DEEPEST + 2), generator=generator)
    for some in (state, plain):
        some.counts_R4[:, 2] = depth
        some.open_RD.copy_(labels_RD)
    first_R = torch.arange(rows) // beams * beams
    for step in range(16):
        weights = torch.tensor([0.1] * 4 + [6.0 if step < 9 else 0.2] * 3 + [2.0] * 3 + [1.0] * 3)
        last_R = torch.multinomial(weights, rows, replacement=True, generator=generator).to(DEVICE)
        rows_R = (first_R + torch.randint(beams, (rows,), generator=generator)).to(DEVICE)
        tree_step_reference(tables, plain, rows_R, last_R, beams)
        tree_step_kernel(
            rows_R, last_R, tables.changes_V5, state.counts_R4, state.open_RD, state.which_R, len(OPENING), beams
        )
        assert torch.equal(state.counts_R4, plain.counts_R4), step
        assert torch.equal(state.which_R, plain.which_R), step
        used = torch.arange(DEEPEST + 2, device=DEVICE) <= plain.counts_R4[:, 2:3]
        assert torch.equal(state.open_RD[used], plain.open_RD[used]), step


def test_rows_that_extend_others_allow_what_lists_of_their_tokens_allow() -> None:
    """Until one of the trees is complete."""
    chance, beams, words, brackets, tables = random.Random(3), 4, 5, 6, tables_of(6)
    state = TreeRows.begin([words] * beams, [brackets] * beams, tables)
    rows: list[list[int]] = [[] for _ in range(beams)]
    while True:
        scores_RV = torch.zeros(beams, VOCABULARY, device=DEVICE)
        tables.forbid(scores_RV, state.which_R)
        allowed = [set(row.isfinite().nonzero().flatten().tolist()) for row in scores_RV]
        assert allowed == [may_follow(row, words, brackets) for row in rows]
        if {END} in allowed:
            break
        parents = [chance.randrange(beams) for _ in range(beams)]
        last = [chance.choice(sorted(allowed[parent])) for parent in parents]
        rows = [[*rows[parent], token] for parent, token in zip(parents, last, strict=True)]
        parents_R, last_R = (torch.tensor(some, device=DEVICE) for some in (parents, last))
        tree_step_reference(tables, state, parents_R, last_R, beams)


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
