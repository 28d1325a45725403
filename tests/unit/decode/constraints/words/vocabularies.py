"""Small vocabularies of every kind."""

from functools import cache

from heedful.config.tokenizer import AnyTokenizer, Bpe, ByteBpe, Characters, Unigram, WordPiece, Words
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.decode.constraints.words.planner import WordPlanner

# Pieces of the smallest: a, b, ab and their like, a sign, and a space where it is a piece.
SMALLEST: dict[str, AnyTokenizer] = {
    "bpe": Bpe(kind="bpe", size=11),
    "wordpiece": WordPiece(kind="wordpiece", size=11),
    "unigram": Unigram(kind="unigram", size=11),
    "word": Words(kind="word", size=10),
    "char": Characters(kind="char", size=10),
}
USUAL: dict[str, AnyTokenizer] = {
    "byte_bpe": ByteBpe(size=300),
    "bpe": Bpe(kind="bpe", size=90),
    "wordpiece": WordPiece(kind="wordpiece", size=90),
    "unigram": Unigram(kind="unigram", size=60),
    "word": Words(kind="word", size=60),
    "char": Characters(kind="char", size=60),
}
TEXTS = ["the cat sat on the mat .", "a catalog of cats , and of dogs !", "hot dog , or dog", "das Höchste : „gut“ ö"]


@cache
def smallest(kind: str) -> WordPlanner:
    return WordPlanner(train_tokenizer(SMALLEST[kind], ["ab ab a .", "b ab ba ab", "ab -"]))


@cache
def usual(kind: str) -> WordPlanner:
    return WordPlanner(train_tokenizer(USUAL[kind], TEXTS * 3))


def tokenizer_of(planner: WordPlanner) -> Tokenizer:
    return planner.spelling.tokenizer
