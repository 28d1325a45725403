"""Separators and headers that a recipe does not set: taken with a note, or refused with the line to write."""

from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.base.notes import listening
from heedful.config.corpora.containers import Csv, Tsv
from heedful.data.corpora.files import content_key
from heedful.data.corpora.formats.rows import read_records
from heedful.data.corpora.formats.settling import settle

REVIEWS = ["Text;Bewertung;Datum", "Schönes Buch, gern gelesen;5,0;03.01.2024", "Zu lang;2,5;04.01.2024"]
SPAM = [("spam", "Win a prize now, call this number"), ("ham", "See you at home later tonight"), ("spam", "Free entry")]


def rows_of(folder: Path, lines: list[str], **corpus: Any) -> tuple[list[tuple[str, ...]], list[str]]:
    """The rows of a corpus in the file `t`, and the notes about it."""
    (folder / "t").write_text("".join(f"{line}\n" for line in lines))
    container = (Csv if "csv" in corpus else Tsv).model_validate(corpus)
    notes: list[str] = []
    with listening(notes.append):
        rows = [record.cells for record in read_records(container, str(folder))]
    return rows, [note.removeprefix(f"{folder}/") for note in notes]


@pytest.mark.parametrize(("separator", "words"), [(";", "semicolons"), ("|", "bars"), ("\t", "tabs")])
def test_a_separator_is_taken_with_a_note_where_commas_do_not_fit(tmp_path: Path, separator: str, words: str) -> None:
    lines = [line.replace(";", separator) for line in REVIEWS]
    named = {"csv": "t", "text": "Text", "label": "Bewertung"}
    rows, notes = rows_of(tmp_path, lines, **named)
    assert rows == [tuple(line.split(separator)) for line in lines[1:]]
    assert notes == [f"t: columns separated by {words}"]
    rows, notes = rows_of(tmp_path, lines, csv="t", text=1, number=2)
    assert notes == [f"t: columns separated by {words}, header taken from line 1"]
    assert len(rows) == 2
    assert rows_of(tmp_path, lines, **named, separator=separator) == (rows, [])


def test_files_of_commas_stay_files_of_commas(tmp_path: Path) -> None:
    for lines in (["a; b,c", "d; e,f"], ["x;y,z"], ["one, two;three, four"], ['"a;b",c', '"d;e",f']):
        assert rows_of(tmp_path, lines, csv="t")[1] == []
        assert rows_of(tmp_path, lines, csv="t")[0][0] == (*(lines[0].replace('"', "").split(",")),)


def test_the_recipe_decides_where_it_sets_the_key(tmp_path: Path) -> None:
    rows, notes = rows_of(tmp_path, ["a,b;c", "d,e;f"], csv="t", separator=",")
    assert (rows, notes) == ([("a", "b;c"), ("d", "e;f")], [])


@pytest.mark.parametrize(
    ("lines", "corpus", "message"),
    [
        (
            ["Kurz, gut;ja", "Lang, zu lang, und schlecht;nein", "Gut, ja, gern, sehr;ja"],
            {"csv": "t", "text": 1, "label": 2},
            "...t: columns are separated by commas or by semicolons, and its first lines do not tell which: set "
            '`separator = ","` or `separator = ";"`.',
        ),
        (
            ["a;b|c", "d;e|f"],
            {"csv": "t", "text": 1, "label": 2},
            "...t: columns are separated by semicolons or by bars, and its first lines ...",
        ),
        (
            REVIEWS,
            {"csv": "t", "text": "Text", "label": 2, "separator": ","},
            '...t, line 1 has no column `Text`. Its columns seem to be separated by semicolons: set `separator = ";"`.',
        ),
        (
            [line.replace(";", "\t") for line in REVIEWS],
            {"csv": "t", "text": 1, "label": 2, "separator": "|"},
            "...t, line 1 has 1 column, but `label` is column 2: columns are separated by bars. Its columns seem to be "
            'separated by tabs: set `separator = "\\t"`.',
        ),
        (
            REVIEWS,
            {"tsv": "t", "text": "Text", "label": "Bewertung"},
            "...t, line 1 has no column `Text`. Its columns seem to be separated by semicolons: set "
            '`csv = "t"` and `separator = ";"`.',
        ),
        (REVIEWS, {"csv": "t", "text": "Txt", "label": 2}, "...t, line 1 has no column `Txt`. Did you mean `Text`?"),
    ],
)
def test_doubts_and_mistakes_name_the_line_to_write(
    tmp_path: Path, lines: list[str], corpus: dict[str, Any], message: str
) -> None:
    with refuses(message):
        rows_of(tmp_path, lines, **corpus)


