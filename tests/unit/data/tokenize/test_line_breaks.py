"""Running text in pieces gives the tokens of the whole text, and its line breaks come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples

from heedful.config.tokenizer import ByteBpe, Characters, Words
from heedful.data.tokenize.encoding import KnownWords, encode_running, restore_breaks, running_pieces
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer

TEXT = "To be, or not to be:\nthat is the question.\n\n  Whether 'tis nobler\n"
BYTES = train_tokenizer(ByteBpe(size=300), running_pieces(TEXT, spells_spaces=True))
LETTERS = train_tokenizer(Characters(kind="char"), running_pieces(TEXT, spells_spaces=True))
WORDS = train_tokenizer(Words(kind="word"), running_pieces(TEXT, spells_spaces=False))


@given(text=st.text("ab \n\t.", max_size=40))
@examples(60)
def test_the_tokens_of_the_pieces_are_those_of_the_text(text: str) -> None:
    for tokenizer in (BYTES, LETTERS):
        [ids] = encode_running([text], KnownWords(tokenizer), spells_spaces=True)
        assert ids.tolist() == tokenizer.encode(text)


@pytest.mark.parametrize("tokenizer", [BYTES, LETTERS], ids=["bytes", "letters"])
def test_a_tokenizer_that_spells_spaces_gives_the_text_back(tokenizer: Tokenizer) -> None:
    [ids] = encode_running([TEXT], KnownWords(tokenizer), spells_spaces=True)
    assert restore_breaks(tokenizer.decode(ids.tolist()), tokenizer) == TEXT


def test_a_tokenizer_of_words_reads_a_line_break_as_a_word_of_its_own() -> None:
    [ids] = encode_running(["to be:\nis\n\nthe"], KnownWords(WORDS), spells_spaces=False)
    assert len(ids) == len(["to", "be:", "break", "is", "break", "break", "the"])
    assert restore_breaks(WORDS.decode(ids.tolist()), WORDS) == "to be:\nis\n\nthe"
