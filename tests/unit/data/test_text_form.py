"""The form of text, and Moses' rules for words and punctuation."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.data.corpora.pairs import read_pairs
from heedful.data.text_form import TOO_LONG, TextForm, join_words, split_words

# --- the form ---------------------------------------------------------------------------------------------------------


def test_text_stands_as_it_is_unless_a_form_is_asked_for() -> None:
    assert TextForm()("E\u0301 ÀB") == "E\u0301 ÀB"
    assert TextForm.of(Data(train=(AlignedFiles(source="a", target="b"),))) == TextForm(max_line=1_000_000)


def test_a_line_that_is_too_long_becomes_blank() -> None:
    data = Data(train=(AlignedFiles(source="a", target="b"),), max_line=5, lowercase=True)
    form = TextForm.of(data)
    assert form.of_line("FIVE!") == "five!"
    assert form.of_line("SIX!!!") is TOO_LONG
    assert form("SIX!!!") == "six!!!"  # a text to translate is not a line of a corpus
    assert not TOO_LONG.strip()


def test_a_text_for_a_model_may_not_be_longer_than_the_lines_of_its_training() -> None:
    form = TextForm(max_line=5)
    form.check(["five!", ""])
    with refuses("a.txt, line 8 has 6 characters, but this model reads at most 5 (`data.max_line`): split the line."):
        form.check(["five!", "six!!!"], "a.txt", first=7)


def test_the_usual_limit_of_lines_is_not_part_of_cache_keys() -> None:
    usual = {"nfc": False, "lowercase": False}
    assert TextForm().key() == TextForm(max_line=1_000_000).key() == usual
    assert TextForm(max_line=5).key() == {**usual, "max_line": 5}


def test_text_is_composed_and_then_lowercased() -> None:
    assert TextForm(lowercase=True)("Ein HUND, ÄÖÜ") == "ein hund, äöü"
    assert TextForm(nfc=True)("E\u0301te\u0301") == "Été"
    assert TextForm(nfc=True, lowercase=True)("E\u0301te\u0301") == "été"


@given(st.text())
def test_text_in_a_form_stays_in_it(text: str) -> None:
    for form in (TextForm(nfc=True), TextForm(lowercase=True)):
        assert form(form(text)) == form(text)
    assert TextForm(nfc=True, lowercase=True)(text) == unicodedata.normalize("NFC", text).lower()


def test_a_recipe_decides_the_form_of_both_sides(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("E\u0301 DOG\n", encoding="utf-8")
    (tmp_path / "b").write_text("Ein HUND\n", encoding="utf-8")
    corpus, folder = AlignedFiles(source="a", target="b"), str(tmp_path)
    form = TextForm.of(Data(train=(corpus,), nfc=True, lowercase=True))
    assert list(read_pairs(corpus, folder, form)) == [("é dog", "ein hund")]
    assert list(read_pairs(corpus, folder)) == [("E\u0301 DOG", "Ein HUND")]


# --- words ------------------------------------------------------------------------------------------------------------

SENTENCES = [
    ("en", "A man isn't riding his horse, is he?"),
    ("en", "She said: \"It's the dog's ball (a red one).\""),
    ("en", "Mr. Smith paid $5.50 for 3.5 kg of U.S. apples!"),
    ("en", "The well-known 50% rule - and the cats' toys..."),
    ("de", "Ein Mann reitet nicht auf seinem Pferd, oder?"),
    ("de", "Sie sagte: „Das ist z. B. der Ball (ein roter).“"),
    ("de", "Am 3. Mai schläft der Hund; die Katze, 2,5 Jahre alt, nicht!"),
    ("fr", "Un homme ne monte pas à cheval, n'est-ce pas ?"),
    ("fr", "L'homme dit : « C'est l'été (aujourd'hui). »"),
    ("fr", "Qu'est-ce que c'est ?"),
    ("cs", "Muž jede na koni, že?"),
]


@pytest.mark.parametrize(("language", "sentence"), SENTENCES)
def test_ordinary_sentences_come_back(language: str, sentence: str) -> None:
    words = split_words(sentence, language)
    assert words != sentence
    assert join_words(words, language) == sentence


def test_words_are_split_by_the_rules_of_their_language() -> None:
    assert split_words("It's Mr. Smith's dog.", "en") == "It 's Mr. Smith 's dog ."
    assert split_words("C'est l'été.", "fr") == "C' est l' été ."
    assert split_words("Am 3. Mai, z. B. heute.", "de") == "Am 3. Mai , z. B. heute ."


def test_nothing_is_escaped_or_unescaped() -> None:
    """What Moses' scripts write as &amp; and &apos; stays as people write it."""
    assert split_words("a & b < c | 'd' [e]", "en") == "a & b < c | ' d ' [ e ]"
    assert join_words("a &amp; b &apos;s", "en") == "a &amp; b &apos;s"


@pytest.mark.parametrize("blank", ["", "  "])
def test_nothing_stays_nothing(blank: str) -> None:
    assert split_words(blank, "en") == join_words(blank, "en") == ""


def test_a_language_without_rules_of_its_own_has_general_ones() -> None:
    assert split_words("A dog, a cat.", "xx") == "A dog , a cat ."
    assert join_words("A dog , a cat .", "xx") == "A dog, a cat."
