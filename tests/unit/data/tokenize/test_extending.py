"""Vocabularies that grow: old pieces stay, new ones spell new texts in fewer pieces, and know what they replace."""

from collections import Counter
from itertools import pairwise

import pytest
from pydantic import TypeAdapter
from tests.shared.refusals import refuses

from heedful.config.tokenizer import AnyTokenizer
from heedful.data.tokenize.extending import Extended, extend_tokenizer
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.data.tokenize.training import train_tokenizer

OLD = ["the cat sat on the mat", "a dog ran to the house", "the house is big"] * 5
NEW = ["der Hund läuft über die große Straße", "die Katze schläft über dem Haus", "der große Hund schläft"] * 3
SIZES = {"byte_bpe": 300, "bpe": 60, "wordpiece": 60, "unigram": 50, "word": 12, "char": 30}


def trained(kind: str, texts: list[str] = OLD) -> Tokenizer:
    return train_tokenizer(TypeAdapter(AnyTokenizer).validate_python({"kind": kind, "size": SIZES[kind]}), texts)


def extended(kind: str, count: int = 30) -> tuple[Tokenizer, Extended]:
    old = trained(kind)
    return old, extend_tokenizer(old, NEW, count, kind == "char")


@pytest.mark.parametrize("kind", SIZES)
def test_old_pieces_keep_their_ids_and_new_texts_are_spelled_in_fewer(kind: str) -> None:
    old, new = extended(kind)
    assert 0 < new.size - old.size == len(new.parts) <= 30
    assert new.pieces(range(old.size)) == old.pieces(range(old.size))
    if kind != "unigram":  # which has a new piece for the beginning of words
        assert [new.encode(text) for text in OLD] == [old.encode(text) for text in OLD]
    for text in NEW:
        assert new.decode(new.encode(text)) == text
        assert UNKNOWN not in new.encode(text)
        unknown = UNKNOWN in old.encode(text)
        assert unknown or len(new.encode(text)) < len(old.encode(text))
    again = Tokenizer.from_json(new.to_json(), "tokenizer.json")
    assert [again.encode(text) for text in NEW] == [new.encode(text) for text in NEW]
    assert extend_tokenizer(trained(kind), NEW, 30, kind == "char").to_json() == new.to_json()


def test_a_new_piece_replaces_the_old_pieces_that_spell_it() -> None:
    old, new = extended("byte_bpe")
    for number, parts in enumerate(new.parts):
        assert new.spelled([old.size + number])[0] == b"".join(old.spelled(parts))
    for text in NEW:  # cut into its parts, a text is what the old vocabulary makes of it
        ids = (new.parts[token - old.size] if token >= old.size else (token,) for token in new.encode(text))
        assert old.decode([part for some in ids for part in some]) == text


def test_letters_that_are_known_elsewhere_in_words_are_their_likes() -> None:
    old, new = extended("wordpiece")
    found = {new.pieces([old.size + n])[0]: old.pieces(parts) for n, parts in enumerate(new.parts)}
    assert found["##r"] == ["r"]
    assert found["H"] == ["<unk>"]


def test_the_pieces_are_those_of_the_definition() -> None:
    """The most frequent neighbours become one, counted anew after every merge: a naive loop over all words."""
    old, new = extended("byte_bpe", 20)
    library = old._inner
    words = Counter(word for text in NEW for word, _ in library.pre_tokenizer.pre_tokenize_str(text))
    cut = {word: [piece.value for piece in library.model.tokenize(word)] for word in words}
    found = list[str]()
    while len(found) < 20:
        pairs = Counter[tuple[str, str]]()
        for word, pieces in cut.items():
            for pair in pairwise(pieces):
                pairs[pair] += words[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        found.append("".join(best))
        for word, pieces in cut.items():
            made = list[str]()
            for piece in pieces:
                if made and (made[-1], piece) == best:
                    made[-1] += piece
                else:
                    made.append(piece)
            cut[word] = made
    assert [new._inner.id_to_token(old.size + number) for number in range(20)] == found


def test_texts_that_need_no_new_pieces_are_refused() -> None:
    with refuses(
        "`tokenizer.extend`: the training texts need no new pieces, as the vocabulary spells all of their words: leave "
        "it out."
    ):
        extend_tokenizer(trained("char"), OLD, 10, letters_only=True)
