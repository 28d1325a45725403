"""Encodings that are read with a note, and texts that are refused because they could have several."""

import gzip
import io
import lzma
import zipfile
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.base.notes import listening, note
from heedful.data.corpora.formats.lines import decode_lines, read_lines

GERMAN = "Ein Buch,\nschön für Kinder über fünf,\n\nder Größe nach.\n"
SENTENCES = {  # of languages that are written in Windows-1252
    "German": "Die Größe ist gut, ärgerlich: für fünf Euro zu früh",
    "French": "L’été dernier, nous sommes allés à la plage où il faisait très chaud; ça va, même à Noël",
    "Spanish": "¿Dónde está el niño? Mañana vendrá a España con más canción",
    "Portuguese": "Não há informação; você é português e irá amanhã às três",
    "Italian": "La città è più bella perché c’è il sole, però può piovere. Sì",
    "Danish": "Rødgrød med fløde på Ærø, så får vi æbler",
    "Swedish": "Räksmörgås på en ö i ån är gott för älgar",
    "Finnish": "Hyvää päivää, mitä kuuluu? Tänään on hyvä sää",
    "Dutch": "De coördinatie van financiële ideeën, één geïnteresseerde",
    "Icelandic": "Það er gott að búa á Íslandi, þú ert góður maður og ég á bíl, fjörður",
    "German and French": "Größe für Bücher über Käse. L’été dernier nous sommes allés à la forêt, très bien",
    "quotes and dashes": "He said “no” – twice…",
    "a euro sign": "It’s 5 € in town",
    "one letter": "I like the café here",
}


def decoded(data: bytes) -> list[str]:
    return list(decode_lines(io.BytesIO(data), "some.txt"))


def read_with_notes(path: Path | str) -> tuple[list[str], list[str]]:
    notes: list[str] = []
    with listening(notes.append):
        return list(read_lines(path)), notes


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("codec", "name"),
    [
        ("utf-16", "UTF-16"),
        ("utf-32", "UTF-32"),
        ("utf-16-le", "UTF-16LE"),
        ("utf-16-be", "UTF-16BE"),
        ("cp1252", "Windows-1252"),
    ],
)
def test_other_encodings_are_read_with_one_note(tmp_path: Path, codec: str, name: str, line_end: str) -> None:
    data = GERMAN.replace("\n", line_end).encode(codec)
    (tmp_path / "a.txt").write_bytes(data)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(data))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(data))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", data)
    for member in ("a.txt", "a.txt.gz", "a.txt.xz", "a.zip:a.txt"):
        path = f"{tmp_path}/{member}"
        assert read_with_notes(path) == (GERMAN.splitlines(), [f"{path}: read as {name}"])
    assert decoded(data) == GERMAN.splitlines()


def test_the_other_byte_order_and_letters_beyond_two_bytes(tmp_path: Path) -> None:
    text = "a𝄞\u2028b\n\nc"
    for codec, mark in (("utf-16-be", b"\xfe\xff"), ("utf-16-le", b"\xff\xfe"), ("utf-32-be", b"\x00\x00\xfe\xff")):
        assert decoded(mark + text.encode(codec)) == text.split("\n")
    assert decoded("\ufeff".encode("utf-16-le")) == []


def test_lines_in_utf16_come_as_soon_as_they_are_there() -> None:
    parts = ["\ufeffeins\nzw".encode("utf-16-le")[:-1], b"\x00", "ei\n".encode("utf-16-le")]
    sent: list[bytes] = []

    def stream() -> "object":
        for part in parts:
            sent.append(part)
            yield part

    lines = decode_lines(stream(), "standard input")  # type: ignore[arg-type]
    assert next(lines) == "eins"
    assert len(sent) == 1
    assert list(lines) == ["zwei"]


