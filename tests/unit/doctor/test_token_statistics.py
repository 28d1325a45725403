"""Statistics of tokens, against counting by hand, and what is found in them."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import ByteBpe, Words
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.doctor.token_statistics import TokenStatistics, count_tokens, find_token_problems


def words_recipe(size: int = 100, **data: Any) -> Recipe:
    corpus = AlignedFiles(source="a", target="b")
    return Recipe(data=Data.model_validate({"train": [corpus], **data}), tokenizer=Words(kind="word", size=size))


def pieces_of(recipe: Recipe, tokenizer: Tokenizer, pairs: list[tuple[str, str]], valid: list[str]) -> TokenStatistics:
    train = TokenStore.of(
        source=tokenizer.encode_batch([source for source, _ in pairs]),
        target=tokenizer.encode_batch([target for _, target in pairs]),
    )
    seen = tokenizer.encode_batch(valid)
    prepared = Prepared(
        Vocabularies({"source": tokenizer, "target": tokenizer}),
        (train,),
        (1.0,),
        (TokenStore.of(source=seen, target=seen),),
    )
    return count_tokens(recipe, prepared, ["corpus"], pairs)


def test_pieces_are_counted_as_by_hand() -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["a b c d e"])
    pairs = [("a b", "a"), ("a x", "b b b")] + [("c", "c")] * 5 + [("d", "d d")] * 3
    pieces = pieces_of(words_recipe(), tokenizer, pairs, ["a x x"])
    source, target = pieces.sides
    assert (source.pieces, source.longest, target.longest) == (12, 2, 3)
    assert source.unknown == pytest.approx(1 / 12)
    assert target.unknown == 0
    assert source.unknown_valid == pytest.approx(2 / 3)
    assert source.pieces_per_word == 1
    assert source.byte_pieces is None
    (vocabulary,) = pieces.vocabularies
    assert (vocabulary.size, vocabulary.asked, vocabulary.markers) == (9, 100, 4)
    assert (vocabulary.never, vocabulary.rare) == (1, 3)  # e; a, b and d, which is there 9 times, but not c


def test_lone_bytes_are_those_that_spell_characters_the_vocabulary_does_not_hold() -> None:
    tokenizer = train_tokenizer(ByteBpe(size=300), ["plain text only"] * 20)
    recipe = words_recipe().model_copy(update={"tokenizer": ByteBpe(size=300)})
    pieces = pieces_of(recipe, tokenizer, [("é", "plain"), ("a", "plain")], ["x"])
    assert pieces.sides[0].byte_pieces == pytest.approx(2 / 3)  # two bytes of é, and one a
    assert pieces.sides[1].byte_pieces == 0


def test_two_bytes_of_a_character_are_no_lone_byte() -> None:
    """These characters share their first two bytes, which become one piece."""
    tokenizer = train_tokenizer(ByteBpe(size=261), ["一丁丂七丄丅丆万丈三"])
    recipe = words_recipe().model_copy(update={"tokenizer": ByteBpe(size=261)})
    assert len(tokenizer.encode("丏")) == 2
    assert pieces_of(recipe, tokenizer, [("丏", "a")], ["x"]).sides[0].byte_pieces == 0.5


@pytest.mark.parametrize("scale", [1, 5, 80])
def test_a_histogram_counts_every_sentence_in_its_bin(scale: int) -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["a"])
    lengths = [1 + n * n * scale // 40 for n in range(30)]
    pieces = pieces_of(words_recipe(), tokenizer, [("a " * length, "a") for length in lengths], ["a"])
    edges, counts = [*pieces.lengths.edges, 10**9], pieces.lengths.sides["source"]
    assert counts == tuple(sum(low <= length < high for length in lengths) for low, high in pairwise(edges))
    assert sum(pieces.lengths.sides["target"]) == 30
    assert len(counts) <= 14


def kinds(pieces: TokenStatistics) -> Iterator[tuple[str, str, str]]:
    return ((finding.kind, finding.severity, finding.what) for finding in find_token_problems(pieces))


def test_findings_about_pieces_say_what_and_how_bad() -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["a b c d e"])
    pieces = pieces_of(words_recipe(), tokenizer, [("a b", "a b")] * 40 + [("c x", "c")], ["a x x"])
    assert list(kinds(pieces)) == [
        ("unknown", "warning", "1.2% of the source pieces of train are unknown"),
        ("unknown", "problem", "66.7% of the source pieces of valid are unknown"),
        ("unknown", "problem", "66.7% of the target pieces of valid are unknown"),
        ("small_vocabulary", "note", "the vocabulary has 9 pieces, not the 100 asked for"),
        ("rare_pieces", "warning", "3 of 5 learned pieces of the vocabulary are used fewer than 10 times"),
    ]


def test_a_vocabulary_may_be_smaller_than_a_default_that_nobody_asked_for() -> None:
    tokenizer = train_tokenizer(Words(kind="word"), ["a b"])
    recipe = words_recipe().model_copy(update={"tokenizer": Words(kind="word")})
    assert list(kinds(pieces_of(recipe, tokenizer, [("a b", "a b")] * 20, ["a"]))) == []


def test_the_advice_names_the_size_of_the_side() -> None:
    tokenizer, other = (train_tokenizer(Words(kind="word"), [text]) for text in ("a b", "c d"))
    config = Words.model_validate({"kind": "word", "joint": False, "target": {"kind": "word", "size": 50}})
    store = TokenStore.of(source=tokenizer.encode_batch(["a b"]), target=other.encode_batch(["c d"]))
    prepared = Prepared(Vocabularies({"source": tokenizer, "target": other}), (store,), (1.0,), ())
    recipe = words_recipe().model_copy(update={"tokenizer": config})
    found = list(find_token_problems(count_tokens(recipe, prepared, ["corpus"], [("a b", "c d")])))
    assert [(one.kind, one.advice) for one in found] == [
        ("rare_pieces", "Lower `tokenizer.size`: rare pieces are hardly learned."),
        (
            "small_vocabulary",
            "The text does not yield more pieces: do nothing, or lower `tokenizer.target.size`.",
        ),
        ("rare_pieces", "Lower `tokenizer.target.size`: rare pieces are hardly learned."),
    ]


@pytest.mark.parametrize(("size", "found"), [(260, []), (262, ["rare_pieces"])])
def test_the_single_bytes_that_a_vocabulary_always_has_are_not_rare_pieces(size: int, found: list[str]) -> None:
    config = ByteBpe(size=size)
    tokenizer = train_tokenizer(config, ["plain text only"] * 20)
    assert [len(tokenizer.encode_batch([chr(byte)])[0]) for byte in range(128)] == [1] * 128
    recipe = words_recipe().model_copy(update={"tokenizer": config})
    pieces = pieces_of(recipe, tokenizer, [("abc", "abc")] * 3, ["a"])
    (vocabulary,) = pieces.vocabularies
    assert (vocabulary.learned, vocabulary.hardly) == (size - 260, size - 260)
    assert vocabulary.never == size - 4 - 3
    assert [kind for kind, _, _ in kinds(pieces)] == found


def test_a_vocabulary_that_is_kept_gets_no_advice_to_change_it() -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["a b c d e"])
    recipe = words_recipe()
    recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"start_from": "runs/first"})})
    findings = list(find_token_problems(pieces_of(recipe, tokenizer, [("a b", "a b")] * 40 + [("c x", "c")], ["a"])))
    assert [(finding.kind, finding.advice) for finding in findings] == [
        (
            "unknown",
            "The vocabulary comes from `train.start_from`: start from a model for this kind of text, or from scratch.",
        )
    ]


@pytest.mark.parametrize(("dropped", "severity"), [(5, None), (6, "warning"), (200, "problem")])
def test_many_dropped_pairs_are_a_finding(dropped: int, severity: str | None) -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=5), ["a"])
    ids = [[4]] * 100
    train = TokenStore(TokenStore.of(source=ids, target=ids).streams, "", {"too long": dropped - 1, "ratio": 1})
    recipe = words_recipe(size=5)
    pieces = count_tokens(
        recipe,
        Prepared(Vocabularies({"source": tokenizer, "target": tokenizer}), (train,), (1.0,), ()),
        ["corpus"],
        [("a", "a")],
    )
    total = 100 + dropped
    what = (
        f"dropped: {dropped} of {total} ({dropped / total:.1%}), "
        f"{dropped - 1} for `data.max_length`, 1 for `data.max_ratio`"
    )
    assert list(kinds(pieces)) == ([("dropped", severity, what)] if severity else [])
