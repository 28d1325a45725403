"""Letters of words as numbers."""

from heedful.data.prepare.letters import LETTERS, LONGEST_WORD, letters_of, spell


def test_letters_below_u0800_have_numbers_of_their_own() -> None:
    assert letters_of("aé") == [0x61, 0xE9]
    assert len({number for code in range(0x800) for number in letters_of(chr(code))}) == 0x800


def test_all_other_letters_share_the_rest_and_never_leave_the_table() -> None:
    numbers = letters_of("漢") + letters_of("\U0010ffff") + letters_of("\u0800")
    assert all(0x800 <= number < LETTERS for number in numbers)


def test_a_long_word_keeps_its_first_and_last_letters() -> None:
    assert letters_of("abcdefgh" + "x" * 20 + "ijklmnop") == letters_of("abcdefghijklmnop")
    assert len(letters_of("a" * 99)) == LONGEST_WORD


def test_words_are_spelled_one_after_the_other() -> None:
    assert spell(["ab", "", "c"]) == ([97, 98, 99], [2, 0, 1])