@pytest.mark.parametrize("text", SENTENCES.values(), ids=SENTENCES)
def test_windows_1252_is_told_by_the_letters_of_its_languages(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_bytes(f"plain\n{text}\n".encode("cp1252"))
    assert read_with_notes(tmp_path / "a") == (["plain", text], [f"{tmp_path / 'a'}: read as Windows-1252"])


@pytest.mark.parametrize(
    ("text", "codec", "name", "iconv"),
    [
        ("Proszę państwa, wszyscy są już gotowi, człowiek", "cp1250", "Windows-1250", "WINDOWS-1250"),
        ("Příliš žluoučký kůň úpěl ďábelské ódy", "cp1250", "Windows-1250", "WINDOWS-1250"),
        ("Příliš žluoučký kůň úpěl ódy", "iso8859-2", "ISO-8859-2", "ISO-8859-2"),
        ("időjárás gyönyörű, köszönöm szépen, nagyon jól", "cp1250", "Windows-1250", "WINDOWS-1250"),
        ("Limba română este frumoasă şi ţara aceasta", "cp1250", "Windows-1250", "WINDOWS-1250"),
        ("Türkçe güzel bir dil, değil mi? yaşıyorum", "cp1254", "Windows-1254", "WINDOWS-1254"),
        ("Latviešu valoda ir skaista, es dzīvoju Rīgā", "cp1257", "Windows-1257", "WINDOWS-1257"),
        ("Schönes Buch für Kinder über fünf", "mac_roman", "MacRoman", "MACINTOSH"),
        ("Schönes Buch für Kinder über fünf", "cp850", "IBM850", "IBM850"),
        ("Das kostet 5 € für alle, schön", "iso8859-15", "ISO-8859-15", "ISO-8859-15"),
    ],
)
def test_another_encoding_is_named_and_not_read(text: str, codec: str, name: str, iconv: str) -> None:
    with refuses(f"... The text looks like {name}: convert it with `iconv -f {iconv} -t UTF-8`."):
        decoded(text.encode(codec))


def test_a_text_that_could_have_several_encodings_is_refused() -> None:
    with refuses(
        "some.txt, line 2, byte 7: 0xea is not valid UTF-8 there. The text could be Windows-1252 or Windows-1250: "
        "convert it with `iconv -f WINDOWS-1252 -t UTF-8` or `iconv -f WINDOWS-1250 -t UTF-8`."
    ):
        decoded("abc\na fête\n".encode("cp1252"))


@pytest.mark.parametrize(
    "raw",
    [
        "Привет, мир".encode("cp1251"),
        "A long sentence, and then Привет".encode("cp1251"),
        "日本語".encode("shift-jis"),
        b"ab \xff\xfe cd",
    ],
)
def test_no_encoding_is_guessed_where_the_bytes_do_not_tell(raw: bytes) -> None:
    with pytest.raises(UserError) as caught:
        decoded(raw)
    assert str(caught.value).endswith(
        " is not valid UTF-8 there. Convert the text with `iconv -f ENCODING -t UTF-8` if it has another encoding, or "
        "drop such bytes with `iconv -c -f UTF-8 -t UTF-8`."
    )


def test_utf8_with_a_damaged_line_stays_refused(tmp_path: Path) -> None:
    damaged = "schön\n".encode() + b"sch\xf6n\n"
    with refuses("some.txt, line 2, byte 10: 0xf6 is not valid UTF-8 there. Convert the text with ..."):
        decoded(damaged)
    (tmp_path / "a").write_bytes(b"sch\xf6n\n" + "schön\n".encode())  # seen as a whole
    with refuses("..., line 1, byte 3: 0xf6 is not valid UTF-8 there. Convert the text with ..."):
        list(read_lines(tmp_path / "a"))
    with refuses("some.txt, line 2 is UTF-8, but an earlier line is Windows-1252: convert both to UTF-8."):
        decoded(b"sch\xf6n\n" + "schön\n".encode())
    with refuses("some.txt, line 2, byte 8: 0x81 is not valid Windows-1252 there. Convert the text with ..."):
        decoded(b"sch\xf6n\nab\x81\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"\xff\xfea\x00\n\x00\x00\xd8a\x00",
            "some.txt, line 2 is not valid UTF-16: convert the file to UTF-8 and correct it.",
        ),
        (b"a\x00b", "some.txt, line 1 is not valid UTF-16LE: ..."),
        (b"\x00\x00\x00\x07abc\n", "some.txt: 3 of the first 8 bytes are zero, so this is not text."),
    ],
)
def test_damaged_bytes_are_one_line(data: bytes, message: str) -> None:
    with refuses(message):
        decoded(data)


def test_a_line_beyond_memory_in_utf16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.data.corpora.formats.lines.LONGEST", 8)
    with refuses("some.txt, line 1 is too long: convert the file to UTF-8."):
        list(decode_lines(["\ufeffabc".encode("utf-16-le")], "some.txt"))


def test_a_note_is_heard_once_and_by_the_innermost() -> None:
    outer: list[str] = []
    inner: list[str] = []
    note("nobody listens")
    with listening(outer.append):
        note("one")
        note("one")
        with listening(inner.append):
            note("one")
            note("two")
        note("two")
        note("three")
    assert (outer, inner) == (["one", "three"], ["two"])
