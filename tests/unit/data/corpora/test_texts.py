"""Texts, pairs of texts and labels as files have them, and which of them are used."""

import gzip
import json
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import like, refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles, AnyCorpus, Jsonl, PlainText, Tsv
from heedful.data.corpora.files import check_files, content_key
from heedful.data.corpora.formats.lines import read_lines
from heedful.data.corpora.texts import Text, read_texts
from heedful.data.text_form import TextForm

IMDB = Path(__file__).parents[5] / "shared" / "data" / "imdb" / "train.tsv.gz"


def tsv(folder: Path, *lines: str, **options: Any) -> Tsv:
    (folder / "t.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Tsv.model_validate({"tsv": "t.tsv", "text": 2, "label": 1, **options})


def jsonl(folder: Path, *rows: Any, **options: Any) -> Jsonl:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "t.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Jsonl.model_validate({"jsonl": "t.jsonl", "text": "text", "label": "label", **options})


def texts(corpus: AnyCorpus, folder: Path, several: bool = False) -> list[Text]:
    return list(read_texts(corpus, str(folder), several=several))


def refusal(corpus: AnyCorpus, folder: Path, several: bool = False) -> str:
    with pytest.raises(UserError) as caught:
        texts(corpus, folder, several)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


# --- tables -----------------------------------------------------------------------------------------------------------


def test_columns_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(b"pos\t9\tgood film\t-\n\nneg\t1\tbad \tfilm\n"))
    corpus = Tsv(tsv="t.tsv.gz", text=3, label=1)
    assert texts(corpus, tmp_path) == [Text("good film", None, ("pos",)), Text(""), Text("bad ", None, ("neg",))]
    paired = Tsv(tsv="t.tsv.gz", text=4, second=3, label=2)
    assert texts(paired, tmp_path) == [Text("-", "good film", ("9",)), Text(""), Text("film", "bad ", ("1",))]
    assert texts(Tsv(tsv="t.tsv.gz", text=2), tmp_path) == [Text("9"), Text(""), Text("1")]


def test_a_line_of_white_space_is_blank(tmp_path: Path) -> None:
    assert texts(tsv(tmp_path, "a\tx", "  ", "\t", "b\ty"), tmp_path)[1:3] == [Text(""), Text("")]


def test_labels_lose_the_white_space_around_them(tmp_path: Path) -> None:
    assert texts(tsv(tmp_path, " very good \tx"), tmp_path)[0].labels == ("very good",)


def test_several_labels_stand_between_commas_each_once_or_none_at_all(tmp_path: Path) -> None:
    corpus = tsv(tmp_path, "b, a,b\tx", "\ty", ",\tz", "c\tw")
    assert [text.labels for text in texts(corpus, tmp_path, several=True)] == [("b", "a"), (), (), ("c",)]


def test_one_label_may_have_commas_in_it(tmp_path: Path) -> None:
    assert texts(tsv(tmp_path, "b, a\tx"), tmp_path)[0].labels == ("b, a",)


def test_a_row_without_its_label_is_refused(tmp_path: Path) -> None:
    assert refusal(tsv(tmp_path, "a\tx", " \ty"), tmp_path) == ("t.tsv, line 2 has no label: every text needs one.")


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        ({"text": 4, "label": 1}, "text"),
        ({"text": 1, "label": 4}, "label"),
        ({"text": 1, "second": 4, "label": 2}, "second"),
    ],
)
def test_a_row_with_too_few_columns_is_refused(tmp_path: Path, columns: dict[str, int], asked: str) -> None:
    assert refusal(tsv(tmp_path, "a\tb\tc\td", "", "a\tb", **columns), tmp_path) == (
        f"t.tsv, line 3 has 2 columns, but `{asked}` is column 4: columns are separated by tabs."
    )


# --- JSON lines -------------------------------------------------------------------------------------------------------


def test_fields_of_json_lines(tmp_path: Path) -> None:
    corpus = jsonl(tmp_path, {"a": "one\ttwo", "b": "drei", "c": "x"}, "", "  ", {"b": "B", "a": "A", "c": "y"})
    paired = corpus.model_copy(update={"text": "a", "second": "b", "label": "c"})
    assert texts(paired, tmp_path) == [Text("one\ttwo", "drei", ("x",)), Text(""), Text(""), Text("A", "B", ("y",))]
    alone = corpus.model_copy(update={"text": "b", "label": None})
    assert texts(alone, tmp_path) == [Text("drei"), Text(""), Text(""), Text("B")]


LABELS = [  # as JSON has them, and as they are called where a text has one or several
    ("pos", ("pos",), ("pos",)),
    (" pos ", ("pos",), ("pos",)),
    ("a, b", ("a, b",), ("a, b",)),
    (3, ("3",), ("3",)),
    (-1, ("-1",), ("-1",)),
    (True, ("true",), ("true",)),
    (False, ("false",), ("false",)),
    ("", None, ()),
    (["a", 2, True, "a"], None, ("a", "2", "true")),
    ([" a ", "", "b, c"], None, ("a", "b, c")),
    ([], None, ()),
]


