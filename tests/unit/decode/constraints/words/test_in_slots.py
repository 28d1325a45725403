"""Forbidden words in slots allow what they allow in a batch, whichever rows are extended."""

import pytest
import torch
from tests.unit.decode.constraints.words.vocabularies import SMALLEST, smallest

from heedful.decode.constraints.protocol import SlotRows
from heedful.decode.constraints.words.in_slots import ForbiddenWords
from heedful.decode.query import Query

CPU = torch.device("cpu")
SLOTS, BEAMS, LIMIT = 2, 3, 9


@pytest.mark.parametrize("kind", SMALLEST)
def test_forbidden_words_in_slots_allow_what_they_allow_in_a_batch(kind: str) -> None:
    automaton = smallest(kind).plan((), ("ab", "b a", "."))
    assert ForbiddenWords.fits(automaton)
    queries, size = [Query([5], LIMIT - slot) for slot in range(SLOTS)], automaton.spelling.size + 2
    factory = ForbiddenWords(automaton)
    batch, slots = factory(queries, CPU), factory.in_slots(SlotRows(SLOTS, BEAMS, 16, size, CPU))
    slots.follow(None, torch.full((SLOTS * BEAMS,), 4))  # an idle step, which is forgotten
    slots.admit(torch.arange(SLOTS), queries, None)
    first_S1 = torch.arange(0, SLOTS * BEAMS, BEAMS).unsqueeze(1)
    seen = set()
    for _ in range(LIMIT - SLOTS):
        in_batch_RV, in_slots_RV = torch.zeros(2, SLOTS * BEAMS, size)
        batch.forbid(in_batch_RV, torch.zeros(SLOTS * BEAMS, 1, dtype=torch.int64))
        slots.forbid(in_slots_RV)
        assert torch.equal(in_batch_RV, in_slots_RV)
        seen |= {tuple(row) for row in in_slots_RV.isfinite().tolist()}
        parents_SK, last_SK = torch.randint(BEAMS, (SLOTS, BEAMS)), torch.randint(4, size - 2, (SLOTS, BEAMS))
        batch = batch.follow(parents_SK, last_SK)
        slots.follow((first_S1 + parents_SK).flatten(), last_SK.flatten())
    assert len(seen) > 1
