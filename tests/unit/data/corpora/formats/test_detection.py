"""What a file is, told from its name and its first rows."""

import gzip
import zipfile
from pathlib import Path

import pytest
from tests.shared.people_files import PEOPLE_FILES, PeopleFile
from tests.shared.refusals import Refusal, each, refuses

from heedful.data.corpora.formats.column_kinds import describe_columns, detect_header, detect_separator
from heedful.data.corpora.formats.column_names import meanings
from heedful.data.corpora.formats.detection import Detected, detect, looks_like


@pytest.mark.parametrize("kind", PEOPLE_FILES, ids=str)
def test_files_of_people_are_recognised(kind: PeopleFile, tmp_path: Path) -> None:
    found = detect(kind.make(tmp_path)[0])
    assert found.container == kind.container
    assert found.certainty != "in doubt"


def seen(folder: Path, text: str | bytes, name: str = "file.txt") -> Detected:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return detect(name, str(folder))


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["a,b", "c,d"], ","),
        (["Text;Note", "Gut, aber teuer;1,5", "Schlecht;2,0"], ";"),
        (["1,5;2,5", "2,5;3,0", "3,5;4,0"], ";"),
        (["a\tb, c", "d\te, f"], "\t"),
        (['a|"b|c"', "d|e"], "|"),
        (['"a', 'b",c', '"d', 'e",f'], ","),
        (["x;y,z", "u;v,w"], None),
        (["no separator", "anywhere"], None),
        ([], None),
    ],
)
def test_separators(lines: list[str], separator: str | None) -> None:
    assert detect_separator(lines) == separator


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([["x", "y"], ["1", "2"]], True),
        ([["3", "y"], ["1", "2"]], None),
        ([["text", "label"], ["fine", "pos"]], True),
        ([["评论", "标签"], ["很好", "好评"]], True),
        ([["pos", "It was fine."], ["neg", "It was not."], ["pos", "It was."], ["neg", "No."]], False),
        ([["English", "Deutsch"], *([f"a dog runs {n}", f"ein Hund läuft {n}"] for n in range(9))], True),
        ([["a", "a"], ["b", "c"]], False),
        ([["photo", "kind"], ["1.png", "cat"]], True),
        ([["1.png", "cat"], ["2.png", "dog"]], False),
        ([["when", "x"], ["2026-01-02", "y"]], True),
        ([["dog", "Hund"], ["cat", "Katze"]], None),
        ([["text", "label"]], True),
        ([["dog", "Hund"]], None),
        ([["", ""]], None),
        ([], None),
    ],
)
def test_headers(rows: list[list[str]], header: bool | None) -> None:
    assert detect_header(rows) is header


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("text", ["It was fine.", "It was not."], "text"),
        ("x", ["a", "b"] * 6, "label"),
        ("label", ["0", "1", "2", "1"], "label"),
        ("x", ["0", "1", "2"] * 9, "label"),
        ("rating", ["1", "5", "3"] * 9, "number"),
        ("x", ["1.5", "2.25", "-3e2"], "number"),
        ("x", ["1,5", "2,25", "3,0"], "number"),
        ("x", ["17", "18", "19", "20"], "id"),
        ("x", ["a-17", "b-18", "c-19"], "id"),
        ("x", ["2026-01-02", "2025-11-30"], "date"),
        ("x", ["red, round", "red", "round, small", "small"] * 5, "labels"),
        ("x", ["", " "], "empty"),
        ("x", ["a.png", "b.JPG"], "image"),
        ("x", [["a", "b"], ["b", "a"], ["a"]], "labels"),
        ("x", [{"a": 1}], "other"),
        ("x", [[1, 2]], "other"),
        ("x", [True, False, True, True], "label"),
    ],
)
def test_kinds_of_columns(name: str, values: list[object], kind: str) -> None:
    (column,) = describe_columns([name], [[value] for value in values], Path())
    assert column.kind == kind, column.evidence


def test_images_are_looked_for_next_to_the_table(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    (column,) = describe_columns(["x"], [["a.png"], ["b.png"]], tmp_path)
    assert (column.missing, column.evidence) == (1, "names of images, 1 of the first 2 found")


def test_one_label_per_word_is_found_in_tables(tmp_path: Path) -> None:
    rows = [[f"Anna saw {n} dogs", "B-PER O O O"] for n in range(9)]
    text, tags = describe_columns(["text", "tags"], rows, tmp_path)
    assert (text.kind, tags.kind) == ("text", "tags")
    assert tags.evidence == "one of 2 labels for each word: B-PER, O"


def test_whole_words_of_a_name_count() -> None:
    assert meanings("reviewText") == meanings("review_text") == {"text"}
    assert meanings("context") == {"context"}
    assert meanings(3) == meanings("xyz") == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "A sentence, with a comma.\nAnother one, with a comma.\nA third one, again.\n",
        "(As he said) nothing.\nMore text.\n",
        "{curly} text\n",
        "[Exit, pursued by a bear]\n",
        "one line",
        "a b\n\nc d\n\n",
        "( not a tree )\n",
        "<p>a page</p>\n",
    ],
)
def test_plain_text_is_not_taken_for_a_table(text: str, tmp_path: Path) -> None:
    assert seen(tmp_path, text).container == "text"
    assert looks_like("file.txt", str(tmp_path)) is None


