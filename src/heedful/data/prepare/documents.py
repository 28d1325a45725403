"""Texts as documents of sentences, and sentences as tokens: the same in training and in use."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from heedful.data.corpora.sentence_splitting import split_sentences
from heedful.data.prepare.letters import LETTERS, letters_of
from heedful.data.prepare.stores import WHOLE_NUMBERS, Row, Streams, Tokenized
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, StreamType, TokenStore, id_stream, id_type
from heedful.data.tokenize.encoding import ID, ragged
from heedful.data.tokenize.tokenizer import Tokenizer


def document_of(text: str, form: TextForm) -> list[str]:
    """Return the sentences of a text; it is normalised after the split, as capitals show where sentences begin."""
    return [form(sentence) for sentence in split_sentences(text)]


@dataclass(frozen=True, eq=False)
class DocumentStream(Tokenized, Generic[Row]):
    """The tokens of documents (`text`), the number of those of each sentence (`sentences`), and perhaps the letters."""

    document: Callable[[Row], Sequence[str]]  # the sentences of a row
    letters: bool = False

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary, lengths, and letters where they are read."""
        spelled = {"letters": id_stream(LETTERS), "spelled": WHOLE_NUMBERS} if self.letters else {}
        return {"text": id_stream(self.tokenizer.size), **spelled, "sentences": WHOLE_NUMBERS}

    def encode(self, rows: Sequence[Row], dropped: Counter[str]) -> Streams:
        """Tokenize sentence by sentence, each as the tokenizer must see it to find the tokens of the whole text."""
        documents = [self.document(row) for row in rows]
        if self.letters:
            return lettered_streams(documents, self.tokenizer)
        before = " " if self.tokenizer.spells_spaces else ""
        written = [f"{before if place else ''}{text}" for document in documents for place, text in enumerate(document)]
        encoded = iter(self.words.encode(written))
        sentences = [[next(encoded) for _ in document] for document in documents]
        lengths = [[len(ids) // ID.itemsize for ids in document] for document in sentences]
        return {
            "text": ragged([b"".join(document) for document in sentences], id_type(self.tokenizer.size)),
            "sentences": Ragged.of([[length for length in document if length] for document in lengths]),
        }


def document_store(documents: Sequence[Sequence[str]], tokenizer: Tokenizer, letters: bool = False) -> TokenStore:
    """Hold documents in memory."""
    stream = DocumentStream[Sequence[str]](tokenizer, TextForm(), lambda document: document, letters)
    return TokenStore(stream.encode(documents, Counter()))


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
