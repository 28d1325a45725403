import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import MachineError, UserError
from heedful.data.corpora.formats import lines
from heedful.data.corpora.formats.lines import TextFile, check_exists, decode_lines, locate, read_lines, read_whole


def decoded(data: bytes) -> list[str]:
    return list(decode_lines(io.BytesIO(data), "some.txt"))


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    assert decoded(f"a{separator}b\nc".encode()) == [f"a{separator}b", "c"]


def test_line_ends_and_byte_order_mark_are_no_text() -> None:
    assert decoded(b"\xef\xbb\xbfone\r\ntwo\n\nfour") == ["one", "two", "", "four"]


def test_a_byte_order_mark_later_on_is_text() -> None:
    assert decoded("a\n\ufeffb".encode()) == ["a", "\ufeffb"]


def test_nothing_has_no_lines() -> None:
    assert decoded(b"") == []


def test_lines_come_as_soon_as_they_are_there() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb", buffering=0) as sink:
        lines = decode_lines(stream, "standard input")
        sink.write(b"first\n")
        assert next(lines) == "first"
        sink.write(b"second\n")
        assert next(lines) == "second"


@pytest.mark.parametrize("suffix", ["", ".txt", ".gz", ".GZ", ".xz", ".zip"])
def test_every_form_of_file_reads_the_same(tmp_path: Path, suffix: str) -> None:
    text = "eins\nzwei\u2028drei\n"
    path = tmp_path / f"text{suffix}"
    match suffix.lower():
        case ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        case ".xz":
            path.write_bytes(lzma.compress(text.encode()))
        case ".zip":
            zipped(path, only=text)
        case _:
            path.write_text(text, encoding="utf-8")
    assert list(read_lines(path)) == ["eins", "zwei\u2028drei"]


def test_members_without_names_and_folders_are_no_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        for member in ("en", "folder/", ""):
            archive.writestr(zipfile.ZipInfo(member), "one\n" if member == "en" else "")
    assert list(read_lines(tmp_path / "odd.zip")) == ["one"]


@pytest.mark.parametrize("text", ["", "one", "one\n", "one\ntwo", "\n\n", "a\r\nb\r\n\r\n", "x" * 100_000 + "\ny"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_are_counted_as_they_are_read(tmp_path: Path, text: str, suffix: str) -> None:
    data = text.encode()
    (tmp_path / f"some{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    file = locate(str(tmp_path / f"some{suffix}"))
    assert lines.count_lines(file) == len(list(read_lines(file)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_lines_in_a_wide_encoding_are_counted_as_they_are_read(tmp_path: Path, encoding: str) -> None:
    """U+0A05 and U+010A have a byte of a line break, which is none there."""
    (tmp_path / "some").write_bytes("a line of words\nਅĊ and two\nthree".encode(encoding))
    file = locate(str(tmp_path / "some"))
    assert lines.count_lines(file) == len(list(read_lines(file))) == 3


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "an image (PNG), but must be text."),
        (b"\xff\xd8\xff\xe0\x00\x00", "an image (JPEG), but must be text."),
        (b"%PDF-1.7\n", "a PDF, but must be text: save its text as a plain text file."),
        (
            b"PAR1\x15\x04",
            'a Parquet file, but must be text: write it as JSON lines, as `pandas.read_parquet("FILE").to_json(...)` '
            "does.".replace("FILE", "file"),
        ),
        (b"{\\rtf1", "an RTF document, but must be text: save it as plain text (.txt, UTF-8)."),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            "a document of an old version of Office, but must be text: save it as CSV (UTF-8), or as plain text.",
        ),
        (b"SQLite format 3\x00", "an SQLite database, but must be text: export the table as CSV."),
    ],
)
def test_what_is_not_text_is_named(raw: bytes, kind: str) -> None:
    with refuses(f"a/file: this is {kind}"):
        list(decode_lines([raw], "a/file"))


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        ("xl/workbook.xml", "an Excel workbook, but must be text: save the sheet as CSV (UTF-8)."),
        ("word/document.xml", "a Word document, but must be text: save it as plain text (.txt, UTF-8)."),
        ("ppt/slides", "a PowerPoint presentation, but must be text: save its text as a plain text file."),
        ("content.xml", "an OpenDocument file, but must be text: save it as CSV (UTF-8), or as plain text."),
    ],
)
def test_a_document_of_office_is_named(tmp_path: Path, member: str, kind: str) -> None:
    path = zipped(tmp_path / "file.any", **{"[Content_Types].xml": "", member: ""})
    with refuses(f"{path}: this is {kind}"):
        list(read_lines(path))