@pytest.mark.parametrize(("value", "one", "several"), LABELS)
def test_a_label_is_text_or_a_whole_number_or_true_or_false(
    tmp_path: Path, value: object, one: tuple[str, ...] | None, several: tuple[str, ...]
) -> None:
    corpus = jsonl(tmp_path, {"text": "x", "label": value})
    assert texts(corpus, tmp_path, several=True)[0].labels == several
    if one is not None:
        assert texts(corpus, tmp_path)[0].labels == one


@pytest.mark.parametrize(
    ("row", "several", "message"),
    [
        ({"text": "x", "label": None}, False, ": field `label` is null, but a label is text or a whole number."),
        ({"text": "x", "label": 0.5}, True, ": field `label` is a number, but a label is text or a ..."),
        ({"text": "x", "label": {}}, False, ": field `label` is an object, but a label is text or ..."),
        (
            {"text": "x", "label": ["a"]},
            False,
            ": field `label` is a list, but a label is text or a whole number: for lists set "
            '`model.labels = "several"`.',
        ),
        (
            {"text": "x", "label": ["a", ["b"]]},
            True,
            ": field `label[1]` is a list, but a label ...",
        ),
        ({"text": "x", "label": ""}, False, " has no label: every text needs one."),
        ({"text": "x", "labels": "a"}, False, " has no field `label`. Did you mean `labels`?"),
        ({"texts": "x", "label": "a"}, False, " has no field `text`. Did you mean `texts`?"),
        ({"text": 3, "label": "a"}, False, ": field `text` is a number, but must be text."),
        (
            {"text": "x", "label": "\ud83d"},
            False,
            ": field `label` holds half of a ...",
        ),
        (
            {"text": "x", "label": ["\ud83d"]},
            True,
            ": field `label[0]` holds half of a ...",
        ),
        (
            {"text": "\ud83d", "label": "a"},
            False,
            ": field `text` holds half of a ...",
        ),
        ("[1, 2]", False, " is a list, but must be an object with fields."),
        ('"text"', False, " is text, but must be an object with fields."),
        ("true", False, " is true or false, but must be an object with fields."),
        ("null", False, " is null, but must be an object with fields."),
    ],
)
def test_a_row_that_is_wrong_is_refused_with_its_line(tmp_path: Path, row: object, several: bool, message: str) -> None:
    corpus = jsonl(tmp_path, {"text": "fine", "label": "a"}, row)
    assert refusal(corpus, tmp_path, several) == like(f"t.jsonl, line 2{message}")


def test_a_line_that_is_no_json_is_refused(tmp_path: Path) -> None:
    assert refusal(jsonl(tmp_path, '{"text": '), tmp_path).startswith("t.jsonl, line 1 is not JSON: ")


def test_corpora_without_rows_of_texts_are_a_mistake_of_the_program() -> None:
    with refuses("a.txt has running text, not texts", TypeError):
        read_texts(PlainText(text="a.txt"))
    with refuses("a + b has pairs, not texts", TypeError):
        read_texts(AlignedFiles(source="a", target="b"))


# --- form and blanks --------------------------------------------------------------------------------------------------


def test_texts_are_brought_into_the_form_of_the_recipe_and_labels_are_not(tmp_path: Path) -> None:
    corpus = tsv(tmp_path, "POS\tGOOD cafe\u0301\tB", second=3)
    (text,) = read_texts(corpus, str(tmp_path), TextForm(nfc=True, lowercase=True))
    assert text == Text("good caf\u00e9", "b", ("POS",))


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        (Text(""), True),
        (Text(" \t"), True),
        (Text("a"), False),
        (Text("a", " "), True),
        (Text(" ", "b"), True),
        (Text("a", "b"), False),
    ],
)
def test_a_pair_is_blank_where_one_of_its_texts_is(text: Text, blank: bool) -> None:
    assert text.blank == blank


# --- which texts are used ---------------------------------------------------------------------------------------------


def part_of(text: str, count: int) -> int:
    """By the definition, without the program: sha256 of the text as a number, modulo the count."""
    return int(sha256(text.encode()).hexdigest(), 16) % count


def test_parts_are_by_the_hash_of_the_text_alone_disjoint_and_complete(tmp_path: Path) -> None:
    said = [f"Text {number} with ä" for number in range(300)]
    corpus = tsv(tmp_path, *(f"{number % 3}\t{text}" for number, text in enumerate(said)))
    valid = texts(corpus.model_copy(update={"part": "0/10"}), tmp_path)
    train = texts(corpus.model_copy(update={"part": "1-9/10"}), tmp_path)
    assert [text.text for text in valid] == [text for text in said if part_of(text, 10) == 0]
    assert [text.text for text in train] == [text for text in said if part_of(text, 10) != 0]
    assert 10 < len(valid) < 60
    assert all(text.labels == (str(said.index(text.text) % 3),) for text in (*valid, *train))


