"""Whole words of texts and pieces."""

import pytest

from heedful.decode.constraints.words.spelling import begins_letter, occurrences, occurs, shape_of


@pytest.mark.parametrize("text", ["cat", "the cat", "(cat)", "cat's", "cat-like", "„cat“", "a cat, a dog"])
def test_words_occur_between_other_characters_than_letters(text: str) -> None:
    assert occurs(text, "cat")


@pytest.mark.parametrize("text", ["catalog", "Cat", "bobcat", "cat_1", "cat2", "cáat", "ca t", "cat\u0301"])
def test_words_do_not_occur_inside_others(text: str) -> None:
    assert not occurs(text, "cat")


def test_signs_occur_anywhere_and_several_times() -> None:
    assert list(occurrences("a.b..", ".")) == [1, 3, 4]
    assert list(occurrences("new new new", "new new")) == [0, 4]


def test_parts_of_characters_are_letters_if_most_characters_with_them_are() -> None:
    assert begins_letter(b"\xc3")  # é, ö
    assert not begins_letter(b"\xe2\x80")  # „ …
    assert not begins_letter(b"\xf0")
    assert not begins_letter(b"\x80")


@pytest.mark.parametrize(
    ("text", "kind", "boundaries"),
    [
        (" cat", 1, (1,)),
        ("cat ", 2, (3,)),
        ("cat", 3, ()),
        (" a b.", 0, (1, 2, 3, 4)),
        ("ö", 3, ()),
        ("", 5, ()),
        ("…", 0, ()),
    ],
)
def test_the_shape_of_a_piece_says_where_words_begin(text: str, kind: int, boundaries: tuple[int, ...]) -> None:
    assert shape_of(text.encode()) == (kind, boundaries)


def test_the_end_of_a_character_has_a_shape_of_its_own() -> None:
    assert shape_of("ö".encode()[1:]) == (4, ())
    assert shape_of("ö".encode()[:1]) == (3, ())
    assert shape_of("ö.".encode()[1:]) == (2, (1,))
