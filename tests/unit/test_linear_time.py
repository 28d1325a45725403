"""The time of every routine that reads texts is linear in their length, whatever the text is."""

import random
import unicodedata
from collections.abc import Callable

import pytest
from sacremoses import MosesTokenizer
from tests.shared.text_routines import ROUTINES, TEXTS, make_text, seconds

from heedful.base.trees import DEEPEST, from_sequence, linearize, read_tree
from heedful.data.corpora.formats.json_objects import objects_of_array
from heedful.data.text_form import compose, is_composed, split_words
from heedful.decode.constraints.words import spelling
from heedful.decode.constraints.words.spelling import occurrences
from heedful.first_recipe.roles import _NUMBERED
from heedful.metrics import edits
from heedful.metrics.edits import _edit_distance, edit_distance

MOST = 30  # times as long for a text that is ten times as long: a square would be 100
LEAST = 0.1  # seconds that are too few to be compared


@pytest.mark.recipes  # takes long, and reads the clock: not in CI
@pytest.mark.parametrize("name", ROUTINES)
def test_ten_times_the_text_takes_no_hundred_times_as_long(name: str) -> None:
    routine = ROUTINES[name]
    seconds(routine, "a")  # tables that are made once
    for text in TEXTS:
        last = 0.0
        for size in (1_000, 10_000, 100_000, 1_000_000):
            taken = seconds(routine, make_text(text, size))
            assert taken < MOST * max(last, LEAST), (text, size, last, taken)
            last = taken


HARD: dict[str, Callable[[], object]] = {  # each took more than a minute, or hours
    "stops": lambda: split_words("a.b. " * 20_000, "en"),
    "ideographs": lambda: split_words('. " ' * 20_000, "zh"),
    "marks": lambda: compose("a" + "\u0300\u0316" * 200_000),
    "an array": lambda: [*objects_of_array(" [" + "{}," * 50_000)],
    "required words": lambda: [*occurrences("a" * 200_000, "a" * 100_000)],
    "the name of a column": lambda: _NUMBERED.sub("", " " * 200_000 + "x"),
    "edits": lambda: edit_distance([*range(200_000)], [*range(200_000, 0, -1)]),
}


@pytest.mark.parametrize("name", HARD)
def test_what_once_took_minutes_takes_seconds(name: str) -> None:
    assert seconds(lambda _: HARD[name](), "") < 20


# --- and the results are those of before ------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "de", "fr", "zh"])
def test_words_are_split_as_the_library_splits_them(language: str) -> None:
    library = MosesTokenizer(language)
    draw = random.Random(1)
    parts = ["U.S.", "e.g.", "z.B.", "Nr.", "No.", "5,300", "don't", "l'eau", "Dr.", "中文", "「", "a.b.", "...", "x-y",
             "Σ", "e\u0301", "'", '"', ".", " ", "it", "Is", "\u0915\u094d"]  # fmt: skip
    for _ in range(200):
        text = "".join(draw.choice(parts) + draw.choice(["", " "]) for _ in range(draw.randrange(12)))
        assert split_words(text, language) == library.tokenize(text, return_str=True, escape=False), text


def test_texts_are_composed_as_unicode_says() -> None:
    draw = random.Random(2)
    marks = "\u0300\u0316\u0344\u0315\u05b0\u3099\u0f71\u0f73"
    for size in (0, 1, 29, 30, 31, 32, 100, 300):
        for start in ("", "a", "\u1ec7", "가", "\u1100\u1161"):
            text = start + "".join(draw.choice(marks) for _ in range(size)) + "b" + "".join(draw.choices(marks, k=size))
            assert compose(text) == unicodedata.normalize("NFC", text)
            assert is_composed(text) == unicodedata.is_normalized("NFC", text)
            assert is_composed(compose(text))


def test_words_are_found_wherever_they_are() -> None:
    draw = random.Random(3)
    for _ in range(300):
        text = "".join(draw.choices("ab", k=draw.randrange(30)))
        words = "".join(draw.choices("ab", k=draw.randrange(5)))
        naive = [place for place in range(len(text) + 1) if text.startswith(words, place)]
        assert [*spelling._all_places(text, words)] == naive, (text, words)


def test_edits_of_long_sequences_are_never_fewer_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "LONGEST", 40)
    monkeypatch.setattr(edits, "_PART", 10)
    draw = random.Random(4)
    for _ in range(50):
        one = draw.choices("abc", k=draw.randrange(100))
        other = [draw.choice("abc") if draw.random() < 0.1 else letter for letter in one][: draw.randrange(30, 101)]
        exact, bounded = _edit_distance(one, other), edit_distance(one, other)
        assert exact <= bounded <= len(one) + len(other)
        few = max(len(one), len(other)) <= 40
        assert bounded == exact or not few
    same = draw.choices("abc", k=200)
    assert edit_distance(same, same) == 0
    assert edit_distance(same, [*same[:100], "d", *same[100:]]) == 1  # what equal ends leave is short
    assert edit_distance(same, same[:150]) == 50


def test_a_tree_that_a_model_writes_has_as_many_levels_as_one_that_is_read() -> None:
    def sequence(levels: int) -> list[str]:
        return [*["(A"] * levels, "w", *[")A"] * levels]

    deepest = from_sequence(sequence(DEEPEST), ["w"])
    assert deepest is not None
    assert linearize(deepest) == sequence(DEEPEST)
    assert from_sequence(sequence(DEEPEST + 1), ["w"]) is None
    assert str(read_tree("(A " * (DEEPEST - 1) + "(B w" + ")" * DEEPEST, "here")).count("(") == DEEPEST
