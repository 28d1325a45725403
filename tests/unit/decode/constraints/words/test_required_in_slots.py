"""Required words in slots allow what they allow in a batch, and know as much of each row, step by step."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.unit.decode.constraints.words.vocabularies import USUAL, usual
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.protocol import SlotFactory, SlotRows
from heedful.decode.constraints.words.constraint import Words
from heedful.decode.constraints.words.in_slots import RequiredInSlots, RequiredWords, Sizes, words
from heedful.decode.frontiers.banks import share_in_slots
from heedful.decode.query import Query

CPU = torch.device("cpu")
SLOTS, BEAMS, LIMIT, STEPS = 3, 3, 40, 12
RULES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("cat", "hot dog"), ("the",)),
    (("mat .",), ()),
    ((), ("cat", "dog")),
    ((), ()),
    (("Höchste", "a"), ("das",)),
]


def factory_of(kind: str) -> RequiredWords:
    return RequiredWords.of({number: usual(kind).plan(*rule) for number, rule in enumerate(RULES)})


def in_slots(factory: RequiredWords) -> RequiredInSlots:
    size = factory.spelling.size + 2  # a model may have more scores than there are pieces
    return factory.in_slots(SlotRows(SLOTS, BEAMS, 64, size, CPU))


def query_of(number: int) -> Query:
    return Query([5], LIMIT - number, (), number)


@pytest.mark.parametrize("kind", USUAL)
def test_required_words_in_slots_allow_what_they_allow_in_a_batch(kind: str) -> None:
    """A sentence starts every two steps, in slots that are idle or under way; each is also a batch of its own."""
    factory = factory_of(kind)
    slots, size, batches = in_slots(factory), factory.spelling.size + 2, dict[int, Words]()
    first_S1, seen = torch.arange(0, SLOTS * BEAMS, BEAMS).unsqueeze(1), set[tuple[bool, ...]]()
    for step in range(STEPS):
        if not step % 2 and step // 2 < len(RULES):
            query = query_of(step // 2)
            slots.admit(torch.tensor([step // 2 % SLOTS]), [query], None)
            batches[step // 2 % SLOTS] = factory([query], CPU)
        given_RV = torch.randn(SLOTS * BEAMS, size)
        given_RV[:: 1 + step % 3, END] = 9  # rows that would end
        in_slots_RV, tokens_RC = given_RV.clone(), torch.randint(2, size, (SLOTS * BEAMS, 7))
        slots.forbid(in_slots_RV)
        advancing_RF, left_RC = slots.advancing(), slots.left(tokens_RC)
        for slot, batch in batches.items():
            rows = slice(slot * BEAMS, (slot + 1) * BEAMS)
            expected_KV = given_RV[rows].clone()
            batch.forbid(expected_KV, torch.zeros(BEAMS, 1, dtype=torch.int64))
            expected_KV[:, 0] = in_slots_RV[rows, 0]  # `<pad>` is never output
            assert torch.equal(in_slots_RV[rows], expected_KV)
            assert torch.equal(left_RC[rows], batch.left(tokens_RC[rows]))
            assert bool(slots.requires_B[slot]) is batch.requires
            for ours, others in zip(advancing_RF[rows].tolist(), batch.advancing().tolist(), strict=True):
                assert set(ours) - {0} == set(others) - {0}
            seen |= {tuple(row) for row in expected_KV.isfinite().tolist()}
        parents_SK, last_SK = torch.randint(BEAMS, (SLOTS, BEAMS)), torch.randint(4, size - 2, (SLOTS, BEAMS))
        use_advancing_SK = torch.rand(SLOTS, BEAMS) < 0.7
        best_R = advancing_RF.amax(1)[(first_S1 + parents_SK).flatten()].view(SLOTS, BEAMS)
        last_SK = torch.where(use_advancing_SK & (best_R > 0), best_R, last_SK)
        slots.follow((first_S1 + parents_SK).flatten(), last_SK.flatten())
        batches = {slot: batch.follow(parents_SK[[slot]], last_SK[[slot]]) for slot, batch in batches.items()}
    assert len(seen) > 5


class NoQuestions(TorchDispatchMode):
    """Refuses what a GPU cannot record: shapes that depend on values, and values that the host reads or sends."""

    asking = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "lift_fresh", "repeat_interleave")

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = str(func)
        assert not any(asking in name for asking in self.asking), name
        if name == "aten.index.Tensor":
            assert all(index is None or index.dtype != torch.bool for index in args[1]), "an index of flags"
        return func(*args, **(kwargs or {}))


def test_a_step_with_required_words_can_be_recorded() -> None:
    slots = in_slots(factory_of("bpe"))
    slots.admit(torch.arange(SLOTS), [query_of(number) for number in range(SLOTS)], None)
    scores_RV = torch.randn(SLOTS * BEAMS, usual("bpe").spelling.size + 2)
    log_p_SK, rows_R, sums_R = torch.zeros(SLOTS, BEAMS), torch.arange(SLOTS * BEAMS), scores_RV.logsumexp(1)

    def step() -> tuple[Tensor, Tensor]:
        slots.forbid(scores_RV)
        found = share_in_slots(scores_RV, log_p_SK, *scores_RV.topk(2 * BEAMS), sums_R, slots)
        slots.follow(rows_R, found[1][:, 0].contiguous())
        return found

    with torch.inference_mode(), NoQuestions():  # type: ignore[no-untyped-call]
        step()
        assert step()[0].shape == (SLOTS * BEAMS, 3 * BEAMS)


def test_factories_with_as_much_room_are_equal_and_too_large_automata_are_not_for_slots() -> None:
    planner = usual("bpe")
    one, other, forbidden = (planner.plan(*rule) for rule in ((("cat",), ()), (("hot dog",), ("the",)), ((), ("cat",))))
    assert words({0: one}) == words({3: other, 4: forbidden})
    assert hash(words({0: one})) == hash(words({3: other}))
    assert words({0: one}) != words({0: usual("char").plan(("cat",), ())})
    many = usual("char").plan([f"{a}{b}" for a in "acdghlmnost" for b in "acdghlmnost"], ())
    assert not RequiredWords.of({0: many}).fits
    assert not isinstance(words({0: many}), SlotFactory)
    assert isinstance(words({0: many})([replace(query_of(0), limit=2000)], CPU), Words)
    assert Sizes.of([one]).numbers < Sizes.of([many]).numbers