def test_what_a_file_looks_like_in_words(tmp_path: Path) -> None:
    assert seen(tmp_path, "Text;Note\nGut, sehr;1\nTeuer;2\n", "a.csv").separator == ";"
    assert looks_like("a.csv", str(tmp_path)) == "a table with the columns `Text`, `Note`"
    seen(tmp_path, '{"a": "x"}\n{"a": "y"}\n')
    assert looks_like("file.txt", str(tmp_path)) == "JSON lines with the fields `a`"
    seen(tmp_path, "EU B-ORG\nsays O\nno O\n\nAnna B-PER\nsays O\nyes O\n")
    assert looks_like("file.txt", str(tmp_path)) == "words in columns as CoNLL has them: 2 columns"
    assert looks_like("missing.txt", str(tmp_path)) is None


def test_packed_files_and_members_are_read(tmp_path: Path) -> None:
    text = b"text,label\nfine,pos\nbad,neg\n"
    assert seen(tmp_path, gzip.compress(text), "a.csv.gz").header
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a/b.csv", text)
        archive.writestr("c.txt", "x")
    assert detect("a.zip:a/b.csv", str(tmp_path)).header


def test_only_the_start_of_a_large_file_is_read(tmp_path: Path) -> None:
    rows = "".join(f'"{n} {"é" * 99}\n in two lines",x\n' for n in range(9000))
    found = seen(tmp_path, "text,label\n" + rows, "large.csv")
    assert (found.more, found.certainty, found.encoding) == (True, "sure", "UTF-8")
    assert 1000 < found.rows < 3000


def test_a_file_with_more_rows_than_are_looked_at_says_so(tmp_path: Path) -> None:
    for count, more in ((2000, False), (2001, True)):
        found = seen(tmp_path, "".join(f"a text, {n}\t{n % 3}\n" for n in range(count)).encode(), "a.tsv")
        assert (found.rows, found.more) == (2000, more)


def test_an_empty_file_and_one_row(tmp_path: Path) -> None:
    assert seen(tmp_path, " \n\n").container == "empty"
    assert seen(tmp_path, "\ufefftext,label\r\n", "a.csv").header is True
    assert seen(tmp_path, "one,two", "a.csv").certainty == "in doubt"


def test_an_idx_file_that_is_cut_off_in_its_header_is_not_one(tmp_path: Path) -> None:
    assert seen(tmp_path, b"\0\0\x08\x01\0\0\0\x02ab", "a-idx").words == "an idx file of 2 labels"
    with refuses("...a-idx: 4 of the first 6 bytes are zero, so ..."):
        seen(tmp_path, b"\0\0\x08\x03\0\0", "a-idx")


def test_arrays_that_cannot_be_unpacked_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }")
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[40:50] = b"\xff" * 10
    (tmp_path / "a.npz").write_bytes(data)
    with refuses("...a.npz is not a file of NumPy's arrays (.npz)..."):
        detect(tmp_path / "a.npz")


def test_folders_without_classes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    assert detect(tmp_path).words == "a folder with 1 file"
    (tmp_path / "a.png").write_bytes(b"")
    assert (detect(tmp_path).container, detect(tmp_path).words) == ("folder", "a folder with 1 image")
    assert detect(tmp_path / "a.png").container == "image"


@each(
    [
        Refusal(
            "Python objects",
            lambda folder: seen(folder, b"x", "a.pkl"),
            "...a.pkl is a file of Python objects, which could run code, which Heedful does not read: save its texts "
            "as CSV or JSON lines.",
        ),
        Refusal("document", lambda folder: seen(folder, b"%PDF-1.4 x", "a.txt"), "...a.txt: this is a PDF, but ..."),
        Refusal(
            "bytes",
            lambda folder: seen(folder, b"ab\0cdefgh\x90"),
            "...file.txt is not text: it has bytes that are zero.",
        ),
        Refusal(
            "unknown encoding",
            lambda folder: seen(folder, b"\x81\x8d\x8f"),
            "...file.txt is not UTF-8. Convert the text with ...",
        ),
        Refusal(
            "not arrays",
            lambda folder: seen(folder, b"x", "a.npz"),
            "...a.npz is not a file of NumPy's arrays (.npz): save it with `numpy.savez`.",
        ),
    ]
)
def test_files_that_cannot_be_read_are_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
