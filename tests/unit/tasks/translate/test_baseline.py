"""The line that translators have to beat: a word-by-word dictionary, against EM written as loops."""

import math
import random
from collections import defaultdict

import numpy as np
import pytest

from heedful.config.tokenizer import Words
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.tasks.translate import baseline
from heedful.tasks.translate.baseline import Dictionary, Pair, Units, sample_pairs
from heedful.tasks.translate.links import Links

CHANCE = random.Random(4)
NUMBERS = [
    (
        [CHANCE.randrange(4) for _ in range(CHANCE.randint(1, 5))],
        [CHANCE.randrange(3) for _ in range(CHANCE.randint(1, 4))],
    )
    for _ in range(8)
]


def naive(pairs: list[tuple[list[int], list[int]]], iterations: int) -> dict[tuple[int, int], float]:
    t: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in pairs:
            for j, wanted in enumerate(target):
                p = [
                    t[unit, wanted] * math.exp(-4 * abs(i / len(source) - j / len(target)))
                    for i, unit in enumerate(source)
                ]
                for unit, one in zip(source, p, strict=True):
                    counts[unit, wanted] += one / sum(p)
                    totals[unit] += one / sum(p)
        t = defaultdict(float, {pair: count / totals[pair[0]] for pair, count in counts.items()})
    return t


def test_translations_are_learned_by_the_equations() -> None:
    links = Links.of([np.array(source) for source, _ in NUMBERS], [np.array(target) for _, target in NUMBERS], 3)
    expected = naive(NUMBERS, 5)
    assert {(key // 3, key % 3): p for key, p in zip(links.keys.tolist(), links.learn().tolist(), strict=True)} == {
        pair: pytest.approx(p) for pair, p in expected.items()
    }


WORDS = {"the": "das", "red": "rote", "dog": "Tier", "house": "Haus", "sees": "sieht", "old": "alte"}


def pairs(count: int, language: str = "") -> list[Pair]:
    chance = random.Random(count)
    drawn = [chance.sample(list(WORDS), chance.randint(2, 5)) for _ in range(count)]
    return [Pair(" ".join(row), " ".join(WORDS[word] for word in row), language) for row in drawn]


def test_words_become_their_usual_translations_and_unknown_words_stay() -> None:
    dictionary = Dictionary(pairs(60))
    assert dictionary.translate("the old  dog sees Ada 's house") == "das alte Tier sieht Ada 's Haus"
    assert dictionary.translate("") == ""


def test_languages_have_their_own_translations() -> None:
    spoken = [Pair(pair.source, pair.source.upper(), "loud") for pair in pairs(60)]
    dictionary = Dictionary([*pairs(60, "de"), *spoken])
    assert dictionary.translate("red dog", "de") == "rote Tier"
    assert dictionary.translate("red dog", "loud") == "RED DOG"
    assert dictionary.translate("red dog", "fr") == "red dog"


def test_letters_become_as_many_units_as_they_usually_have() -> None:
    sounds = {"a": "AH", "x": "K S", "e": "", "t": "T"}
    chance = random.Random(1)
    words = ["".join(chance.choices("axet", weights=(4, 2, 1, 4), k=chance.randint(2, 6))) for _ in range(300)]
    spelled = [Pair(word, " ".join(filter(None, (sounds[letter] for letter in word)))) for word in words]
    dictionary = Dictionary(spelled)
    assert dictionary.translate("tat") == "T AH T"
    assert sorted(dictionary.translate("x").split()) == ["K", "S"]
    assert dictionary.translate("t?") == "T ?"


@pytest.mark.parametrize(
    ("texts", "letters"), [(["a b", "c", "d e"], False), (["a", "b", "c d"], True), (["a b", "c"], False), ([], False)]
)
def test_texts_without_spaces_are_read_letter_by_letter(texts: list[str], letters: bool) -> None:
    units = Units.of(texts)
    assert units.letters == letters
    assert units.split(" ab cd ") == (["a", "b", " ", "c", "d"] if letters else ["ab", "cd"])
    assert units.join(units.split("ab cd")) == "ab cd"


def test_pairs_without_words_teach_nothing() -> None:
    assert Dictionary([]).translate("a b") == "a b"
    assert Dictionary([Pair("", "b"), Pair("a", "")]).translate("a") == "a"


def test_pairs_are_read_from_stores_and_some_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pairs(12)
    source, target = (train_tokenizer(Words(kind="word"), [row[side] for row in rows]) for side in (0, 1))
    store = TokenStore.of(
        source=source.encode_batch([row.source for row in rows]),
        target=target.encode_batch([row.target for row in rows]),
    )
    found = sample_pairs([store], Vocabularies({"source": source, "target": target}))
    assert found == (rows, "the 12 training pairs")
    links = sum(len(row.source.split()) * len(row.target.split()) for row in rows)
    monkeypatch.setattr(baseline, "_MOST_LINKS", links // 3)
    some, sample = sample_pairs([store], Vocabularies({"source": source, "target": target}))
    assert sample == f"{len(some)} of 12 training pairs"
    assert 3 <= len(some) <= 4
    assert set(some) <= set(rows)
