"""The english-spanish generator: one translation for each sentence, and parts that do not overlap."""

import hashlib
import os
import re
import subprocess
import sys
from functools import cache
from itertools import chain, pairwise, product

import pytest
from tests.shared.refusals import refuses
from tests.unit.data.builtin.english_spanish_sentences import (
    ADJECTIVE,
    EXAMPLE_SENTENCES,
    VERB,
    is_so,
    one,
    part_of,
    says,
)

from heedful.data.builtin.choices import PARTS
from heedful.data.builtin.english_spanish import (
    EXAMPLES,
    MAX_WORDS,
    combinations,
    is_held_out,
    sentence_pairs,
)
from heedful.data.builtin.english_spanish_draw import Draw, nouns_of
from heedful.data.builtin.english_spanish_grammar import (
    AND,
    ME,
    MY,
    THE,
    TO,
    A,
    NounPhrase,
    Sentence,
    english,
    spanish,
)  # fmt: skip
from heedful.data.builtin.english_spanish_lexicon import (
    ADJECTIVES,
    NOUNS,
    VERBS,
    Verb,
)


@pytest.mark.wide
def test_one_english_sentence_has_one_translation() -> None:
    draw = Draw("one translation")
    translations = dict(chain.from_iterable(pairs(part) for part in PARTS))
    for _ in range(40_000):
        sentence = draw.sentence()
        translation = spanish(sentence)
        assert translations.setdefault(english(sentence), translation) == translation
    assert len(translations) > 80_000


def test_no_statement_could_be_present_or_past() -> None:
    """ "They read" could be either, so a past of "read" is only asked or denied: did they read?"""
    draw = Draw("present or past")
    for _ in range(8_000):
        clause = draw.sentence().first
        if clause.mood.tense == "past" and not clause.mood.ask and not clause.mood.negated:
            assert clause.verb.forms["past"].plain[0] != clause.verb.forms["present"].plain[0]


def test_no_english_word_stands_for_two_things() -> None:
    nouns = [form for noun in NOUNS for form in dict.fromkeys(noun.english)]
    verbs = [form for verb in VERBS for form in _verb_words(verb)]
    words = nouns + verbs + [adjective.lemma for adjective in ADJECTIVES]
    assert sorted(words) == sorted(set(words))


def _verb_words(verb: Verb) -> set[str]:
    """A verb's own words, without those of its auxiliaries."""
    present, past = verb.forms["present"], verb.forms["past"]
    return {present.plain[0], present.plain[2], past.plain[0]}


def test_there_are_a_million_distinct_sentences() -> None:
    transitive = [verb for verb in VERBS if verb.objects and verb.lemma != "give" and "no_a" not in verb.notes]
    assert sum(map(_plain_sentence_count, transitive)) > 10**6
    verb = VERB["drink"]  # the count is right for one verb, written out in full
    written = {
        english(says(subject, "drink", "present", drink))
        for subject, drink in product(_plain_phrases(verb.subjects), _plain_phrases(verb.objects))
    }
    assert len(written) == _plain_sentence_count(verb)


def _plain_sentence_count(verb: Verb) -> int:
    """How many sentences are "The [adjective] noun [verb]s the [adjective] noun.": no two of them are the same."""
    return len(_plain_phrases(verb.subjects)) * len(_plain_phrases(verb.objects))


def _plain_phrases(kinds: frozenset[str]) -> list[NounPhrase]:
    return [
        NounPhrase(THE, noun, adjective=adjective)
        for noun in nouns_of(kinds - {"name"})
        for adjective in (None, *(word for word in ADJECTIVES if noun.kind in word.kinds))
    ]


@cache
def pairs(part: str) -> tuple[tuple[str, str], ...]:
    return tuple(sentence_pairs(part, {"train": 50_000, "valid": 2_000, "test": 2_000}[part]))


@pytest.mark.parametrize("part", ["train", "valid"])
def test_training_and_validation_hold_no_held_out_combination(part: str) -> None:
    """Read off the text alone: no held-out adjective stands before its noun, no such verb follows its subject."""
    phrases = {
        f"{adjective.lemma} {form}"
        for noun, adjective in product(NOUNS, ADJECTIVES)
        if is_held_out((noun.lemma, adjective.lemma))
        for form in noun.english
    }
    clauses = {
        f"{form} {word}"
        for noun, verb in product(NOUNS, VERBS)
        if is_held_out((noun.lemma, verb.lemma))
        for form in noun.english
        for word in _verb_words(verb)
    }
    assert len(phrases) > 500
    assert len(clauses) > 500
    neighbours = {two for text, _ in pairs(part) for two in pairwise(text.rstrip(".?").split())}
    assert not {" ".join(two) for two in neighbours} & (phrases | clauses)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_what_its_draw_gives_of_that_part(part: str) -> None:
    draw = Draw(f"english-spanish {part} 0")
    drawn: dict[str, str] = {}
    while len(drawn) < 300:
        sentence = draw.sentence()
        if part_of(sentence) == part and len(english(sentence).split()) <= MAX_WORDS:
            drawn[english(sentence)] = spanish(sentence)
    assert list(dict(pairs(part)[:400]).items())[:300] == list(drawn.items())