@pytest.mark.parametrize(
    ("lines", "corpus"),
    [
        (["text\tstars", "fine\t5", "bad\t1.5"], {"tsv": "t", "text": 1, "number": 2}),
        (["Eindruck\tSterne", "fein\t5", "schlecht\t1"], {"tsv": "t", "text": 1, "number": 2}),
        (["file,kind", "a.png,cat", "b.jpg,dog"], {"csv": "t", "image": 1, "label": 2}),
        (["id\tenglisch\tdeutsch", "1\tone\teins", "2\ttwo\tzwei"], {"tsv": "t", "source": 2, "target": 3}),
        (["en\tde", "one\teins"], {"tsv": "t"}),
        (["source,target", "one,eins"], {"csv": "t"}),
        (["review,sentiment", "fine,pos"], {"csv": "t", "text": 1, "label": 2}),
        (
            ["Satz,sentiment", *(f"a long text number {n},{'pn'[n % 2]}" for n in range(9))],
            {"csv": "t", "text": 1, "label": 2},
        ),
    ],
)
def test_a_header_is_taken_with_a_note(tmp_path: Path, lines: list[str], corpus: dict[str, Any]) -> None:
    rows, notes = rows_of(tmp_path, lines, **corpus)
    assert (len(rows), notes) == (len(lines) - 1, ["t: header taken from line 1"])
    assert rows_of(tmp_path, lines, **corpus, header=False)[1] == []


@pytest.mark.parametrize(
    ("lines", "corpus"),
    [
        (["yes\tthe dog runs", "no\tthe cat runs", "yes\tgo"], {"tsv": "t", "label": 1, "text": 2}),
        ([f"{label}\t{text}" for label, text in SPAM * 4], {"tsv": "t", "label": 1, "text": 2}),
        (["comment\tKommentar", "title\tTitel"], {"tsv": "t"}),
        (["a\tAH", "a\tEY", "image\tIH M IH JH"], {"tsv": "t"}),
        (["5\tfine", "1\tbad"], {"tsv": "t", "number": 1, "text": 2}),
        (["n/a\tA first text here.", "1\tbad", "2\tgood"], {"tsv": "t", "text": 2, "label": 1}),
        (["text,text", "a,b"], {"csv": "t"}),
        (["text"], {"csv": "t", "text": 1}),
        (["Anna\tf", *(f"name{n}\t{'mn'[n % 2]}" for n in range(9))], {"tsv": "t", "text": 1, "label": 2}),
        ([], {"csv": "t", "text": 1}),
        (["", "a\tb"], {"tsv": "t"}),
    ],
)
def test_a_first_line_that_may_be_a_row_is_one(tmp_path: Path, lines: list[str], corpus: dict[str, Any]) -> None:
    rows, notes = rows_of(tmp_path, lines, **corpus)
    assert (len(rows), notes) == (len(lines), [])


def test_a_header_in_doubt_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    lines = ["Wortlaut\tArt", *(f"a rather long text number {n}\t{'pn'[n % 2]}" for n in range(9))]
    with refuses(
        "...t, line 1 (`Wortlaut`, `Art`) may have the names of columns, or be the first row: set `header = true` or "
        "`header = false`."
    ):
        rows_of(tmp_path, lines, tsv="t", text=1, label=2)
    assert len(rows_of(tmp_path, lines, tsv="t", text=1, label=2, header=True)[0]) == 9


def test_what_is_taken_is_in_cache_keys_as_if_it_were_set(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("\n".join(REVIEWS))
    taken = Csv(csv="t", text=1, number=2)
    written = Csv(csv="t", text=1, number=2, separator=";", header=True)
    assert content_key(taken, str(tmp_path)) == content_key(written, str(tmp_path))
    assert settle(taken, str(tmp_path)) == written
    assert settle(written, str(tmp_path)) is written
