"""Windows of texts: no answer is lost or shifted, whatever the characters, the tokenizer and the form of the text."""

import random
from itertools import pairwise

import pytest
from pydantic import TypeAdapter

from heedful.base.errors import UserError
from heedful.config.tokenizer import AnyTokenizer
from heedful.data.batches.questions import MARKERS
from heedful.data.corpora.questions import Question, make_question
from heedful.data.text_form import Aligned, TextForm
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.tasks.answer.data import Windowing, piece_questions, piece_texts

ODD = (
    "  The café cafe\u0301 🗺️ has  two\tmaps 👩‍👩‍👧.\nİstanbul ΣΊΣΥΦΟΣ “quoted” 東京 e\u0323\u0302x \u1112\u1161\u11ab "
    "naïve\u00a0end </s> <s> 12,5% Ǆ ß ﬁn  "
)
KINDS = ("byte_bpe", "bpe", "wordpiece", "unigram", "word", "char")
FORMS = (TextForm(), TextForm(nfc=True), TextForm(lowercase=True), TextForm(nfc=True, lowercase=True))
WORDS = ODD.split()


def tokenizer(kind: str) -> Tokenizer:
    config: AnyTokenizer = TypeAdapter(AnyTokenizer).validate_python({"kind": kind, "size": 420})
    return train_tokenizer(config, [ODD, ODD.lower(), "Where is the map ?"] * 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS, ids=["plain", "nfc", "lowercase", "both"])
def test_every_stretch_of_words_is_found_again_in_its_pieces(kind: str, form: TextForm) -> None:
    (text,) = piece_texts([ODD], tokenizer(kind), form)
    for first in range(len(WORDS)):
        start = _starts()[first]
        for last in range(first, len(WORDS)):
            end = _starts()[last] + len(WORDS[last])
            span = text.span(start, end)
            assert span is not None
            begin, stop = text.characters(*span)
            assert begin <= start
            assert stop >= end
            assert ODD[begin:stop].strip() == ODD[begin:stop]
            if kind not in ("unigram",):  # whose pieces do not end at every white space
                assert (begin, stop) == (start, end)


@pytest.mark.parametrize("form", FORMS, ids=["plain", "nfc", "lowercase", "both"])
def test_every_character_of_a_form_comes_from_characters_that_have_this_form(form: TextForm) -> None:
    aligned = Aligned.of(ODD, form)
    assert aligned.text == form(ODD)
    assert len(aligned.starts) == len(aligned.ends) == len(aligned.text)
    for place, letter in enumerate(aligned.text):
        assert letter in form(ODD[aligned.starts[place] : aligned.ends[place]])
    assert aligned.starts[0] == 0
    assert aligned.ends[-1] == len(ODD)


@pytest.mark.parametrize("stride", [None, 1, 3, 7, 500])
@pytest.mark.parametrize("max_length", [9, 12, 30])
def test_windows_cover_the_text_and_hold_every_short_answer_at_its_place(stride: int | None, max_length: int) -> None:
    pieces = tokenizer("word")
    windowing = Windowing(max_length, stride)
    for length in (1, 4, 5, 6, 7, 23):
        words = [f"w{number}" for number in range(length)]
        text = " ".join(words)
        for first in range(length):
            answer = " ".join(words[first : first + 2])
            (pieced,) = piece_questions(
                [make_question("Where is it ?", text, (answer,), text.index(answer))], pieces, TextForm()
            )
            windows = list(windowing.windows(pieced))
            room = max_length - MARKERS - len(windowing.question(pieced.question))
            assert (windows[0].begin, windows[-1].end) == (0, length)
            assert all(window.end - window.begin == min(room, length) for window in windows)
            assert all(one.begin < other.begin <= one.end for one, other in pairwise(windows))
            for window in windows:
                inside = window.begin <= first and first + len(answer.split()) <= window.end
                assert (window.answer is not None) == inside
                if window.answer is not None:
                    assert window.answer[0] + window.begin == first
            if room - min(stride or max(1, room // 2), room) >= 1:
                assert any(window.answer for window in windows)


def test_a_question_takes_at_most_half_of_the_room() -> None:
    assert Windowing(13).question(list(range(50))) == [0, 1, 2, 3, 4]


def test_white_space_and_odd_characters_at_the_ends_of_random_answers_are_covered() -> None:
    chance, pieces = random.Random(5), tokenizer("byte_bpe")
    (text,) = piece_texts([ODD], pieces, TextForm())
    for _ in range(200):
        start, end = sorted(chance.sample(range(len(ODD) + 1), 2))
        if not ODD[start:end].strip():
            continue
        span = text.span(start, end)
        assert span is not None
        begin, stop = text.characters(*span)
        inner = ODD[start:end]
        assert begin <= start + len(inner) - len(inner.lstrip())
        assert stop >= start + len(inner.rstrip())


def test_an_answer_without_pieces_is_refused() -> None:
    pieces = tokenizer("word")
    question = Question("?", "one \u00a0 two", ("\u00a0",), 4, "q.jsonl, line 3")
    message = (
        r"^q\.jsonl, line 3: the tokenizer has no piece for the answer `\u00a0`: remove the row, or use another "
        r"`tokenizer\.kind`\.$"
    )
    with pytest.raises(UserError, match=message):
        piece_questions([question], pieces, TextForm())


def _starts() -> list[int]:
    starts, after = [], 0
    for word in WORDS:
        starts.append(ODD.index(word, after))
        after = starts[-1] + len(word)
    return starts
