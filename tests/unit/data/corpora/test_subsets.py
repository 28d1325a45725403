import random
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import Tsv
from heedful.data.corpora.files import choose

TEXTS = [f"text {number}" for number in range(500)]


def take(texts: list[str], **choice: object) -> list[str]:
    return list(choose(texts, Tsv.model_validate({"tsv": "t.tsv", "text": 1, **choice}), str))


def number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest(), 16)


@pytest.mark.parametrize(("part", "members"), [("0/10", {0}), ("1-9/10", set(range(1, 10))), ("2-2/3", {2})])
def test_a_part_is_of_the_texts_whose_hash_has_that_remainder(part: str, members: set[int]) -> None:
    parts = int(part.split("/")[1])
    assert take(TEXTS, part=part) == [text for text in TEXTS if number(text) % parts in members]


def test_parts_share_no_text_and_leave_none_out() -> None:
    first, others = take(TEXTS, part="0/4"), take(TEXTS, part="1-3/4")
    assert sorted(first + others) == sorted(TEXTS)


@given(st.lists(st.text(max_size=3), min_size=5, max_size=40), st.integers(1, 5))
def test_a_sample_is_of_the_smallest_hashes_in_the_order_of_the_file(texts: list[str], size: int) -> None:
    found = take(texts, sample=size)
    assert sorted(map(number, found)) == sorted(map(number, texts))[:size]
    rest = iter(texts)
    assert all(text in rest for text in found)  # a subsequence


def test_neither_order_nor_other_texts_of_other_parts_change_a_choice() -> None:
    found = take(TEXTS, part="1-2/5", sample=20)
    mixed = random.Random(1).sample(TEXTS, len(TEXTS)) + [t for t in map(str, range(300)) if number(t) % 5 == 0]
    assert sorted(take(mixed, part="1-2/5", sample=20)) == sorted(found)


def test_all_texts_are_taken_where_nothing_is_asked() -> None:
    assert take(TEXTS) == TEXTS


def test_half_a_character_can_be_hashed() -> None:
    assert take(["\ud83d"], part="0/1") == ["\ud83d"]


def test_a_sample_larger_than_its_corpus_is_refused() -> None:
    with refuses("t.tsv has 500 texts, but `sample` is 1,000: lower it."):
        take(TEXTS, sample=1000)
    count = len(take(TEXTS, part="0/10"))
    with refuses(f'mine has {count} texts in part "0/10", but `sample` is 400: lower it.'):
        take(TEXTS, part="0/10", sample=400, name="mine")
