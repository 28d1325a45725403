"""The wrong pairs of benchmarks/texts/coattention.py: neither side alone tells them from the right ones."""

from collections import Counter

import pytest
from benchmarks.texts.caption_pairs import DRAWS, Caption, draw_random, draw_similar

SCENES = [("dog", "Hund"), ("cat", "Katze"), ("boy", "Junge"), ("girl", "M\u00e4dchen")]
PLACES = [("beach", "Strand"), ("street", "Stra\u00dfe"), ("park", "Park"), ("stage", "B\u00fchne"), ("lake", "See")]
CAPTIONS: list[Caption] = [
    (f"A {color[0]} {who[0]} at the {place[0]}", f"Am {place[1]} {color[1]} {who[1]}")
    for who in SCENES
    for place in PLACES
    for color in (("red", "rot"), ("blue", "blau"))
]


@pytest.mark.parametrize("kind", DRAWS)
def test_every_caption_is_once_right_and_once_wrong_in_each_language(kind: str) -> None:
    drawn = DRAWS[kind](CAPTIONS, 1)
    rows = drawn.rows(CAPTIONS)
    assert sorted(number for swap in drawn.swaps for number in swap) == list(range(len(CAPTIONS)))
    assert len(rows) == 2 * len(CAPTIONS)
    for side in (0, 1):
        for label in ("yes", "no"):
            said = Counter(row[1 + side] for row in rows if row[0] == label)
            assert said == Counter(caption[side] for caption in CAPTIONS)
    assert all(((english, german) in CAPTIONS) == (label == "yes") for label, english, german in rows)
    assert DRAWS[kind](CAPTIONS, 1) == drawn
    assert DRAWS[kind](CAPTIONS, 2).swaps != drawn.swaps


def test_similar_captions_share_all_but_one_word() -> None:
    drawn = draw_similar(CAPTIONS, 1)
    shared = [len({*CAPTIONS[i][1].split()} & {*CAPTIONS[j][1].split()}) for i, j in drawn.swaps]
    assert min(shared[: len(shared) // 2]) == 3  # of "Am Strand rot Hund"; the last ones take what is left
    assert drawn.similarity > 2 * draw_random(CAPTIONS, 1).similarity


def test_captions_of_the_same_words_do_not_swap() -> None:
    twins = [
        ("a dog runs", "Hund l\u00e4uft"),
        ("a dog is running", "l\u00e4uft Hund"),
        ("a cat", "Katze"),
        ("one cat", "eine Katze"),
    ]
    for seed in range(5):
        assert {frozenset(swap) for swap in draw_similar(twins, seed).swaps} & {frozenset((0, 1))} == set()


def test_a_caption_without_a_partner_is_left_out() -> None:
    assert len(draw_similar(CAPTIONS[:5], 1).swaps) == len(draw_random(CAPTIONS[:5], 1).swaps) == 2
