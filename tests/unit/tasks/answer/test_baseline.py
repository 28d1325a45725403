"""The line that readers have to beat: a span of the sentence with the greatest overlap with the question."""

import math

import pytest

from heedful.data.corpora.questions import Question, make_question
from heedful.tasks.answer.baseline import OverlapReader, Rule, _sentences, _span, _words

TEXT = "Ada wrote the first program. Grace built a compiler in 1952. The compiler was called A-0!"


def asked(question: str, answer: str = "", text: str = TEXT) -> Question:
    return make_question(question, text, (answer,) if answer else ())


def test_texts_are_cut_into_sentences_and_words_with_their_places() -> None:
    sentences = _sentences("One dog. Two\nlines 3.5 m! 犬はいた。犬は\n\n...")
    assert [[one.word for one in sentence] for sentence in sentences] == [
        ["one", "dog"],
        ["two"],
        ["lines", "3", "5", "m"],
        ["犬", "は", "い", "た"],
        ["犬", "は"],
    ]
    text = "Eine Straße. Zwei"
    assert [text[one.start : one.end] for sentence in _sentences(text) for one in sentence] == text.replace(
        ".", ""
    ).split()
    assert _sentences(" ... ") == []


def test_the_sentence_has_the_greatest_sum_of_rarities_of_the_words_of_the_question() -> None:
    reader = OverlapReader([asked("Who wrote the first program?", "Ada")], no_answer=False)
    assert reader._rarity("the") == math.log(4 / 3)  # in two of three sentences
    assert reader._rarity("compiler") == math.log(4 / 3)
    assert reader._rarity("never") == math.log(4)
    words, best, share = reader._find_best(asked("When did Grace build the compiler?"))
    assert [one.word for one in best] == ["grace", "built", "a", "compiler", "in", "1952"]
    assert share == pytest.approx(
        (math.log(4 / 2) + math.log(4 / 3)) / (3 * math.log(4) + math.log(4 / 2) + 2 * math.log(4 / 3))
    )
    assert words == {"when", "did", "grace", "build", "the", "compiler"}


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        (Rule("near", False, 2), "built a"),
        (Rule("near", True, 1), "a"),
        (Rule("longest", False, 9), "built a"),
        (Rule("last", True, 1), "1952"),
        (Rule("last", False, 9), "in 1952"),
    ],
)
def test_a_rule_takes_words_of_a_run_that_is_not_in_the_question(rule: Rule, answer: str) -> None:
    (_, sentence, _) = _sentences(TEXT)
    start, end = _span(sentence, {"grace", "compiler"}, rule, lambda word: 2.0 if word == "grace" else 1.0)
    assert TEXT[start:end] == answer


def test_a_sentence_of_words_of_the_question_alone_is_its_own_answer() -> None:
    sentence = _words("Grace built")
    assert _span(sentence, {"grace", "built"}, Rule("longest", False, 5), len) == (0, 11)


def test_the_rule_that_answers_training_questions_is_learned() -> None:
    names = ["Ada", "Grace", "Alan", "Kurt", "Emmy"]
    texts = [f"The weather is fine. In the year 19{number}0 it was {name}." for number, name in enumerate(names)]
    train = [asked(f"Who was it in the year 19{number}0?", name, texts[number]) for number, name in enumerate(names)]
    reader = OverlapReader(train, no_answer=False)
    assert [reader.answer(question) for question in train] == names
    assert reader.answer(asked("Who was it in the year 1977?", "", "It rains. In 1977 it was Max Born.")) == "Max"
    assert reader.rule.words == 1
    assert reader.rule.threshold == 0


def test_questions_without_an_answer_have_little_overlap() -> None:
    texts = [f"Number {number} is called name{number}." for number in range(10)]
    train = [asked(f"What is number {number} called?", f"name{number}", text) for number, text in enumerate(texts)]
    none = [asked("Who painted houses yesterday?", "", text) for text in texts]
    reader = OverlapReader([*train, *none], no_answer=True)
    assert [reader.answer(question) for question in train] == [question.answers[0] for question in train]
    assert {reader.answer(question) for question in none} == {""}
    always = OverlapReader([*train, *none], no_answer=False)  # a model that always answers is compared with such a line
    assert "" not in {always.answer(question) for question in none}


def test_no_training_question_with_an_answer_is_fine() -> None:
    none = [asked("Who?"), asked("Where?")]
    assert OverlapReader(none, no_answer=True).answer(asked("When?")) == ""
    assert OverlapReader([], no_answer=False).answer(asked("Who built a compiler?")) in TEXT
    assert OverlapReader(none, no_answer=False).answer(Question("Who?", "...")) == ""
