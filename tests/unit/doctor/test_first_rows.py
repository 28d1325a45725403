"""What `heedful config check` reads: a recipe that training would refuse for its first rows is not called correct."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.shared.minimal_recipes import MINIMAL, minimal_recipe, write_files
from tests.shared.refusals import like

from heedful.config.reading.load import load_recipe
from heedful.doctor.corpora import first_rows
from heedful.doctor.corpora.first_rows import CheckedRows, check_first_rows

Files = dict[str, str | bytes]
FAMILIES: dict[str, dict[str, Any]] = {
    "translate": {},
    "parse": {"task": "parse"},
    "captioner": {"model": {"family": "captioner", "decoder": {"family": "recurrent"}}},
}
TABLE = {"tsv": "a.tsv", "text": 1, "label": 2}
IMAGES = {"tsv": "a.tsv", "image": 1, "label": 2}


def check(files: Files, family: str, **data: Any) -> CheckedRows:
    for name, content in files.items():
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return check_first_rows(load_recipe({"data": data, **FAMILIES.get(family, {"model": {"family": family}})}))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Wrong(NamedTuple):
    """Files and the table of a corpus, and the error."""

    files: Files
    family: str
    train: dict[str, Any]
    error: str


WRONG = {
    "lengths": Wrong(
        {"a.en": "a b\n" * 3000, "a.de": "c\n" * 2990},
        "translate",
        {"source": "a.en", "target": "a.de"},
        "a.de has 2,990 lines but a.en has 3,000: ...",
    ),
    "no number": Wrong(
        {"a.csv": "a film,2.5\nanother,good\n"},
        "regressor",
        {"csv": "a.csv", "text": 1, "number": 2},
        'a.csv, line 2: column `2` is "good", but must be a number, such as 12.5.',
    ),
    "a field": Wrong(
        {"a.jsonl": '{"text": "a", "label": "x"}\n{"txt": "b", "label": "y"}\n'},
        "classifier",
        {"jsonl": "a.jsonl", "text": "text", "label": "label"},
        "a.jsonl, line 2 has no field `text`. Did you mean `txt`?",
    ),
    "a column": Wrong({"a.tsv": "a\tx\nb\n"}, "classifier", TABLE, "a.tsv, line 2 has 1 column, but `label` is ..."),
    "empty": Wrong({"a.tsv": ""}, "classifier", TABLE, "a.tsv has no texts to use: it is empty."),
    "blank": Wrong({"a.txt": "\n\n"}, "language", {"text": "a.txt"}, "a.txt has no lines to use: all 2 are blank."),
    "one label": Wrong(
        {"a.tsv": "a\tx\nb\tx\n"},
        "classifier",
        TABLE,
        "there is one label, `x`, but there must be two to tell apart.",
    ),
    "bytes": Wrong(
        {"a.tsv": b"a\tx\n\x81\xff\xfe\x8d\ty\n"}, "classifier", TABLE, "a.tsv, line 2, byte 4: 0x81 is not ..."
    ),
    "no image": Wrong({"a.tsv": "b.png\tx\n"}, "image_classifier", IMAGES, "a.tsv, line 1 names the image b.png, ..."),
    "a damaged image": Wrong(
        {"a.tsv": "b.png\tx\n", "b.png": "text"}, "image_classifier", IMAGES, "b.png is not an image but text: ..."
    ),
    "an image of a caption": Wrong(
        {"a.tsv": "b.png\ta dog\n", "b.png": "text"},
        "captioner",
        {"tsv": "a.tsv", "image": 1, "caption": 2},
        "b.png is not an image but text: ...",
    ),
    "no folder": Wrong({}, "image_classifier", {"images": "nowhere"}, "nowhere: no such folder ..."),
    "a tree": Wrong({"a.mrg": "(S (NP a)\n"}, "parse", {"trees": "a.mrg"}, "a.mrg, line 1: the tree that ..."),
    "a sample": Wrong({"a.tsv": "a\tx\n"}, "classifier", {**TABLE, "sample": 9}, "a.tsv has 1 text, but `sample` ..."),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_training_would_refuse_is_told_with_the_key_of_its_corpus(name: str) -> None:
    wrong = WRONG[name]
    (error,) = check(wrong.files, wrong.family, train=wrong.train).errors
    assert error == like(f"`data.train`: {wrong.error}")


def test_labels_of_other_parts_are_among_those_of_training() -> None:
    files: Files = {"a.tsv": "a\tx\nb\ty\n", "b.tsv": "a\tx\n\tw\nb\tz\n", "c.tsv": "c\ty\n"}
    parts = {part: {**TABLE, "tsv": name} for part, name in (("valid", "b.tsv"), ("test", "c.tsv"))}
    found = check(files, "classifier", train=TABLE, **parts)
    assert found.errors == [
        "`data.valid`: b.tsv, line 3 has the label `z`, which nothing in `data.train` has: correct it, or add such "
        "rows there. Known: x, y."
    ]
    assert [str(corpus) for corpus in found.corpora] == ["train: 2 texts of a.tsv", "test: 1 text of c.tsv"]


def test_what_is_not_read_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "_ROWS", 2)
    files: Files = {"a.tsv": "a\tx\nb\tx\nc\ty\n", "b.tsv": "a\ty\n"}
    found = check(files, "classifier", train=TABLE, valid={**TABLE, "tsv": "b.tsv"})
    assert found.errors == []
    assert [str(corpus) for corpus in found.corpora] == ["train: the first 2 texts of a.tsv", "valid: 1 text of b.tsv"]
    aligned = check({"a.en": "a\n" * 9, "a.de": "b\n" * 9}, "translate", train={"source": "a.en", "target": "a.de"})
    assert [str(corpus) for corpus in aligned.corpora] == ["train: 9 pairs of a.en + a.de"]
    uneven = check({"a.de": "b\n" * 8}, "translate", train={"source": "a.en", "target": "a.de"})
    assert uneven.errors == [like("`data.train`: a.de has 8 lines but a.en has 9: ...")]


def test_a_large_sample_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "_LARGE", 1)
    found = check({"a.tsv": "a\tx\nb\ty\n"}, "classifier", train={**TABLE, "sample": 1})
    assert [corpus.rows for corpus in found.corpora] == [2]


def test_every_corpus_that_is_wrong_is_told() -> None:
    found = check({"a.tsv": "a\tx\nb\n"}, "classifier", train=[TABLE, {**TABLE, "tsv": "no.tsv"}], valid=TABLE)
    assert found.errors == [
        like("`data.train.0`: a.tsv, line 2 has ..."),
        like("`data.train.1.tsv`: no.tsv: no such file ..."),
        like("`data.valid`: a.tsv, line 2 has ..."),
    ]


@pytest.mark.parametrize("task", MINIMAL)
def test_sound_files_of_every_task_are_read(tmp_path: Path, task: str) -> None:
    write_files(tmp_path)
    found = check_first_rows(load_recipe(minimal_recipe(task, tmp_path)))
    assert (found.errors, found.warnings) == ([], [])
    assert [corpus.part for corpus in found.corpora] == ["train", "valid", "test"]
    assert all(corpus.whole and corpus.rows >= 60 for corpus in found.corpora)


TOKEN = "{0}\t{1}\t{1}\t{2}\t_\t_\t0\t_\t_\t_\n"
CONLLU = "# sent_id = 1\n" + TOKEN.format(1, "dogs", "NOUN") + TOKEN.format(2, "bark", "VERB") + "\n"
RIGHT: dict[str, tuple[Files, str, dict[str, Any], str]] = {  # as people have them
    "semicolons": (
        {"a.csv": "Text;Note\n" + "".join(f"Ein Film, {number};{number % 3}\n" for number in range(30))},
        "classifier",
        {"csv": "a.csv", "text": "Text", "label": "Note"},
        "train: 30 texts of a.csv",
    ),
    "a header": (
        {"a.csv": "text,rating\n" + "".join(f"a film {number},{number}\n" for number in range(30))},
        "regressor",
        {"csv": "a.csv", "text": 1, "number": 2},
        "train: 30 texts of a.csv",
    ),
    "CoNLL-U": ({"a.conllu": CONLLU * 3}, "tagger", {"conll": "a.conllu"}, "train: 3 sentences of a.conllu"),
    "trees over several lines": (
        {"a.mrg": "( (S\n  (NP (NN dog))\n  (VP (VBZ barks)) ))\n" * 4},
        "parse",
        {"trees": "a.mrg"},
        "train: 4 sentences of a.mrg",
    ),
    "Windows-1252": ({"a.tsv": "grün\tx\nschön\ty\n".encode("cp1252")}, "classifier", TABLE, "train: 2 texts of a.tsv"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_files_as_people_have_them_are_read(name: str) -> None:
    files, family, train, read = RIGHT[name]
    found = check(files, family, train=train)
    assert (found.errors, found.warnings, [*map(str, found.corpora)]) == ([], [], [read])
