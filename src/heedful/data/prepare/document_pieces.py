"""Texts as documents of sentences, and sentences as tokens: the same in training and in use."""

from collections.abc import Sequence

from heedful.data.corpora.sentence_splitting import split_sentences
from heedful.data.prepare.letters import letters_of
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer


def document_of(text: str, form: TextForm) -> list[str]:
    """Return the sentences of a text; it is normalised after the split, as capitals show where sentences begin."""
    return [form(sentence) for sentence in split_sentences(text)]


def to_encode(documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[str]:
    """Return the sentences of all documents as the tokenizer must see them to find the tokens of the whole text."""
    before = " " if tokenizer.spells_spaces else ""
    return [f"{before if place else ''}{sentence}" for document in documents for place, sentence in enumerate(document)]


def lettered_streams(documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> dict[str, Ragged]:
    """Return the streams of documents with the letters of their words: each word is encoded by itself.

    `letters` are those of all words, and `spelled` is how many each token has: the first piece of a word has them all.
    """
    before = " " if tokenizer.spells_spaces else ""
    words = [[sentence.split() for sentence in document] for document in documents]
    distinct = list(dict.fromkeys(word for document in words for sentence in document for word in sentence))
    inside = dict(zip(distinct, tokenizer.encode_batch([f"{before}{word}" for word in distinct]), strict=True))
    firsts = [next((sentence[0] for sentence in document if sentence), "") for document in words]
    opening = tokenizer.encode_batch(firsts) if before else [inside.get(word, []) for word in firsts]
    rows: dict[str, list[list[int]]] = {"text": [], "sentences": [], "letters": [], "spelled": []}
    for document, first in zip(words, opening, strict=True):
        row: dict[str, list[int]] = {name: [] for name in rows}
        opens = True
        for sentence in document:
            length = len(row["text"])
            for word in sentence:
                pieces, opens = first if opens else inside[word], False
                if pieces:
                    letters = letters_of(word)
                    row["text"] += pieces
                    row["letters"] += letters
                    row["spelled"] += [len(letters), *[0] * (len(pieces) - 1)]
            if len(row["text"]) > length:
                row["sentences"].append(len(row["text"]) - length)
        for name, values in row.items():
            rows[name].append(values)
    return {name: Ragged.of(values) for name, values in rows.items()}


def document_store(documents: Sequence[Sequence[str]], tokenizer: Tokenizer, letters: bool = False) -> TokenStore:
    """Hold documents in memory: the tokens of each, the number of tokens of each sentence, and perhaps the letters."""
    if letters:
        return TokenStore(lettered_streams(documents, tokenizer))
    encoded = iter(tokenizer.encode_batch(to_encode(documents, tokenizer)))
    pieces = [[next(encoded) for _ in document] for document in documents]
    return TokenStore.of(
        text=[[piece for sentence in document for piece in sentence] for document in pieces],
        sentences=[[len(sentence) for sentence in document if sentence] for document in pieces],
    )
