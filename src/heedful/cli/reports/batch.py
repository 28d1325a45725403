"""A training batch as a model sees it: for each sentence its pieces, markers included, and what is to be predicted."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from heedful.base.packed import Nested, Packed
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies


@dataclass(frozen=True)
class Part:
    """One sequence of a row: its ids, and the pieces or names that they stand for."""

    pieces: list[str]
    ids: list[int]


Row = dict[str, Part]  # by name: source, target, labels; text, labels


def rows_of(batch: Any, vocabularies: Vocabularies) -> Iterator[Row]:
    """Yield the real rows of a batch of any task; sentences that only fill up its shape are left out."""
    columns = {
        field.name: list(_parts(getattr(batch, field.name), _tokenizer(vocabularies, field.name), batch.sentences))
        for field in fields(batch)
        if isinstance(getattr(batch, field.name), Packed | Nested)
    }
    columns["labels"] = list(_labels(batch, vocabularies))
    for row in range(batch.sentences):
        yield {name: parts[row] for name, parts in columns.items() if row < len(parts)}


def _tokenizer(vocabularies: Vocabularies, name: str) -> Tokenizer:
    found = vocabularies.tokenizers
    return found[name] if name in found else next(iter(found.values()))


def _parts(values: Packed | Nested, tokenizer: Tokenizer, rows: int) -> Iterator[Part]:
    """Yield the first rows of packed values: only sentences that fill up a shape come after them."""
    if isinstance(values, Packed):
        for ids in values.split()[:rows]:
            yield Part(tokenizer.pieces(ids.tolist()), ids.tolist())
        return
    sentences = iter(values.words.split())  # a document is shown as its sentences, end to end
    for count in values.sentences.lengths.tolist()[:rows]:
        tokens = [token for _ in range(count) for token in next(sentences).tolist()]
        yield Part(tokenizer.pieces(tokens), tokens)


def _labels(batch: Any, vocabularies: Vocabularies) -> Iterator[Part]:
    """Yield what each row is to predict: tokens of the target, the tokens under masks, or classes."""
    tokenizer = _tokenizer(vocabularies, "target")
    for ids in batch.labels_of_rows():
        classes = [vocabularies.labels[number] for number in ids] if vocabularies.labels else None
        yield Part(tokenizer.pieces(ids) if classes is None else classes, ids)