def test_a_member_of_an_archive(tmp_path: Path) -> None:
    path = zipped(tmp_path / "two.zip", en="one\n", de="eins\n")
    assert list(read_lines(f"{path}:de")) == ["eins"]


def test_a_wrong_member_lists_the_members(tmp_path: Path) -> None:
    path = zipped(tmp_path / "two.zip", en="one\n", de="eins\n")
    with refuses("...two.zip has no member `fr`. Its members: en, de."):
        list(read_lines(f"{path}:fr"))


def test_an_archive_of_several_files_needs_a_member(tmp_path: Path) -> None:
    path = zipped(tmp_path / "two.zip", en="one\n", de="eins\n")
    with refuses("...has 2 members: name one, as in `two.zip:en`. Its members: en, de."):
        list(read_lines(path))


def test_a_long_list_of_members_is_cut(tmp_path: Path) -> None:
    path = zipped(tmp_path / "many.zip", **{f"m{i}": "" for i in range(12)})
    with refuses("...m8, m9, …."):
        list(read_lines(path))


def test_an_empty_archive(tmp_path: Path) -> None:
    path = zipped(tmp_path / "none.zip")
    with refuses("...none.zip is an empty archive."):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("folder", "hint"),
    [
        ("", " (looked up from {cwd}; `data.folder` is empty: set it to the folder of the files)"),
        ("corpora", " (looked up from {cwd}; `data.folder` is `corpora`)"),
        ("/corpora", " (`data.folder` is `/corpora`)"),
    ],
)
def test_a_missing_file_shows_where_it_was_looked_up(folder: str, hint: str) -> None:
    path = Path(folder) / "train.en"
    with refuses(f"{path}: no such file{hint.format(cwd=Path.cwd())}."):
        list(read_lines(locate("train.en", folder)))


def test_a_missing_absolute_path_needs_no_hint(tmp_path: Path) -> None:
    with refuses("...nowhere/x.gz: no such file."):
        list(read_lines(tmp_path / "nowhere" / "x.gz"))


def test_a_file_is_no_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refuses("...file/x: no such file."):
        list(read_lines(tmp_path / "file" / "x"))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with refuses("... is a folder, but must be a file."):
        list(read_lines(tmp_path))


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "secret").touch()
    monkeypatch.setattr(Path, "open", refuse)
    with refuses("...secret: no permission: choose another folder or change the permissions.", MachineError):
        list(read_lines(tmp_path / "secret"))


def test_a_folder_goes_before_relative_names_only() -> None:
    assert locate("a.zip:b/c.txt", "data").name == "data/a.zip:b/c.txt"
    assert locate("/x/a.gz", "data").path == Path("/x/a.gz")
    assert locate("~/a.gz", "data").path == Path.home() / "a.gz"


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zip"])
@pytest.mark.parametrize("fault", ["truncated", "garbled"])
def test_a_damaged_archive_is_one_line(tmp_path: Path, suffix: str, fault: str) -> None:
    text = "".join(f"{i} {i * i} {i**3}\n" for i in range(20_000))
    path = tmp_path / f"text{suffix}"
    match suffix:
        case ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        case ".xz":
            path.write_bytes(lzma.compress(text.encode()))
        case _:
            zipped(path, only=text)
    whole = path.read_bytes()
    match fault:
        case "truncated":
            path.write_bytes(whole[: len(whole) // 2])
        case _:
            middle = len(whole) // 2
            path.write_bytes(
                whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 64]) + whole[middle + 64 :]
            )
    with refuses(f"...text{suffix} cannot be unpacked (...): download or copy it again."):
        list(read_lines(path))


def test_a_disk_that_fails_while_reading_is_the_machines_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    (tmp_path / "text").touch()
    monkeypatch.setattr(Path, "open", lambda *_: Failing())
    with refuses("...text: the disk reported an input/output error.", MachineError):
        list(read_lines(tmp_path / "text"))


