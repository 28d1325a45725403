"""Reading that begins in the middle of a file gives the lines that reading from its start gives."""

import gzip
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.data.corpora.formats.lines import Passed, read_lines

FORMS = {
    "utf-8": "a\né\n\nlong line\r\nlast".encode(),
    # By chance the third line is UTF-8 as well: the line before it decides for all after it.
    "windows-1252": ("plain\nun été à la plage\nÃ©t\n" + 110 * "de la forêt, déjà vu\n").encode("cp1252"),
    "utf-16": "eins\nzwei\nüber\n".encode("utf-16"),
    "gz": gzip.compress(b"one\ntwo\nthree\nfour\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_lines_that_are_passed_over_change_nothing_in_the_others(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("it.gz" if form == "gz" else "it.txt")
    path.write_bytes(FORMS[form])
    whole = list(read_lines(path))
    assert len(whole) > 2
    for passed in (*range(5), len(whole) - 1, len(whole), len(whole) + 1):
        assert list(read_lines(path, passed=Passed(passed))) == whole[passed:]


@pytest.mark.parametrize("form", FORMS)
def test_lines_can_be_passed_over_while_a_file_is_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("it.gz" if form == "gz" else "it.txt")
    path.write_bytes(FORMS[form])
    whole, passed = list(read_lines(path)), Passed()
    reading = read_lines(path, passed=passed)
    assert next(reading) == whole[0]
    passed.lines = 2
    assert list(reading) == whole[2:]


def test_a_line_that_is_not_text_is_told_wherever_reading_begins(tmp_path: Path) -> None:
    path = tmp_path / "it.txt"
    path.write_bytes("é\n".encode() + b"\xff\xfe\x00\nend\n")
    with refuses(f"{path}, line 2, byte 3: ..."):
        list(read_lines(path, passed=Passed(2)))
