"""Words that are too long for the trainer of a tokenizer."""

from heedful.data.tokenize.cached import LONGEST_WORD, ShortenedWords


def test_of_a_long_word_or_run_of_spaces_the_beginning_is_kept_and_counted() -> None:
    long, longer = "x" * LONGEST_WORD, "x" * (LONGEST_WORD + 1)
    texts = ShortenedWords(["a word", f"a {longer} b {longer}", f"a{' ' * 20_000}b", f"{long} {long}"])
    assert list(texts) == ["a word", f"a {long} b {long}", f"a{' ' * LONGEST_WORD}b", f"{long} {long}"]
    assert texts.description == "3 words of more than 1,000 characters were cut for its training"


def test_nothing_is_said_where_nothing_is_cut() -> None:
    texts = ShortenedWords(["a word"])
    assert list(texts) == ["a word"]
    assert texts.description == ""


def test_one_word_is_one_word() -> None:
    texts = ShortenedWords(["x" * 1_000_000])
    assert [len(text) for text in texts] == [LONGEST_WORD]
    assert texts.description == "1 word of more than 1,000 characters was cut for its training"