def test_every_test_sentence_holds_a_held_out_combination_of_either_kind() -> None:
    draw = Draw("both kinds")
    kinds = set()
    for _ in range(3000):
        sentence = draw.sentence()
        held_out = [pair for pair in combinations(sentence) if is_held_out(pair)]
        assert (part_of(sentence) == "test") == bool(held_out)
        kinds |= {"noun-adjective" if second in ADJECTIVE else "subject-verb" for _, second in held_out}
    assert kinds == {"noun-adjective", "subject-verb"}


def test_a_sentence_names_all_its_combinations() -> None:
    assert combinations(says(one(THE, "owl"), "fly", "want")) == [("owl", "fly"), ("owl", "want")]
    sentence = Sentence(
        says(one(THE, "king", "old"), "give", "past", one(A, "ring", "new"), to=one(MY, "aunt", "kind")).first,
        AND,
        is_so(one(THE, "dog", "black"), "tired").first,
    )
    assert sorted(combinations(sentence)) == [
        ("aunt", "kind"), ("dog", "black"), ("dog", "tired"), ("king", "give"), ("king", "old"), ("ring", "new"),
    ]  # fmt: skip
    placed = says(ME, "run", place=(TO, one(THE, "river", "old")))
    assert combinations(placed) == [("river", "old")]


def test_about_one_combination_in_twenty_is_held_out() -> None:
    possible = [(noun.lemma, word.lemma) for noun, word in product(NOUNS, ADJECTIVES) if noun.kind in word.kinds] + [
        (noun.lemma, verb.lemma) for noun, verb in product(NOUNS, VERBS) if noun.kind in verb.subjects
    ]
    assert 0.04 < sum(map(is_held_out, possible)) / len(possible) < 0.06


def test_every_word_of_the_test_part_occurs_in_training() -> None:
    for side in (0, 1):
        trained = {word for pair in pairs("train") for word in _words(pair[side])}
        assert {word for pair in pairs("test") for word in _words(pair[side])} <= trained


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def test_the_parts_are_disjoint() -> None:
    train, valid, test = ({text for text, _ in pairs(part)} for part in PARTS)
    assert not train & valid
    assert not train & test
    assert not valid & test


@pytest.mark.parametrize("part", ["valid", "test"])
def test_no_sentence_comes_twice_where_models_are_judged(part: str) -> None:
    assert len({text for text, _ in pairs(part)}) == len(pairs(part))


@pytest.mark.parametrize("part", PARTS)
def test_sentences_are_of_a_readable_length(part: str) -> None:
    lengths = [len(text.split()) for text, _ in pairs(part)]
    assert max(lengths) <= MAX_WORDS
    assert 7 <= sum(lengths) / len(lengths) <= 10


@pytest.mark.parametrize("part", PARTS)
def test_a_longer_draw_begins_with_the_shorter_one(part: str) -> None:
    assert tuple(sentence_pairs(part, 50)) == pairs(part)[:50]


def test_another_seed_draws_other_sentences() -> None:
    assert list(sentence_pairs("train", 50, seed=1)) != list(pairs("train")[:50])


def test_every_process_draws_the_same_sentences() -> None:
    program = (
        "from heedful.data.builtin.choices import PARTS\n"
        "from heedful.data.builtin.english_spanish import sentence_pairs\n"
        "print([pair for part in PARTS for pair in sentence_pairs(part, 200, seed=3)])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout.decode()
        for hash_seed in ("1", "2")
    ]
    here = str([pair for part in PARTS for pair in sentence_pairs(part, 200, seed=3)])
    assert [output.strip() for output in outputs] == [here, here]


def test_the_examples_are_held_out() -> None:
    assert tuple(map(english, EXAMPLE_SENTENCES)) == EXAMPLES
    assert [part_of(sentence) for sentence in EXAMPLE_SENTENCES] == ["test"] * 5


def test_an_unknown_part_is_named_with_the_known_ones() -> None:
    message = "english-spanish has no part `dev`. Its parts are train, valid and test."
    with refuses(message):
        sentence_pairs("dev", 1)


# --- the version ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "digest"),
    [
        ("train", "75d8759199bf659310d5d3e5ac8f8ab8687d317da97ce7d181787de6259f16da"),
        ("valid", "015cb2887f220babf1fac7b572603633fc8b3b957d81b44db4e8c57b6cec3658"),
        ("test", "6b222bd2cf333ce825b9f2d1733ac413c8082c66c21bbc579e2652f4481f0d61"),
    ],
)
def test_what_it_makes_belongs_to_its_version_in_cache_keys(part: str, digest: str) -> None:
    """Red here means: give the generator a new version in GENERATORS, and pin what it makes now."""
    made = "\n".join("\t".join(pair) for pair in sentence_pairs(part, 2000))
    assert hashlib.sha256(made.encode()).hexdigest() == digest
