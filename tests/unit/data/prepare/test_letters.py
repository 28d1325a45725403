"""Letters of words as numbers."""

import numpy as np
import pytest

from heedful.config.tokenizer import AnySide, ByteBpe, WordPiece, Words
from heedful.data.prepare.documents import document_store
from heedful.data.prepare.letters import LETTERS, LONGEST_WORD, letters_of, pack_letters
from heedful.data.tokenize.training import train_tokenizer


def test_letters_below_u0800_have_numbers_of_their_own() -> None:
    assert letters_of("aé") == [0x61, 0xE9]
    assert len({number for code in range(0x800) for number in letters_of(chr(code))}) == 0x800


def test_all_other_letters_share_the_rest_and_never_leave_the_table() -> None:
    numbers = letters_of("漢") + letters_of("\U0010ffff") + letters_of("\u0800")
    assert all(0x800 <= number < LETTERS for number in numbers)


def test_a_long_word_keeps_its_first_and_last_letters() -> None:
    assert letters_of("abcdefgh" + "x" * 20 + "ijklmnop") == letters_of("abcdefghijklmnop")
    assert len(letters_of("a" * 99)) == LONGEST_WORD


def test_tokens_have_their_letters_in_ragged_and_static_batches() -> None:
    letters, counts = np.array([97, 98, 99]), np.array([0, 2, 0, 1])
    expected = [[], [97, 98], [], [99]]
    assert [row.tolist() for row in pack_letters(letters, counts).split()] == expected
    static = pack_letters(letters, counts, static=True)
    assert [row.tolist() for row in static.split()[:4]] == expected
    other = pack_letters(np.arange(64), np.full(4, LONGEST_WORD), static=True)
    assert static.values.shape == other.values.shape
    assert static.layout.sentences == other.layout.sentences


KINDS = [ByteBpe(kind="byte_bpe", size=290), WordPiece(kind="wordpiece", size=80), Words(kind="word", size=9)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_documents_with_letters_have_the_tokens_of_those_without(kind: AnySide) -> None:
    documents = [["The old dog sees it.", "A cat!"], ["unbelievable"], [""], ["one two", "three"]]
    tokenizer = train_tokenizer(kind, [sentence for document in documents for sentence in document] * 2)
    plain, lettered = document_store(documents, tokenizer), document_store(documents, tokenizer, letters=True)
    for stream in ("text", "sentences"):
        assert lettered.streams[stream].values.tolist() == plain.streams[stream].values.tolist()
        assert lettered.streams[stream].offsets.tolist() == plain.streams[stream].offsets.tolist()
    for row, document in enumerate(documents):
        assert "".join(map(chr, lettered.sentence("letters", row))) == "".join("".join(document).split())
        counts = [len(word) for sentence in document for word in sentence.split()]
        assert [count for count in lettered.sentence("spelled", row).tolist() if count] == counts
        assert len(lettered.sentence("spelled", row)) == len(lettered.sentence("text", row))
