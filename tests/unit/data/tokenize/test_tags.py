"""Tags of target languages: pieces behind the special ones, that no text is parsed into and none decoded from."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.prepare.pairs import prepare
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.tokenizer import SPECIALS, UNKNOWN, Tokenizer, tag_of
from heedful.data.tokenize.training import train_tokenizer

TEXTS = ["a dog runs", "ein Hund <2de> rennt", "<2de> <2fr> <2xx> tags", "un chien court"] * 3
KINDS: list[AnyTokenizer] = [
    ByteBpe(size=300),
    Bpe(kind="bpe", size=120),
    WordPiece(kind="wordpiece", size=120),
    Unigram(kind="unigram", size=120),
    Words(kind="word", size=100),
    Characters(kind="char", size=100),
]
LANGUAGES = ("fr", "de", "pt-BR")
TAGGED = {config.kind: train_tokenizer(config, TEXTS, LANGUAGES) for config in KINDS}
RELOADED = {kind: Tokenizer.from_json(tagged.to_json(), "tokenizer.json") for kind, tagged in TAGGED.items()}
all_kinds = pytest.mark.parametrize("config", KINDS, ids=list(TAGGED))


@all_kinds
def test_tags_stand_behind_the_special_pieces_in_the_order_of_the_alphabet(config: AnyTokenizer) -> None:
    for tokenizer in (TAGGED[config.kind], RELOADED[config.kind]):
        assert tokenizer.tags == {"de": 4, "fr": 5, "pt-BR": 6}
        assert list(tokenizer.tags) == ["de", "fr", "pt-BR"]
        assert tokenizer.markers == 7
        assert tokenizer.pieces(range(7)) == [*SPECIALS, "<2de>", "<2fr>", "<2pt-BR>"]
        assert [tokenizer.tag(language) for language in LANGUAGES] == [5, 4, 6]


@all_kinds
def test_the_size_counts_the_tags(config: AnyTokenizer) -> None:
    small = type(config).model_validate({**config.model_dump(), "size": 290 if config.kind == "byte_bpe" else 30})
    tagged = train_tokenizer(small, TEXTS, LANGUAGES)
    assert tagged.size <= small.size
    assert max(tagged.encode("a dog runs")) < tagged.size


@given(st.lists(st.sampled_from(["<2de>", "<2fr>", "<2xx>", "</s>", "dog", " ", "<", "2de", ">", "漢"])))
def test_no_kind_parses_tags_out_of_text(parts: list[str]) -> None:
    for tokenizer in (*TAGGED.values(), *RELOADED.values()):
        ids = tokenizer.encode("".join(parts))
        assert all(token == UNKNOWN or token >= tokenizer.markers for token in ids)


def test_a_tag_in_text_is_text() -> None:
    """As far as a kind can write it: a word vocabulary does not take a word that looks like a tag."""
    for kind in ("byte_bpe", "char"):
        assert TAGGED[kind].decode(TAGGED[kind].encode("ein <2de> Hund")) == "ein <2de> Hund"
    assert TAGGED["word"].decode(TAGGED["word"].encode("ein <2de> Hund <2xx>")) == "ein <unk> Hund <2xx>"
    without = train_tokenizer(Words(kind="word"), TEXTS)
    assert without.decode(without.encode("ein <2de> Hund")) == "ein <2de> Hund"


@all_kinds
def test_tags_are_never_decoded_into_text(config: AnyTokenizer) -> None:
    tokenizer = TAGGED[config.kind]
    ids = tokenizer.encode("a dog runs")
    assert tokenizer.decode([4, *ids, 5, 6]) == tokenizer.decode(ids) == "a dog runs"


@all_kinds
def test_tags_are_part_of_the_fingerprint(config: AnyTokenizer) -> None:
    made = [train_tokenizer(config, TEXTS, languages) for languages in ((), ("de",), ("fr",), LANGUAGES)]
    assert len({tokenizer.fingerprint for tokenizer in made}) == 4
    assert made[-1].fingerprint == TAGGED[config.kind].fingerprint == RELOADED[config.kind].fingerprint
    assert train_tokenizer(config, TEXTS, reversed(LANGUAGES)).fingerprint == made[-1].fingerprint
    assert made[0].tags == {}
    assert made[0].markers == len(SPECIALS)


def test_the_byte_alphabet_is_complete_beside_tags() -> None:
    tokenizer = train_tokenizer(ByteBpe(size=260), ["a"], LANGUAGES)
    assert tokenizer.decode(tokenizer.encode("漢字 Übung\x00")) == "漢字 Übung\x00"


@pytest.mark.parametrize("config", KINDS[1:], ids=list(TAGGED)[1:])
def test_a_vocabulary_without_room_for_its_tags(config: AnyTokenizer) -> None:
    tiny = type(config).model_validate({**config.model_dump(), "size": 7})
    with refuses("`tokenizer.size` is 7, but must be more than 7, the number of special pieces."):
        train_tokenizer(tiny, TEXTS, LANGUAGES)


def test_tags_elsewhere_are_refused() -> None:
    """A tokenizer that another program made: its tags would be taken for text."""
    trained = json.loads(TAGGED["word"].to_json())
    trained["added_tokens"] = [token for token in trained["added_tokens"] if token["content"] != "<2de>"]
    message = r"^t.json: its mask and tags do not come after its special tokens: it is not a tokenizer of Heedful\.$"
    with pytest.raises(UserError, match=message):
        Tokenizer.from_json(json.dumps(trained).encode(), "t.json")


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with refuses("<2cs> is not in the vocabulary: it has <2de>, <2fr>, <2pt-BR>."):
        TAGGED["word"].tag("cs")
    with refuses("<2cs> is not in the vocabulary: it has no tags."):
        train_tokenizer(Words(kind="word"), TEXTS).tag("cs")


# --- in the token stores ----------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, lines in {
        "en": ["a dog runs", "a cat", "one"],
        "de": ["ein Hund rennt", "eine Katze", "eins"],
        "fr": ["un chien court", "un chat", "un"],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def corpus(target: str, **more: Any) -> dict[str, Any]:
    return {"source": "en", "target": target, "to": target, **more}


def recipe(files: Path, joint: bool = True, **data: Any) -> Recipe:
    return Recipe.model_validate(
        {
            "data": {"folder": str(files), "train": [corpus("de"), corpus("fr", lines="1-1")], **data},
            "tokenizer": {"kind": "word", "joint": joint},
            "model": {"family": "transformer", "tie": "decoder"},
        }
    )


def source(prepared: Prepared, number: int) -> list[list[str]]:
    store = prepared.train[number]
    return [prepared.vocabularies["source"].pieces(store.sentence("source", i).tolist()) for i in range(len(store))]


@pytest.mark.parametrize("joint", [True, False])
def test_every_training_source_carries_the_tag_of_its_corpus(files: Path, joint: bool) -> None:
    prepared = prepare(recipe(files, joint, valid=[corpus("fr", lines="2-2")]))
    assert source(prepared, 0) == [["<2de>", "a", "dog", "runs"], ["<2de>", "a", "cat"], ["<2de>", "one"]]
    assert source(prepared, 1) == [["<2fr>", "a", "dog", "runs"]]
    assert prepared.valid[0].sentence("source", 0)[0] == prepared.vocabularies["source"].tag("fr")
    assert prepared.vocabularies["source"].tags == {"de": 4, "fr": 5}
    assert prepared.vocabularies["target"].tags == ({"de": 4, "fr": 5} if joint else {})
    for store in prepared.train:
        targets = [
            prepared.vocabularies["target"].pieces(store.sentence("target", i).tolist()) for i in range(len(store))
        ]
        assert not any(piece.startswith("<2") for pieces in targets for piece in pieces)


def test_a_tag_takes_a_place_of_the_longest_sentence_and_none_in_the_ratio(files: Path) -> None:
    (store,) = prepare(recipe(files, train=[corpus("de")], max_length=3, max_ratio=1)).train
    assert len(store) == 2  # "<2de> a dog runs" is four pieces; "a cat" and "eine Katze" are equally long
    assert store.dropped == {"too long": 1}


def test_the_same_text_to_another_language_is_another_store(files: Path) -> None:
    first = prepare(recipe(files))
    second = prepare(recipe(files, train=[corpus("de", to="fr"), corpus("fr", to="de", lines="1-1")]))
    assert first.vocabularies["source"].fingerprint == second.vocabularies["source"].fingerprint
    assert source(second, 0)[2] == ["<2fr>", "one"]
    assert {store.key for store in first.train}.isdisjoint({store.key for store in second.train})


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_language_that_is_not_trained_is_refused_with_its_corpus(files: Path, split: str) -> None:
    message = r'^en \+ cs: `to` is "cs", but <2cs> is not in the vocabulary: it has <2de>, <2fr>\.$'
    (files / "cs").write_text("x\nx\nx\n")
    with pytest.raises(UserError, match=message):
        prepare(recipe(files, True, **{split: [corpus("cs")]}))


def test_a_corpus_without_a_language_is_refused_where_a_given_vocabulary_has_tags(files: Path) -> None:
    prepared = prepare(recipe(files))
    plain = recipe(files, train=[{"source": "en", "target": "de", "name": "news"}])
    message = r'^news: `to` is missing, but the vocabulary has tags: set it to one of "de", "fr"\.$'
    with pytest.raises(UserError, match=message):
        prepare(plain, given=prepared.vocabularies)
    assert prepare(plain).vocabularies["source"].tags == {}


# --- how often corpora are shown --------------------------------------------------------------------------------------


def test_with_temperature_small_corpora_are_shown_more_often(files: Path) -> None:
    """Sizes 3 and 1: drawn as 3^(1/T) to 1^(1/T), the larger once an epoch."""
    assert prepare(recipe(files)).weights == (1.0, 1.0)
    assert prepare(recipe(files, temperature=2)).weights == pytest.approx((1.0, 3**0.5))
    assert prepare(recipe(files, temperature=5)).weights == pytest.approx((1.0, 3**0.8))
    shown = [weight * size for weight, size in zip(prepare(recipe(files, temperature=5)).weights, (3, 1), strict=True)]
    assert shown[0] / shown[1] == pytest.approx(3 ** (1 / 5))


def test_weights_multiply_the_temperature(files: Path) -> None:
    weighted = [corpus("de", weight=0.5), corpus("fr", lines="1-1", weight=4.0)]
    assert prepare(recipe(files, train=weighted, temperature=2)).weights == pytest.approx((0.5, 4 * 3**0.5))


def test_the_size_of_a_corpus_is_what_is_left_of_it(files: Path) -> None:
    corpora = [corpus("de"), corpus("fr", lines="1-2")]
    assert prepare(recipe(files, train=corpora, temperature=2)).weights == pytest.approx((1.0, (3 / 2) ** 0.5))
    shorter = prepare(recipe(files, train=corpora, temperature=2, max_length=3))  # "<2de> a dog runs" is too long
    assert shorter.weights == pytest.approx((1.0, (2 / 1) ** 0.5))


def test_a_tag_is_written_as_in_the_paper() -> None:
    assert tag_of("es") == "<2es>"
