"""Words in pieces: every word keeps its label, however a sentence is cut."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.refusals import refuses
from tests.shared.taggers import tagged_sentences, tagger_recipe, write_conll

from heedful.config.tokenizer import AnySide, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.corpora.tagged import TaggedText
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.tasks.tag.data import WordPieces, cut_between_words, prepare_tagged, sentences_of, tagged_streams

KINDS: dict[str, AnySide] = {
    "byte_bpe": ByteBpe(kind="byte_bpe", size=290),
    "wordpiece": WordPiece(kind="wordpiece", size=60),
    "unigram": Unigram(kind="unigram", size=40),
    "char": Characters(kind="char"),
    "word": Words(kind="word"),
}


class Deaf(Tokenizer):
    """A tokenizer that removes a word."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            [] if text.strip() == "dog" else ids for text, ids in zip(texts, super().encode_batch(texts), strict=True)
        ]


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    texts = [" ".join(word for word, _ in sentence) for sentence in tagged_sentences(30)]
    return {name: train_tokenizer(kind, texts) for name, kind in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_pieces_of_words_are_those_of_the_text(tokenizers: dict[str, Tokenizer], kind: str) -> None:
    words = ["the", "old", "dog", "sees", "houses", "."]
    ((*pieces,),) = WordPieces(tokenizers[kind]).encode([words])
    assert len(pieces) == len(words)
    assert [piece for word in pieces for piece in word] == tokenizers[kind].encode(" ".join(words))


def test_a_word_without_pieces_is_unknown_and_keeps_its_label(tokenizers: dict[str, Tokenizer]) -> None:
    words = WordPieces(Deaf(tokenizers["word"]._inner))
    text = TaggedText(("the", "dog", "barks"))
    store = TokenStore(tagged_streams([text], words, 20, [[0, 1, 2]]))
    assert store.sentence("text", 0).tolist()[1] == UNKNOWN
    assert store.sentence("words", 0).tolist() == [1, 1, 1]
    assert store.sentence("label", 0).tolist() == [0, 1, 2]
    assert words.empty == 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 12))
def test_parts_fit_into_the_room_and_lose_no_word(lengths: list[int], room: int) -> None:
    starts = cut_between_words(lengths, room)
    parts = [lengths[start:end] for start, end in zip(starts, [*starts[1:], len(lengths)], strict=True)]
    assert [length for part in parts for length in part] == lengths
    assert all(part for part in parts)
    assert all(sum(part) <= room or len(part) == 1 for part in parts)
    assert all(sum(one) + two[0] > room for one, two in pairwise(parts)), "a part with room left"


@pytest.mark.parametrize("max_length", [3, 4, 7, 30])
def test_labels_stay_with_their_words_when_sentences_are_cut(tokenizers: dict[str, Tokenizer], max_length: int) -> None:
    texts = [TaggedText(("dog", "sees", "houses")), TaggedText(("a",)), TaggedText(("house",) * 9)]
    labels = [[5, 6, 7], [8], list(range(9))]
    words = WordPieces(tokenizers["byte_bpe"])
    store = TokenStore(tagged_streams(texts, words, max_length, labels))
    assert (store.lengths("text") + 2 <= max_length).all()
    assert len(sentences_of(store)) == len(texts)
    for rows, text, expected in zip(
        sentences_of(store), words.encode([text.words for text in texts]), labels, strict=True
    ):
        assert [label for row in rows for label in store.sentence("label", row).tolist()] == expected
        first = []
        for row in rows:
            sizes, pieces = store.sentence("words", row).tolist(), store.sentence("text", row).tolist()
            assert sum(sizes) == len(pieces)
            first += [pieces[sum(sizes[:place])] for place in range(len(sizes))]
        assert first == [word[0] for word in text], "the first piece of each word is never lost"


def test_letters_are_those_of_the_word_as_it_was_given(tokenizers: dict[str, Tokenizer]) -> None:
    text = TaggedText(("The", "Dog", "sees")).formed(TextForm(lowercase=True))
    store = TokenStore(tagged_streams([text], WordPieces(tokenizers["word"]), 4, [[0, 1, 2]], letters=True))
    assert [store.sentence("letters", row).tolist() for row in range(2)] == [[*map(ord, "TheDog")], [*map(ord, "sees")]]
    assert [store.sentence("spelled", row).tolist() for row in range(2)] == [[3, 3], [4]]
    plain = tokenizers["word"].encode("the dog")
    assert store.sentence("text", 0).tolist() == plain


# --- from files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    for name in ("train", "valid"):
        write_conll(tmp_path / f"{name}.conll", tagged_sentences(8))
    return tmp_path


def test_what_is_prepared_is_told_and_kept_in_the_cache(home: Path) -> None:
    said: list[str] = []
    recipe = tagger_recipe(home, data={"max_length": 7})
    made = prepare_tagged(recipe, said.append)
    again = prepare_tagged(recipe, lambda line: None)
    assert made.vocabularies.labels == ("B-NP", "I-NP", "O")
    assert any(line.startswith("train.conll: 8 sentences, ") and "cut between words to `data.max_length` (7)" in line
               for line in said)  # fmt: skip
    for name in ("text", "words", "label", "part"):
        one, two = (prepared.train[0].streams[name].values.tolist() for prepared in (made, again))
        assert one == two
    longer = prepare_tagged(tagger_recipe(home, data={"max_length": 24}))
    assert len(longer.train[0]) == 8 < len(made.train[0]), "another length is another entry of the cache"


def test_words_without_pieces_are_told(home: Path, tokenizers: dict[str, Tokenizer]) -> None:
    said: list[str] = []
    (home / "train.conll").write_text("the\tX\ndog\tY\n\ndog\tX\n")
    (home / "valid.conll").write_text("the\tX\n")
    prepare_tagged(
        tagger_recipe(home), said.append, Vocabularies({"text": Deaf(tokenizers["word"]._inner)}, ("X", "Y"))
    )
    assert "train.conll: 2 sentences, 3 words, 2 words without pieces read as `<unk>`" in said
    assert "valid.conll: 1 sentence, 1 word" in said


def test_labels_that_tell_nothing_apart_are_refused(home: Path) -> None:
    (home / "train.conll").write_text("dog X\n")
    with refuses("`data.train` has the label `X` alone, but a tagger needs two labels to tell..."):
        prepare_tagged(tagger_recipe(home))
    (home / "train.conll").write_text("\n")
    with refuses("...a tokenizer on in train.conll..."):
        prepare_tagged(tagger_recipe(home))
    (home / "train.conll").write_text("dog X\ncat Y\n")
    (home / "valid.conll").write_text("\n")
    with refuses("valid.conll has no sentence to use: it has no words."):
        prepare_tagged(tagger_recipe(home))