def test_the_part_of_a_text_is_that_of_its_letters_as_they_stand_in_the_file(tmp_path: Path) -> None:
    corpus = tsv(tmp_path, *(f"a\tTEXT {number}" for number in range(50)), part="0/2")
    formed = list(read_texts(corpus, str(tmp_path), TextForm(lowercase=True)))
    assert [text.text for text in formed] == [text.text.lower() for text in texts(corpus, tmp_path)]


def test_a_pair_goes_to_a_part_by_both_of_its_texts(tmp_path: Path) -> None:
    rows = [{"text": f"{number}", "second": f"same {number % 2}", "label": "a"} for number in range(80)]
    corpus = jsonl(tmp_path, *rows, second="second", part="1/3")
    expected = [row["text"] for row in rows if part_of(f"{row['text']}\t{row['second']}", 3) == 1]
    assert [text.text for text in texts(corpus, tmp_path)] == expected


def test_lines_are_counted_before_a_part_is_chosen(tmp_path: Path) -> None:
    corpus = tsv(tmp_path, *(f"a\t{number}" for number in range(100)), lines="11-60", part="0/4")
    assert [text.text for text in texts(corpus, tmp_path)] == [str(n) for n in range(10, 60) if part_of(str(n), 4) == 0]


def test_lines_that_are_not_there_are_refused(tmp_path: Path) -> None:
    assert refusal(tsv(tmp_path, "a\tx", "a\ty", "a\tz", lines="1-4"), tmp_path) == (
        't.tsv has 3 lines, but `lines` is "1-4": lower its end.'
    )


@pytest.mark.skipif(not IMDB.exists(), reason="needs shared/data/imdb beside the project")
def test_validation_of_film_reviews_is_the_first_part_of_ten() -> None:
    """The protocol of recorded results: training reviews whose sha256 of the text is 0 mod 10."""
    corpus = Tsv(tsv=str(IMDB), text=3, label=1, lines="12001-13000")
    rows = [line.split("\t") for line in islice(read_lines(IMDB), 12000, 13000)]
    valid, train = ([*read_texts(corpus.model_copy(update={"part": part}))] for part in ("0/10", "1-9/10"))
    assert [(text.text, *text.labels) for text in valid] == [
        (row[2], row[0]) for row in rows if not part_of(row[2], 10)
    ]
    assert [(text.text, *text.labels) for text in train] == [(row[2], row[0]) for row in rows if part_of(row[2], 10)]
    assert {label for text in valid for label in text.labels} == {"0", "1"}


# --- what decides the content -----------------------------------------------------------------------------------------


def test_a_corpus_is_called_by_its_file_unless_it_has_a_name() -> None:
    corpora = (Tsv(tsv="a.tsv", text=1), Jsonl(jsonl="b.jsonl", text="t"), PlainText(text="c.txt"))
    assert [corpus.title for corpus in corpora] == ["a.tsv", "b.jsonl", "c.txt"]
    assert Tsv(tsv="a.tsv", text=1, name="reviews").title == "reviews"


def test_the_content_of_a_corpus_is_that_of_its_file_and_of_the_options_that_read_it(tmp_path: Path) -> None:
    corpus = tsv(tmp_path, "a\tx")
    key = content_key(corpus, str(tmp_path))
    assert content_key(corpus.model_copy(update={"name": "n", "weight": 2.0}), str(tmp_path)) == key
    (tmp_path / "again.tsv").write_bytes((tmp_path / "t.tsv").read_bytes())
    assert content_key(corpus.model_copy(update={"tsv": "again.tsv"}), str(tmp_path)) == key
    for option in ({"part": "0/2"}, {"sample": 1}, {"label": None}, {"text": 1}, {"lines": "1-1"}):
        assert content_key(corpus.model_copy(update=option), str(tmp_path)) != key, option
    (tmp_path / "t.tsv").write_text("a\ty\n")
    assert content_key(corpus, str(tmp_path)) != key


def test_a_missing_file_is_refused_before_anything_long_begins(tmp_path: Path) -> None:
    for corpus in (Tsv(tsv="no", text=1), Jsonl(jsonl="no", text="t"), PlainText(text="no")):
        with refuses(".../no: no such file..."):
            check_files(corpus, str(tmp_path))


def test_a_sample_is_of_texts_that_are_not_blank(tmp_path: Path) -> None:
    rows = [row for number in range(20) for row in (f"a\ttext {number}", "", "b\t  ")]
    assert {text.text for text in texts(tsv(tmp_path, *rows, sample=20), tmp_path)} == {f"text {n}" for n in range(20)}
    assert refusal(tsv(tmp_path, *rows, sample=21), tmp_path) == ("t.tsv has 20 texts, but `sample` is 21: lower it.")


def test_a_first_row_is_a_row_with_and_without_its_label(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"{'xy'[number % 2]}\ttext {number}\n" for number in range(20)))
    corpus = Tsv(tsv="a.tsv", label=1, text=2)
    for labelled in (True, False):
        assert len([*read_texts(corpus, str(tmp_path), labelled=labelled)]) == 20
