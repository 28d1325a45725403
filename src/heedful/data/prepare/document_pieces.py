"""Texts as documents of sentences, and sentences as tokens: the same in training and in use."""

from collections.abc import Sequence

from heedful.data.corpora.sentence_splitting import split_sentences
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer


def document_of(text: str, form: TextForm) -> list[str]:
    """Return the sentences of a text; it is normalised after the split, as capitals show where sentences begin."""
    return [form(sentence) for sentence in split_sentences(text)]


def to_encode(documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[str]:
    """Return the sentences of all documents as the tokenizer must see them to find the tokens of the whole text."""
    before = " " if tokenizer.spells_spaces else ""
    return [f"{before if place else ''}{sentence}" for document in documents for place, sentence in enumerate(document)]


def document_store(documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> TokenStore:
    """Hold documents in memory: the tokens of each, and the number of tokens of each sentence."""
    encoded = iter(tokenizer.encode_batch(to_encode(documents, tokenizer)))
    pieces = [[next(encoded) for _ in document] for document in documents]
    return TokenStore.of(
        text=[[piece for sentence in document for piece in sentence] for document in pieces],
        sentences=[[len(sentence) for sentence in document if sentence] for document in pieces],
    )
