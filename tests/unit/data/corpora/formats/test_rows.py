"""Rows of tables and of JSON objects: numbers, and positions of answers."""

from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import Csv, Jsonl, Tsv
from heedful.data.corpora.images import read_images
from heedful.data.corpora.questions import read_questions
from heedful.data.corpora.texts import Text, read_texts


def test_a_text_has_a_number_from_a_column_or_a_field(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("review,reply,rating\ngood,yes,8\nbad,no, -1.5 \n\nso so,hm,1e2\n")
    (tmp_path / "a.jsonl").write_text('{"t": "good", "n": 8}\n{"t": "bad", "n": -1.5}\n')
    pairs = read_texts(Csv(csv="a.csv", text="review", second="reply", number="rating"), str(tmp_path))
    assert [(text.text, text.second, text.number) for text in pairs if not text.blank] == [
        ("good", "yes", 8.0),
        ("bad", "no", -1.5),
        ("so so", "hm", 100.0),
    ]
    assert list(read_texts(Jsonl(jsonl="a.jsonl", text="t", number="n"), str(tmp_path))) == [
        Text("good", number=8.0),
        Text("bad", number=-1.5),
    ]
    assert [text.number for text in read_texts(Jsonl(jsonl="a.jsonl", text="t"), str(tmp_path))] == [None, None]


def test_an_image_has_a_number_besides_a_label_or_without_one(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"")
    (tmp_path / "a.tsv").write_text("x.png\tcat\t3.5\n")
    (image,) = read_images(Tsv(tsv="a.tsv", image=1, number=3), str(tmp_path))
    assert (image.labels, image.number) == ((), 3.5)
    (image,) = read_images(Tsv(tsv="a.tsv", image=1, label=2, number=3), str(tmp_path))
    assert (image.labels, image.number) == (("cat",), 3.5)


@pytest.mark.parametrize("value", ["abc", "", "4,500", "nan", "inf", "1e999"])
def test_a_column_that_is_not_a_finite_number_is_refused(value: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"good\t1\nbad\t{value}\n")
    why = f'a.tsv, line 2: column `2` is "{value}", but must be a number, such as 12.5.'
    with refuses(f"...{why}"):
        list(read_texts(Tsv(tsv="a.tsv", text=1, number=2), str(tmp_path)))


@pytest.mark.parametrize(
    ("value", "is_what"),
    [
        ('"4"', "text, but must be a number, such as 12.5."),
        ("true", "true or false, but must be a number, such as 12.5."),
        ("null", "null, but must be a number, such as 12.5."),
        ("[1]", "a list, but must be a number, such as 12.5."),
        ("NaN", "a number, but must be a finite number."),
        (f"1{'0' * 400}", "a number, but must be a finite number."),
    ],
)
def test_a_field_that_is_not_a_finite_number_is_refused(value: str, is_what: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"t": "good", "n": {value}}}\n')
    with refuses(f"...a.jsonl, line 1: field `n` is {is_what}"):
        list(read_texts(Jsonl(jsonl="a.jsonl", text="t", number="n"), str(tmp_path)))


def test_questions_about_texts_are_in_tables_too(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("q,t,a,s\nWho?,a cat and a cat,a cat,10\nWhere?,a cat,,\nWhat?,a cat,cat,\n")
    corpus = Csv(csv="q.csv", question="q", text="t", answer="a", start="s")
    questions = list(read_questions(corpus, str(tmp_path)))
    assert [(asked.answers, asked.start, asked.line) for asked in questions] == [
        (("a cat",), 10, 2),
        ((), None, 3),
        (("cat",), 2, 4),
    ]
    (tmp_path / "q.csv").write_text("q,t,a,s\nWho?,a cat,cat,two\n")
    with refuses('...q.csv, line 2: column `s` is "two", but must be a whole ...'):
        list(read_questions(corpus, str(tmp_path)))


def test_a_comma_may_precede_decimals(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("gut;4,5\nnaja;-2,75\nschlecht; 1\n")
    corpus = Csv(csv="a.csv", separator=";", text=1, number=2)
    assert [text.number for text in read_texts(corpus, str(tmp_path))] == [4.5, -2.75, 1.0]


def test_a_field_of_an_inner_object_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": {"text": "x", "b.c": {"d": "l"}}, "e.f": "m"}\n')
    (text,) = read_texts(Jsonl(jsonl="a.jsonl", text="a.text", label="a.b.c.d"), str(tmp_path))
    assert (text.text, text.labels) == ("x", ("l",))
    (text,) = read_texts(Jsonl(jsonl="a.jsonl", text="a.text", label="e.f"), str(tmp_path))
    assert text.labels == ("m",)
    with refuses("...a.jsonl, line 1 has no field `a.txt`. Did you mean `a.text`?"):
        list(read_texts(Jsonl(jsonl="a.jsonl", text="a.txt"), str(tmp_path)))


def test_an_array_of_objects_is_read_with_the_lines_of_its_rows(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[\n  {\n    "text": "x"\n  },\n  {"text": "y"}, {"text": "z"}\n]\n')
    texts = list(read_texts(Jsonl(jsonl="a.json", text="text"), str(tmp_path)))
    assert [(text.text, text.line) for text in texts] == [("x", 2), ("y", 5), ("z", 5)]
    (tmp_path / "a.json").write_text('[{"text": "x"}, {"text": "y"}, {"text": 3}]\n')
    with refuses("...a.json, item 3: field `text` is a number, but must be text."):
        list(read_texts(Jsonl(jsonl="a.json", text="text"), str(tmp_path)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"text": "x"}, 3]', "...a.json: item 2 of the array is a number, but must be an object."),
        ('[{"text": "x"},', "...a.json is not JSON: ..."),
    ],
)
def test_an_array_of_something_else_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with refuses(message):
        list(read_texts(Jsonl(jsonl="a.json", text="text"), str(tmp_path)))
