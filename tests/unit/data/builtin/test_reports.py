"""The reports generator: every answer is in its text, and the test part combines words as no other part does."""

import hashlib
import json
import re
from itertools import islice

import pytest
from tests.shared.refusals import refuses

from heedful.data.builtin.reports import DEEDS, NAMES, PLACES, THINGS, TIMES, Event, holds_held_out, report_questions

COUNT = 600


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_every_answer_is_where_it_says_and_there_is_only_one(part: str) -> None:
    for question, text, answers, start in report_questions(part, COUNT):
        assert start is not None
        assert len(answers) == 1
        assert text[start:].startswith(answers[0])
        assert question.endswith("?")
        assert "{" not in question + text


def test_the_parts_are_the_same_everywhere() -> None:
    rows = [list(report_questions(part, 200, 0.2)) for part in ("train", "valid", "test")]
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    assert digest == "28aa199dd271b7280c8794b23e2da5a79262be1a01b362e46e39239e4235affb", (
        "a change of the reports needs a new version in GENERATORS"
    )


def test_a_longer_draw_begins_with_the_shorter_one() -> None:
    assert list(report_questions("valid", 40)) == list(islice(report_questions("valid", 90), 40))


def test_no_event_of_training_has_a_held_out_pair_and_every_event_of_test_has_one() -> None:
    for part in ("train", "valid", "test"):
        for sentence, place in _events(part):
            names = [name for name in NAMES if _names(sentence, name)]
            things = [thing for thing in THINGS if _names(sentence, thing)]
            event = Event(names[0], "", DEEDS[0], "", max(things, key=len), place, TIMES[0])
            assert holds_held_out(event) == (part == "test"), sentence


def test_parts_have_no_report_in_common_and_every_name_is_trained_on() -> None:
    train, valid, test = ({row[1] for row in report_questions(part, 3000)} for part in ("train", "valid", "test"))
    assert not train & valid
    assert not test & (train | valid)
    assert all(any(name in text for text in train) for name in NAMES)


def test_a_share_of_questions_has_no_answer() -> None:
    rows = list(report_questions("train", COUNT, 0.3))
    without = [row for row in rows if not row[2]]
    assert 0.2 < len(without) / COUNT < 0.4
    assert all(start is None for _, _, _, start in without)


def test_an_unknown_part_is_refused() -> None:
    with refuses("reports has no part `dev`. Its parts are train, valid and test."):
        report_questions("dev", 1)


def _events(part: str):  # type: ignore[no-untyped-def]
    """Yield the sentences of events with one person and one place."""
    for _, text, _, _ in report_questions(part, COUNT):
        text = text.replace(". There ", ", there ")
        for sentence in text.split(". "):
            places = [place for place in PLACES if _names(sentence.lower(), place.whole.lower())]
            if places and any(_names(sentence, thing) for thing in THINGS):
                yield sentence, places[0]


def _names(sentence: str, words: str) -> bool:
    return words in sentence and re.search(rf"\b{words}\b", sentence) is not None
