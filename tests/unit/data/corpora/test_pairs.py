import gzip
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles, AnyCorpus, Builtin, Jsonl, Tsv
from heedful.data.corpora.files import check_files, content_key
from heedful.data.corpora.pairs import is_blank, read_pairs
from heedful.data.text_form import TextForm

TATOEBA = Path(__file__).parents[5] / "shared" / "data" / "tatoeba" / "spa-eng.zip"


def text_corpus(folder: Path, source: Sequence[str], target: Sequence[str], lines: str = "") -> AlignedFiles:
    (folder / "a.en").write_text("".join(f"{line}\n" for line in source))
    (folder / "a.de").write_text("".join(f"{line}\n" for line in target))
    return AlignedFiles(source="a.en", target="a.de", lines=lines)


def pairs_of(corpus: AnyCorpus, folder: Path) -> list[tuple[str, str]]:
    return list(read_pairs(corpus, str(folder)))


def test_two_files_aligned_by_line(tmp_path: Path) -> None:
    corpus = text_corpus(tmp_path, ["one", "", "three\u2028still three"], ["eins", "zwei", "drei"])
    assert pairs_of(corpus, tmp_path) == [("one", "eins"), ("", "zwei"), ("three\u2028still three", "drei")]


@pytest.mark.parametrize(("source", "target"), [(3, 1200), (1200, 3)])
def test_unequal_files_show_both_counts(tmp_path: Path, source: int, target: int) -> None:
    corpus = text_corpus(tmp_path, ["x"] * source, ["y"] * target)
    short, long = ("a.en", "a.de") if source < target else ("a.de", "a.en")
    message = f"{short} has 3 lines but .*{long} has 1,200: line n of one belongs to line n of the other."
    with pytest.raises(UserError, match=message):
        pairs_of(corpus, tmp_path)


def test_both_files_must_be_there_before_a_pair_is_read(tmp_path: Path) -> None:
    corpus = text_corpus(tmp_path, ["x"], ["y"])
    (tmp_path / "a.de").unlink()
    with refuses("...a.de: no such file..."):
        next(read_pairs(corpus, str(tmp_path)))
    with refuses("...a.de: no such file..."):
        check_files(corpus, str(tmp_path))


def test_columns_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(b"1\tone\teins\n\n2\ttwo\tzwei\textra\n"))
    corpus = Tsv(tsv="t.tsv.gz", source=3, target=2)
    assert pairs_of(corpus, tmp_path) == [("eins", "one"), ("", ""), ("zwei", "two")]


@pytest.mark.parametrize(
    ("row", "columns", "message"),
    [
        ("no tab here", (1, 2), "line 2 has 1 column, but `target` is column 2: columns are separated by tabs."),
        ("a\tb", (5, 1), "line 2 has 2 columns, but `source` is column 5: columns are separated by tabs."),
    ],
)
def test_a_row_with_too_few_columns(tmp_path: Path, row: str, columns: tuple[int, int], message: str) -> None:
    (tmp_path / "t.tsv").write_text(f"a\tb\tc\td\te\n{row}\n")
    with refuses(f"...t.tsv, {message}"):
        pairs_of(Tsv(tsv="t.tsv", source=columns[0], target=columns[1]), tmp_path)


def test_fields_of_json_lines(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"en": "one\\ntwo", "de": "eins", "id": 7}\n\n')
    assert pairs_of(Jsonl(jsonl="t.jsonl", source="en", target="de"), tmp_path) == [
        ("one\ntwo", "eins"),
        ("", ""),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", r"is not JSON: Expecting property name .*\."),
        ("[" * 100_000, r"is not JSON: .*recursion.*\."),
        ("[1]", "is a list, but must be an object with fields."),
        ('"x"', "is text, but must be an object with fields."),
        ("null", "is null, but must be an object with fields."),
        ('{"sources": "x", "target": "y"}', "has no field `source`. Did you mean `sources`?"),
        ('{"source": "x", "goal": "y"}', "has no field `target`. Known: source, goal."),
        ('{"source": 5, "target": "y"}', ": field `source` is a number, but must be text."),
        ('{"source": true, "target": "y"}', ": field `source` is true or false, but must be text."),
        ('{"source": "x", "target": {}}', ": field `target` is an object, but must be text."),
        (
            '{"source": "x\\ud800", "target": "y"}',
            ": field `source` holds half of a surrogate pair, which is not a character.",
        ),
    ],
)
def test_a_bad_json_line_says_file_and_line(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "t.jsonl").write_text(f'{{"source": "a", "target": "b"}}\n{row}\n')
    with pytest.raises(UserError, match=f"t.jsonl, line 2 ?{message.replace('?', '[?]')}$"):
        pairs_of(Jsonl(jsonl="t.jsonl"), tmp_path)


