"""Pairs from translation memories (TMX) and from XLIFF, versions 1.2 and 2.0."""

import gzip
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.base.notes import listening
from heedful.config.corpora.containers import AlignedFiles, Tmx, Xliff
from heedful.data.corpora.files import content_key
from heedful.data.corpora.pairs import read_pairs


def unit(**texts: str) -> str:
    variants = "".join(
        f'<tuv xml:lang="{tag.replace("_", "-")}"><seg>{text}</seg></tuv>' for tag, text in texts.items()
    )
    return f"<tu>\n<note>about it</note>{variants}</tu>\n"


def tmx(*units: str, srclang: str = "en-GB") -> str:
    head = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n'
    return f'{head}<header srclang="{srclang}"/>\n<body>\n{"".join(units)}</body></tmx>\n'


TWO = tmx(
    unit(en_GB="One &amp; two", de_DE="Eins &amp; zwei"),
    unit(
        en_GB="Click <bpt i='1'>&lt;b&gt;</bpt>here<ept i='1'>&lt;/b&gt;</ept> <hi>now</hi>",
        de_DE="Jetzt<ph>x</ph>\n  klicken",
    ),
    unit(en_GB="Lost"),
    unit(en_GB="Blank", de_DE=" "),
)
PAIRS = [("One & two", "Eins & zwei"), ("Click here now", "Jetzt klicken")]

XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en" target-language="de" original="a"><body>
<group><trans-unit id="1"><source>Click <g id="1">here</g><x id="2"/> <ph id="3">{0}</ph>now</source>
<seg-source><mrk mtype="seg">Click</mrk></seg-source>
<target><mrk mtype="seg">Hier</mrk> klicken</target>
<alt-trans><source>Click</source><target>Klick</target></alt-trans></trans-unit></group>
<trans-unit id="2"><source>Lost</source></trans-unit>
<trans-unit id="3"><source>Copied</source><target state="needs-translation">Copied</target></trans-unit>
<trans-unit id="4"><source>Two</source><target>Zwei</target></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
<file id="f"><unit id="1"><originalData><data id="d">&lt;b&gt;</data></originalData>
<mtc:matches xmlns:mtc="urn:m"><mtc:match><source>Click</source><target>Klick</target></mtc:match></mtc:matches>
<segment><source>Click <pc id="1" dataRefStart="d">here</pc> <ph id="2"/>now</source>
<target>Hier klicken</target></segment>
<ignorable><source> </source><target> </target></ignorable>
<segment><source>Two</source><target>Zwei</target></segment><segment><source>Lost</source></segment></unit></file></xliff>
"""


def read(folder: Path, text: str | bytes, container: type[Tmx | Xliff] = Tmx, **keys: Any) -> tuple[Any, list[str]]:
    (folder / "t").write_bytes(text if isinstance(text, bytes) else text.encode())
    corpus = container.model_validate({container.file_keys[0]: "t", **keys})
    notes: list[str] = []
    with listening(notes.append):
        return list(read_pairs(corpus, str(folder))), [each.removeprefix(f"{folder}/t: ") for each in notes]


def test_runs_of_spaces_are_one_space_as_xml_has_them(tmp_path: Path) -> None:
    """Not spaces that do not break: as a regular expression has it, which takes seconds for megabytes of words."""
    draw = random.Random(1)
    texts = ["x" + "".join(draw.choices(" \t\r\n\u00a0\u2003xy", k=draw.randrange(40))) + "x" for _ in range(60)]
    written = "".join(unit(en=text, de="a").replace("\r", "&#13;") for text in texts)
    pairs, _ = read(tmp_path, tmx(written, srclang="en"))
    assert [source for source, _ in pairs] == [re.sub(r"[ \t\r\n]+", " ", text) for text in texts]


def test_a_memory_of_two_languages_is_read_from_its_source_language(tmp_path: Path) -> None:
    lost = "2 units without a translation left out"
    assert read(tmp_path, TWO) == (PAIRS, ["translations from en-GB to de-DE", lost])
    assert read(tmp_path, TWO, source="en", target="de") == (PAIRS, [lost])
    assert read(tmp_path, TWO, source="DE") == (
        [(b, a) for a, b in PAIRS],
        ["translations from DE to en-GB", "1 unit without a translation left out"],
    )
    assert read(tmp_path, TWO, target="en")[0] == [(b, a) for a, b in PAIRS]


@pytest.mark.parametrize("encoding", ["utf-16", "windows-1252", "iso-8859-15"])
def test_the_encoding_is_that_which_the_file_names(tmp_path: Path, encoding: str) -> None:
    text = TWO.replace('version="1.0"?', f'version="1.0" encoding="{encoding}"?', 1).replace("klicken", "drücken")
    assert read(tmp_path, text.encode(encoding))[0][1] == ("Click here now", "Jetzt drücken")


def test_old_attributes_and_packed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.tmx.gz").write_bytes(gzip.compress(TWO.replace("xml:lang", "lang").encode()))
    corpus = Tmx(tmx="a.tmx.gz", lines="2-2")
    assert list(read_pairs(corpus, str(tmp_path))) == PAIRS[1:]
    assert content_key(corpus, str(tmp_path))["kind"] == "TmxCorpus"


@pytest.mark.parametrize("text", [XLIFF, XLIFF_2])
def test_xliff_has_sources_and_targets_in_its_units(tmp_path: Path, text: str) -> None:
    lost = 2 if text is XLIFF else 1
    expected = [("Click here now", "Hier klicken"), ("Two", "Zwei")]
    note = f"{lost} unit{'s' if lost > 1 else ''} without a translation left out"
    assert read(tmp_path, text, Xliff) == (expected, [note])
    assert read(tmp_path, text, Xliff, source="en", target="de")[0] == expected


SEVERAL = tmx(unit(en_GB="a", en_US="b", de="c"), unit(en_GB="d", fr="e"))
FILES = XLIFF.replace("</xliff>", XLIFF[XLIFF.index("<file") :].replace('"de"', '"fr"'))


@pytest.mark.parametrize(
    ("text", "container", "keys", "message"),
    [
        (
            SEVERAL,
            Tmx,
            {},
            '...t has texts in en-GB, en-US, de, fr: choose two languages, as in `source = "en-GB"` and '
            '`target = "fr"`.',
        ),
        (
            SEVERAL,
            Tmx,
            {"source": "en", "target": "de"},
            '...t, line 6: "en" is "en-GB" or "en-US" there: set `source` to one of them.',
        ),
        (tmx(unit(en="a", de="b"), srclang="*all*"), Tmx, {}, "...t has texts in en, de: choose two languages, as ..."),
        (tmx(), Tmx, {}, "...t has no units with texts."),
        (
            TWO,
            Tmx,
            {"source": "en", "target": "fr"},
            '...t has no translations from "en" to "fr": its languages are en-GB, de-DE.',
        ),
        (
            tmx(),
            Tmx,
            {"source": "en", "target": "fr"},
            '...t has no translations from "en" to "fr", and no other texts.',
        ),
        (TWO.replace("</seg>", "", 1), Tmx, {}, "...t, line 7 is not XML: mismatched tag."),
        (TWO[:300], Tmx, {}, "...t, line 9 is not XML: no element ..."),
        ("", Tmx, {}, "...t, line 1 is not XML: no element found."),
        ("<html></html>", Tmx, {}, "...t is not TMX: its first element is `html`."),
        (XLIFF, Tmx, {}, "...t is not TMX: its first ..."),
        (
            '<?xml version="1.0" encoding="klingon"?><tmx/>',
            Tmx,
            {},
            "...t has an encoding that is not read (...): use UTF-8.",
        ),
        (
            "<tmx>" + "<hi>\n" * 1000,
            Tmx,
            {},
            "...t, line 200: elements are nested more than 200 deep, which no TMX has: the file is damaged.",
        ),
        (
            '<!DOCTYPE tmx [<!ENTITY a "aaaa">]>\n<tmx>&a;</tmx>',
            Tmx,
            {},
            "...t, line 1 declares the entity `a`: such files are not read. Replace it by its text, and remove the "
            "declaration.",
        ),
        (
            '<!DOCTYPE tmx [\n<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<tmx>&a;</tmx>',
            Tmx,
            {},
            "...t, line 2 declares the entity `a`: such ...",
        ),
        (
            FILES,
            Xliff,
            {},
            '...t, line 12 has another target language than before: set `target = "de"` or `target = "fr"`.',
        ),
        (FILES, Xliff, {"target": "es"}, '...t has no translations to "es", but from en to de, en to fr.'),
        ("<xliff/>", Xliff, {"target": "es"}, "...t has no translations."),
    ],
)
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, text: str, container: type[Tmx | Xliff], keys: dict[str, str], message: str
) -> None:
    with refuses(message):
        read(tmp_path, text, container, **keys)


def test_a_language_can_be_chosen_from_several(tmp_path: Path) -> None:
    assert read(tmp_path, SEVERAL, source="en-GB", target="de")[0] == [("a", "c")]
    assert read(tmp_path, SEVERAL, source="de", target="en-US") == ([("c", "b")], [])
    assert read(tmp_path, FILES, Xliff, target="fr")[0][0] == ("Click here now", "Hier klicken")


def test_moses_pairs_are_aligned_files_also_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "de-en.txt.zip", "w") as archive:
        archive.writestr("README", "about it")
        archive.writestr("Books.de-en.de", "eins\nzwei\n")
        archive.writestr("Books.de-en.en", "one\ntwo\n")
    corpus = AlignedFiles(source="de-en.txt.zip:Books.de-en.en", target="de-en.txt.zip:Books.de-en.de")
    assert list(read_pairs(corpus, str(tmp_path))) == [("one", "eins"), ("two", "zwei")]
