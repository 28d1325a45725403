import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples

from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.tokenize.encoding import ID, KnownWords
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer

TEXTS = [
    "the dog's house, 12 of them",
    "four    and     five   ",
    "  two  spaces ",
    "a\tb \u3000c",
    "don't </s> <s>",
    "Übung ▁x ▁ 3rd",
    "(a) b!",
]
KINDS: list[AnyTokenizer] = [
    ByteBpe(size=300),
    Bpe(kind="bpe", size=80),
    WordPiece(kind="wordpiece", size=90),
    Unigram(kind="unigram", size=60),
    Words(kind="word", size=30),
    Characters(kind="char", size=40),
]
TOKENIZERS: dict[str, Tokenizer] = {config.kind: train_tokenizer(config, TEXTS * 20, ["de"]) for config in KINDS}

white = st.sampled_from(
    [" ", " ", " ", "  ", "\t", "\n", "\r", "\x0b", "\x1c", "\x85", "\xa0", "\u2003", "\u2028", "\u3000"]
)
words = st.sampled_from(
    ["a", "the", "dog's", "'ll", "12", "x3", "▁", "</s>", "<2de>", "Ü", "e\u0301", "!?", "漢字", "\u200b", "\x00"]
)
mixed = st.lists(st.one_of(white, words, st.characters(exclude_categories=["Cs"])), max_size=25).map("".join)


def encoded(known: KnownWords, texts: list[str]) -> list[list[int]]:
    return [np.frombuffer(ids, ID).tolist() for ids in known.encode(texts)]


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(texts=st.lists(mixed, max_size=4))
@examples(150)
def test_words_one_by_one_give_what_the_whole_text_gives(kind: str, texts: list[str]) -> None:
    tokenizer = TOKENIZERS[kind]
    assert encoded(KnownWords(tokenizer), [*texts, *TEXTS]) == tokenizer.encode_batch([*texts, *TEXTS])


def test_a_word_is_tokenized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = TOKENIZERS["byte_bpe"]
    known = KnownWords(tokenizer)
    expected = encoded(known, TEXTS)

    def refuse(self: Tokenizer, texts: list[str]) -> list[list[int]]:
        assert not texts
        return []

    monkeypatch.setattr(Tokenizer, "encode_batch", refuse)
    assert encoded(known, TEXTS[::-1]) == expected[::-1]


def test_processes_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of room for 100 characters each of ten has as much as one with room for 10."""
    tokenizer = TOKENIZERS["byte_bpe"]
    alone = KnownWords(tokenizer, room=10)
    monkeypatch.setattr(KnownWords, "sharers", 10)
    one_of_ten = KnownWords(tokenizer, room=100)
    for text in [*TEXTS, *TEXTS]:
        alone.encode([text])
        one_of_ten.encode([text])
        assert one_of_ten._known == alone._known
    assert KnownWords(tokenizer)._room * 10 == 4_000_000


def test_words_without_room_are_forgotten_and_learned_again() -> None:
    tokenizer = TOKENIZERS["byte_bpe"]
    known = KnownWords(tokenizer, room=10)
    for text in [*TEXTS, *TEXTS]:
        assert encoded(known, [text]) == [tokenizer.encode(text)]
        assert len(known._known) <= 10