def test_the_built_in_generator() -> None:
    pairs = list(read_pairs(Builtin(builtin="english-spanish", part="valid", count=5)))
    assert len(pairs) == 5
    assert not any(map(is_blank, pairs))


def test_a_range_of_lines(tmp_path: Path) -> None:
    corpus = text_corpus(tmp_path, list("abcde"), list("ABCDE"), lines="2-4")
    assert pairs_of(corpus, tmp_path) == [("b", "B"), ("c", "C"), ("d", "D")]


def test_a_range_may_end_with_the_file(tmp_path: Path) -> None:
    assert pairs_of(text_corpus(tmp_path, list("abc"), list("ABC"), lines="3-3"), tmp_path) == [("c", "C")]


def test_a_range_past_the_end(tmp_path: Path) -> None:
    corpus = text_corpus(tmp_path, list("abcde"), list("ABCDE"), lines="2-6")
    with refuses('a.en + a.de has 5 lines, but `lines` is "2-6": lower its end.'):
        pairs_of(corpus, tmp_path)


def test_composed_form_is_an_option(tmp_path: Path) -> None:
    corpus = text_corpus(tmp_path, ["u\u0308ber"], ["u\u0308ber"])
    assert list(read_pairs(corpus, str(tmp_path), TextForm(nfc=True))) == [("über", "über")]
    assert pairs_of(corpus, tmp_path) == [("u\u0308ber", "u\u0308ber")]


@pytest.mark.parametrize(
    ("corpus", "name"),
    [
        (AlignedFiles(source="a", target="b"), "a + b"),
        (AlignedFiles(source="a", target="b", name="news"), "news"),
        (Tsv(tsv="a.tsv"), "a.tsv"),
        (Jsonl(jsonl="a.jsonl"), "a.jsonl"),
        (Builtin(builtin="english-spanish"), "english-spanish train"),
    ],
)
def test_corpora_have_names(corpus: AnyCorpus, name: str) -> None:
    assert corpus.title == name


def test_the_key_is_the_content_and_the_way_of_reading(tmp_path: Path) -> None:
    def key(**options: object) -> str:
        corpus = Tsv.model_validate({"tsv": "t.tsv", **options})
        return json.dumps(content_key(corpus, str(tmp_path)))

    (tmp_path / "t.tsv").write_text("a\tb\tc\n")
    (tmp_path / "copy.tsv").write_text("a\tb\tc\n")
    (tmp_path / "other.tsv").write_text("a\tb\td\n")
    assert key() == key(tsv="copy.tsv", name="x", weight=3)
    assert len({key(), key(tsv="other.tsv"), key(source=3), key(lines="1-1")}) == 4


def test_the_key_of_a_generator_holds_its_source_text() -> None:
    key = content_key(Builtin(builtin="english-spanish", count=5))
    assert key["generator"]
    assert key != content_key(Builtin(builtin="english-spanish", count=6))


def test_a_key_needs_the_files(tmp_path: Path) -> None:
    with refuses("...t.tsv: no such file..."):
        content_key(Tsv(tsv="t.tsv"), str(tmp_path))


@pytest.mark.skipif(not TATOEBA.exists(), reason=f"no Tatoeba corpus at {TATOEBA}")
def test_tatoeba_reads_from_its_archive() -> None:
    corpus = Tsv(tsv=f"{TATOEBA}:spa-eng/spa.txt")
    pairs = list(islice(read_pairs(corpus), 1000))
    assert pairs[0] == ("Go.", "Ve.")
    assert not any(map(is_blank, pairs))