# --- names that say something else than the content -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.gz", b"plain text", "is not packed, but its name ends in .gz: rename it."),
        ("a.XZ", b"plain text", "is not packed, but its name ends in .XZ: rename it."),
        ("a.zip", b"plain text", "is not packed, but its name ends in .zip: rename it."),
        ("a.gz", lzma.compress(b"text"), "is packed as .xz, but its name ends in .gz: rename it."),
        (
            "a.txt",
            gzip.compress(b"text", mtime=0),
            "is packed (.gz), but its name does not say so: rename it to end in .gz.",
        ),
        ("a", lzma.compress(b"text"), "is packed (.xz), but its name does not say so: rename it to end in .xz."),
        ("a.bz2", bz2.compress(b"text"), "is packed (.bz2), but its name does not say so: unpack it first."),
    ],
)
def test_a_name_that_belies_the_content_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with refuses(f"{tmp_path}/{name} {message}"):
        list(read_lines(tmp_path / name))


# --- what is not a regular file ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [check_exists, lambda file: list(read_lines(file))])
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_is_refused(device: str, read: Callable[[TextFile], object]) -> None:
    for stream in (False, True):
        with refuses(f"{device}: this is a device, but must be a file."):
            read(TextFile(Path(device), stream=stream))


def test_a_pipe_is_refused_where_a_file_is_read_more_than_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with refuses(f"{tmp_path}/pipe: this is a pipe or a terminal, but must be a file, as it is read more than once."):
        check_exists(locate(str(tmp_path / "pipe")))
    check_exists(TextFile(tmp_path / "pipe", stream=True))  # and does not wait for a writer


@pytest.mark.parametrize("suffix", ["txt", "gz", "xz", "zip"])
def test_an_enormous_line_is_one_line_however_it_is_packed(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LONGEST", 100_000)
    content = b"first\n" + b"xyz " * 500_000 + b"\nlast\n"
    path = tmp_path / f"text.{suffix}"
    match suffix:
        case "gz":
            path.write_bytes(gzip.compress(content))
        case "xz":
            path.write_bytes(lzma.compress(content))
        case "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("text", content)
        case _:
            path.write_bytes(content)
    assert [len(line) for line in read_lines(path)] == [5, 100_000, 4]


@pytest.mark.parametrize("error", [OSError(22, "Invalid argument"), ValueError("negative seek"), OverflowError("big")])
def test_numbers_in_an_archive_that_lead_outside_of_it_are_one_line(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("text", "one\n")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(zipfile.ZipFile, "open", fail)
    with refuses("...a.zip cannot be unpacked (...): download or copy it again."):
        list(read_lines(tmp_path / "a.zip"))


def test_of_an_enormous_line_only_the_beginning_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 7)
    (tmp_path / "text").write_text("short\nfünf fünf fünf fünf fünf\nlast\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "text")) == ["short", "fünf f", "last"]


@pytest.mark.parametrize(
    ("name", "folder", "words"),
    [
        (
            "~nobody-here/a.txt",
            "",
            r"^~nobody-here/a.txt: there is no home folder ~nobody-here: write the path of the fol",
        ),
        (
            "a.txt",
            "~nobody-here",
            r"^~nobody-here: there is no home folder ~nobody-here: write the path of the folder in",
        ),
        ("a\0.txt", "", r"^'a\\x00\.txt': the name has a NUL"),
    ],
)
def test_a_name_that_no_file_can_have_is_one_line(name: str, folder: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        locate(name, folder)


@pytest.mark.parametrize("suffix", ["gz", "xz", "zip"])
def test_a_few_bytes_that_unpack_to_very_many_are_refused(suffix: str, tmp_path: Path) -> None:
    path, content = tmp_path / f"text.{suffix}", b"a line\n" * (1 << 20)
    match suffix:
        case "gz":
            path.write_bytes(gzip.compress(content))
        case "xz":
            path.write_bytes(lzma.compress(content, preset=0))
        case _:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("text", content)
    with refuses(
        f"{path} unpacks to more than 100 times its size, which is unlikely for a text: if it is right, unpack it, and "
        "name the unpacked file."
    ):
        sum(1 for _ in read_lines(path))


def test_a_file_that_is_taken_as_a_whole_may_be_one_long_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 7)
    (tmp_path / "text").write_text("a long line\nlast\n")
    assert read_whole(TextFile(tmp_path / "text")) == "a long line\nlast"
