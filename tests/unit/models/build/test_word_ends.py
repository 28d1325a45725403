"""Which tokens are counted as words, in vocabularies of every kind."""

import pytest

from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.models.from_recipe.network import word_ends

TEXT = "the old dog sees the catalogue of unusual cats"
KINDS: list[AnyTokenizer] = [
    ByteBpe(size=280),
    Bpe(kind="bpe", size=40),
    WordPiece(kind="wordpiece", size=40),
    Unigram(kind="unigram", size=40),
    Words(kind="word", size=100),
]


def counted(tokenizer: Tokenizer, text: str) -> int:
    return int(word_ends(tokenizer)[tokenizer.encode(text)].sum())


@pytest.mark.parametrize("kind", KINDS, ids=lambda config: config.kind)
def test_every_word_is_counted_once(kind: AnyTokenizer) -> None:
    tokenizer = train_tokenizer(kind, [TEXT] * 3)
    words = len(TEXT.split())
    first = 1 if kind.kind == "byte_bpe" else 0  # the first word has no space before it there
    assert counted(tokenizer, TEXT) == words - first
    assert counted(tokenizer, f"{TEXT} {TEXT}") == 2 * words - first


def test_each_letter_is_a_word_where_letters_are_the_tokens() -> None:
    assert counted(train_tokenizer(Characters(kind="char", size=100), [TEXT]), "dogs") == 4


def test_brackets_of_trees_and_markers_are_not_words() -> None:
    tokenizer = train_tokenizer(Words(kind="word", size=100), ["(S (NP DT NN )NP -LRB- )S"])
    assert counted(tokenizer, "(S (NP DT NN )NP -LRB- )S") == 3
    assert not word_ends(tokenizer)[:3].any()
