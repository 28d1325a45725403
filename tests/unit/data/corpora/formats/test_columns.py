"""Columns of TSV and CSV files, by number and by name."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.base.errors import UserError
from heedful.config.corpora.containers import Csv, Jsonl, Tsv
from heedful.data.corpora.formats.lines import locate
from heedful.data.corpora.formats.rows import Record, read_records
from heedful.data.corpora.formats.tables import open_table, raw_rows, read_columns
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.texts import Text, read_texts

QUOTED = 'en,de\n"one, two",eins\n\n"say ""no""","zwei\nZeilen"\n'


def pairs(folder: Path, text: str, corpus: type[Csv | Tsv] = Csv, **options: Any) -> list[tuple[str, str]]:
    (folder / "t").write_text(text, encoding="utf-8")
    form = corpus.file_keys[0]
    return list(read_pairs(corpus.model_validate({form: "t", **options}), str(folder)))


def refusal(folder: Path, text: str, corpus: type[Csv | Tsv] = Csv, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        pairs(folder, text, corpus, **options)
    return str(caught.value).removeprefix(f"{folder}/")


def test_csv_has_quotes_and_several_lines_in_a_text(tmp_path: Path) -> None:
    expected = [("one, two", "eins"), ("", ""), ('say "no"', "zwei\nZeilen")]
    assert pairs(tmp_path, QUOTED, source="en", target="de") == expected
    assert pairs(tmp_path, QUOTED, source=2, target="en") == [(de, en) for en, de in expected]
    assert pairs(tmp_path, QUOTED, header=True) == expected
    assert pairs(tmp_path, QUOTED, header=False) == [("en", "de"), *expected]


def test_columns_of_tsv_have_names_too(tmp_path: Path) -> None:
    text = 'id\ten\tde \n7\tone\teins\n\n8\t"two\tzwei\n'
    assert pairs(tmp_path, text, Tsv, source="en", target="de") == [("one", "eins"), ("", ""), ('"two', "zwei")]
    assert pairs(tmp_path, text, Tsv, source=2, target=3, header=True)[0] == ("one", "eins")


def test_other_separators(tmp_path: Path) -> None:
    assert pairs(tmp_path, "one, two;eins\n", separator=";") == [("one, two", "eins")]


def test_lines_count_rows_of_data(tmp_path: Path) -> None:
    assert pairs(tmp_path, QUOTED, source="en", target="de", lines="3-3") == [('say "no"', "zwei\nZeilen")]


def test_texts_with_labels(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('sentiment,review\npos,"fine, really"\nneg,"bad"\n')
    corpus = Csv(csv="t", text="review", label="sentiment")
    assert list(read_texts(corpus, str(tmp_path))) == [
        Text("fine, really", None, ("pos",)),
        Text("bad", None, ("neg",)),
    ]
    assert [text.line for text in read_texts(corpus, str(tmp_path))] == [2, 3]
    (tmp_path / "t").write_text("review\tsecond\ttag\na\tb\tx\n")
    named = Tsv(tsv="t", text="review", second="second", label="tag")
    assert list(read_texts(named, str(tmp_path))) == [Text("a", "b", ("x",))]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (QUOTED, {"source": "eng"}, "t, line 1 has no column `eng`. Did you mean `en`?"),
        ("", {"source": "english"}, "t, line 1 has no column `english`."),
        ("a,b\nc\n", {}, "t, line 2 has 1 column, but `target` is column 2: columns are separated by commas."),
        (
            'a,b\n"c,d\ne,f\n',
            {},
            "t, line 2 is not CSV (unexpected end of data): a text with quotes in it is put into quotes, and each "
            'quote in it is written twice: "".',
        ),
    ],
)
def test_mistakes_name_file_and_line(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    assert refusal(tmp_path, text, **options) == message


cells = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from(['"', ",", "\n"]), max_size=8)


@given(st.lists(st.lists(cells, min_size=2, max_size=2), max_size=5))
def test_what_pythons_csv_module_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(written.getvalue().encode())
    found = [row for _, row in read_columns(Csv(csv=str(path)), "", ("source", "target"))]
    assert found == [row if any(cell.strip() for cell in row) else [] for row in rows]


def test_a_row_has_the_number_of_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(QUOTED)
    assert [number for number, _ in raw_rows(locate(str(tmp_path / "t.csv")), ",", quoted=True)] == [1, 2, 3, 4]


def test_a_record_has_all_columns_of_its_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,review,stars\n7,fine,5\n\n8,bad,1,more\n")
    corpus = Csv(csv="t.csv", text="review", label="stars")
    seven, blank, eight = read_records(corpus, str(tmp_path))
    assert (seven.line, seven.cells, seven.fields) == (2, ("7", "fine", "5"), {})
    assert seven.row is not None
    assert (seven.row.text("text"), seven.row.line) == ("fine", 2)
    assert blank == Record(3, (), {}, None)
    assert eight.cells == ("8", "bad", "1", "more")
    assert open_table(corpus, str(tmp_path)).names == ("id", "review", "stars")
    assert open_table(Csv(csv="t.csv", text=2, label=3, header=False), str(tmp_path)).names == ()
    (tmp_path / "t.jsonl").write_text('{"id": 7, "review": "fine"}\n')
    (only,) = read_records(Jsonl(jsonl="t.jsonl", text="review"), str(tmp_path))
    assert (only.line, only.cells, only.fields) == (1, (), {"id": 7, "review": "fine"})
