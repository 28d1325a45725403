import gzip
import re
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.text_routines import seconds

from heedful.data.corpora.sentence_splitting import split_sentences, split_with_spacing

IMDB = Path(__file__).parents[5] / "shared/data/imdb/train.tsv.gz"


@pytest.mark.parametrize(
    "sentences",
    [
        # ends, and what closes behind them
        ["He left.", "Then she came!", "Who?", "3 cats.", "$5 each.", "Fin"],
        ["Hi!!!", "You?!?", "(Yes.)", "[No.]", "He said: 'No.'", "Then he left (really!).", "Fin"],
        ['"Who?"', '"Me."', "“Go!”", "‘Why?’", "OK."],
        ['"Stop!" he said.', '"Go!"', "She went."],
        ["Well... he left.", "So… it goes.", "Wait...", "What?"],
        ["Version 2.5 costs $3.99, see a.b.c or x.com/y.", "#1 it is.", "@you know."],
        # abbreviations
        ["Mr. Smith met (Dr. J. R. Jones) at St. Mary's.", "It rained."],
        ["The U.S. Army, e.g. Gen. Lee, i.e. him vs. Grant.", "He has a Ph.D. Really"],
        ["No. 5 is alive, see fig. 3 and pp. 7 ff.", "No.", "I am not."],
        ["1. First point.", "2. Second point.", "It was 1990.", "Then came 12.", "They left."],
        # other languages
        ["¿Qué?", "¡No!", "«Sí.»", "Vamos con el Sr. López.", "¿Ya?"],
        ["Am 3. Mai 2000 war z. B. Dr. Weiß da.", "»Ja!«", "Das war's."],
        ["« Oui ! » dit-il.", "Non !", "Et toi ?", "Moi."],
        ["Он ушёл.", "Она пришла.", "वह गया।", "वह आई।", "هل ذهب؟", "نعم."],
        # tokenized
        ["he left .", "Then she came .", "it rained ."],
        ["he said .", '" I left . "', "Then he went .", '" We came . "', "<unk> too ."],
        ['" Stop ! " he said .', "( He left . )", "The end ."],
        ["He waited . . . and left . . .", "Then 3 @.@ 5 km .", "End"],
        # without capitals
        ["i liked it.", "it was good... or so!", "bye"],
    ],
)
def test_sentences_are_found_again(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("今日は。明日も！「え？」と言った。終わり", ["今日は。", "明日も！", "「え？」と言った。", "終わり"]),
        ("他说：“好。”她走了……真的吗？！是。", ["他说：“好。”", "她走了……真的吗？！", "是。"]),
        ("one<br />two<BR><br/>three", ["one", "two", "three"]),
        ("a title\nthen\r\n\r\n text \u2028 end", ["a title", "then", "text", "end"]),
        ("  much \t white\u00a0space.   Here ", ["much white space.", "Here"]),
        ("", []),
        (" \n <br /> ", []),
    ],
)
def test_breaks_and_wide_stops_end_a_sentence(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


texts = st.text() | st.lists(st.sampled_from([*"aB1.!?…\"'()”。」と<-\n ", " ", ". ", "<br />", "Mr", " I"])).map(
    "".join
)


@given(texts)
def test_nothing_is_lost_but_white_space_and_breaks(text: str) -> None:
    sentences = split_sentences(text)
    plain = re.sub(r"(?i)<br\s*/?>", " ", text)
    assert "".join("".join(sentences).split()) == "".join(plain.split())
    if not re.search("[。！？｡]", text):  # which have no space behind
        assert " ".join(sentences) == " ".join(plain.split())


@given(texts)
def test_a_sentence_has_text_and_single_spaces_only(text: str) -> None:
    for sentence in split_sentences(text):
        assert sentence
        assert sentence == " ".join(sentence.split())


@pytest.mark.parametrize("part", [".", ". ", "。", '."', ' . " ;', " (", "a. b. ", "<br ", "? ("])
def test_time_does_not_explode(part: str) -> None:
    """A pattern that looks back over a long run would take minutes."""
    assert split_sentences("x!" + part * 50_000)


@pytest.mark.skipif(not IMDB.exists(), reason=f"no IMDB reviews at {IMDB}")
def test_sentences_of_reviews_have_a_sensible_length() -> None:
    with gzip.open(IMDB, "rt", encoding="utf-8") as file:
        reviews = [line.rstrip("\n").split("\t")[2] for line in islice(file, 500)]
    words = [len(sentence.split()) for review in reviews for sentence in split_sentences(review)]
    assert 15 < sum(words) / len(words) < 22
    assert sum(count > 80 for count in words) < 0.01 * len(words)
    assert sum(count < 2 for count in words) < 0.03 * len(words)


# --- with their spacing -----------------------------------------------------------------------------------------------

PARTS = st.sampled_from([
    "A dog.", "It ran!", "Who?", "mr. x", "。", "犬。", '"', " ", "  ", "\n", "\r\n", "\t", "<br>", "<BR />", "\u3000",
    "\u2028", "\x1c", "\x85", "\u200b", "\x00", ".", "...", "<b", "a",
])  # fmt: skip


@given(st.lists(PARTS, max_size=20).map("".join) | st.text())
def test_sentences_with_their_spacing_are_the_text(text: str) -> None:
    pieces = split_with_spacing(text)
    assert "".join(before + sentence for before, sentence in pieces) == text
    sentences = [" ".join(sentence.split()) for _, sentence in pieces if sentence]
    assert sentences == split_sentences(text)
    for before, sentence in pieces:
        assert sentence == sentence.strip()
        assert not split_sentences(before)
    assert all(sentence for _, sentence in pieces[:-1])


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [("", "")]),
        (" \n", [(" \n", "")]),
        ("One. Two.", [("", "One."), (" ", "Two.")]),
        ("\n A  dog.\n\nIt ran!\t", [("\n ", "A  dog."), ("\n\n", "It ran!"), ("\t", "")]),
        ("a<br />b", [("", "a"), ("<br />", "b")]),
        ("犬。猫。", [("", "犬。"), ("", "猫。")]),
    ],
)
def test_the_spacing_of_a_sentence_is_before_it(text: str, pieces: list[tuple[str, str]]) -> None:
    assert split_with_spacing(text) == pieces


@pytest.mark.parametrize("part", ["a ", "A. ", "\n", "<br>", "<br ", "。", " ", ". ", '. " ', "a\n", "\u2028"])
def test_long_texts_are_split_with_their_spacing_in_seconds(part: str) -> None:
    assert seconds(split_with_spacing, part * 100_000) < 20
