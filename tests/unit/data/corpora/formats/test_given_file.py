"""Corpora of files that are not in a recipe: containers and columns as in the recipe, or as the file has them."""

from pathlib import Path

import pytest
from tests.shared.refusals import Refusal, each

from heedful.base.errors import on_command_line
from heedful.config.corpora.containers import AnyCorpus, Conll, Csv, Jsonl, PlainText, Tsv
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.corpora.given_file import given_corpus

REVIEWS = "id;review;stars\n1;a film;5\n2;b, c;1\n3;d;5\n"


def recipe_of(folder: Path, corpus: str, model: str = 'family = "classifier"') -> Recipe:
    (folder / "it.toml").write_text(f"[data]\ntrain = {corpus}\n[model]\n{model}\n")
    return load_recipe(folder / "it.toml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.csv").write_text(REVIEWS)
    (tmp_path / "reviews.tsv").write_text("pos\ta film\nneg\tb\n")
    (tmp_path / "named.tsv").write_text("text\tlabel\na film\tpos\nb c\tneg\nd\tpos\n")
    (tmp_path / "reviews.jsonl").write_text('{"text": "a", "label": "pos"}\n')
    (tmp_path / "plain.txt").write_text("a film\nanother film\n")
    return tmp_path


def of(folder: Path, path: str, *overrides: str, answered: tuple[str, ...] = ("text",)) -> AnyCorpus:
    recipe = recipe_of(folder, '{ tsv = "train.tsv", text = 2, label = 1 }')
    return given_corpus(recipe, path, overrides, answered=answered)


def of_names(folder: Path, path: str, answered: tuple[str, ...] = ("text",)) -> AnyCorpus:
    (folder / "it.csv").touch()
    (folder / "bare.tsv").write_text("".join(f"{'xy'[number % 2]}\tA film, {number}.\n" for number in range(20)))
    recipe = recipe_of(folder, '{ csv = "train.csv", text = "review", label = "stars" }')
    return given_corpus(recipe, path, answered=answered)


def test_a_file_like_that_of_the_recipe_has_its_columns(folder: Path) -> None:
    corpus = of(folder, "reviews.tsv", answered=())
    assert isinstance(corpus, Tsv)
    assert (corpus.text, corpus.label, corpus.part) == (2, 1, "")


def test_columns_that_are_called_like_roles_are_found(folder: Path) -> None:
    corpus = of(folder, "named.tsv", answered=())
    assert isinstance(corpus, Tsv)
    assert (corpus.text, corpus.label, corpus.has_header) == ("text", "label", True)
    other = of(folder, "reviews.jsonl", answered=())
    assert isinstance(other, Jsonl)
    assert (other.text, other.label) == ("text", "label")


def test_another_container_and_other_columns_are_taken_from_the_file_and_from_settings(folder: Path) -> None:
    corpus = of(folder, "reviews.csv", "data.text=review", "data.label=stars", answered=())
    assert isinstance(corpus, Csv)
    assert (corpus.text, corpus.label, corpus.separator) == ("review", "stars", ";")
    unlabelled = of(folder, "reviews.csv", "data.text=review")
    assert isinstance(unlabelled, Csv)
    assert (unlabelled.text, unlabelled.label) == ("review", None)


def test_what_is_true_of_rows_need_not_be_there_to_answer_them(folder: Path) -> None:
    (folder / "it.csv").write_text("text\na film, b\n")
    corpus = of(folder, "it.csv")
    assert isinstance(corpus, Csv)
    assert corpus.places == {"text": "text"}


def test_plain_text_is_lines_and_a_container_can_be_named(folder: Path) -> None:
    assert isinstance(of(folder, "plain.txt"), PlainText)
    corpus = of(folder, "plain.txt", "data.csv=plain.txt", "data.text=1")
    assert isinstance(corpus, Csv)
    assert corpus.text == 1


def test_a_short_file_with_the_suffix_of_the_recipe_has_its_container(folder: Path) -> None:
    recipe = recipe_of(folder, '{ conll = "train.conll", word = 2, label = 3 }', 'family = "tagger"')
    (folder / "it.conll").write_text("1 a X\n")
    corpus = given_corpus(recipe, "it.conll", answered=("text",))
    assert isinstance(corpus, Conll)
    assert (corpus.word, corpus.label) == (2, 3)


@each(
    [
        Refusal(
            "a missing column",
            lambda folder: of(folder, "reviews.csv"),
            "reviews.csv has no column `text`, but id, review, stars: name the one with the texts, as in --set "
            "data.text=review.",
        ),
        Refusal(
            "a missing field",
            lambda folder: of(folder, "reviews.jsonl", "data.text=body"),
            "reviews.jsonl has no field `body`, but text, label: name the one with ...",
        ),
        Refusal("no file", lambda folder: of(folder, "no.csv"), "no.csv: no such file."),
        Refusal(
            "a key of something else",
            lambda folder: of(folder, "reviews.csv", "model.layers=3"),
            "--set model.layers=3: next to --data, only keys of its corpus can be set, such as data.text=review.",
        ),
        Refusal(
            "an unknown key",
            lambda folder: of(folder, "reviews.csv", "data.text=review", "data.seperator=;"),
            "--set data.seperator=;: `data.seperator` is not a key. Did you mean `separator`?",
        ),
        Refusal(
            "a wrong value",
            lambda folder: of(folder, "reviews.csv", "data.text=review", "data.separator=x"),
            '--set data.separator=x: `data.separator` is "x", but must be ...',
        ),
        Refusal(
            "one side of pairs",
            lambda folder: given_corpus(
                recipe_of(folder, '{ source = "a.en", target = "a.de" }', 'family = "transformer"'), "plain.txt"
            ),
            "plain.txt is plain text, of which each line is one side of a pair: give --source and --target, or add "
            "--set data.target=FILE.",
        ),
        Refusal(
            "rows of something else",
            lambda folder: given_corpus(recipe_of(folder, '{ tsv = "t.tsv", text = 2, label = 1 }'), "it.conll"),
            "it.conll has words with labels, but a classifier learns from texts with labels: give `text` and `label`.",
        ),
        Refusal(
            "columns without names",
            lambda folder: of_names(folder, "bare.tsv"),
            "bare.tsv has no column `review`, but 2 columns without names: name the one with the texts, as in --set "
            "data.text=2.",
        ),
        Refusal("nothing", lambda folder: of_names(folder, "it.csv"), "it.csv is empty: give a file with rows."),
        Refusal(
            "plain text in an evaluation",
            lambda folder: of_names(folder, "plain.txt", answered=()),
            "plain.txt is plain text, one sentence or more per line, but a classifier learns from ...",
        ),
        Refusal(
            "a first line that may be a header",
            lambda folder: of(folder, "doubt.tsv"),
            "doubt.tsv, line 1 (`sort`, `Sprache`) may have the names of columns, or be the first row: add --set "
            "data.header=true or --set data.header=false.",
        ),
        Refusal(
            "an image",
            lambda folder: of(folder, "it.png"),
            "it.png is an image, which --data does not take.",
        ),
    ]
)
def test_refusals(refusal: Refusal, folder: Path) -> None:
    (folder / "it.conll").write_text("a X\nb Y\nc X\n\nd X\ne Y\nf Y\n")
    (folder / "it.png").write_bytes(b"\x89PNG")
    rows = [f"{'xy'[number % 2]}\tein langer Text über Filme, {number}" for number in range(20)]
    (folder / "doubt.tsv").write_text("\n".join(["sort\tSprache", *rows]))
    with on_command_line():
        refusal.check(folder)


def test_in_python_the_way_out_is_rows(folder: Path) -> None:
    Refusal("", lambda: of(folder, "reviews.csv"), "...stars: give rows with `text`.").check()


# --- headers ----------------------------------------------------------------------------------------------------------


def has_header(folder: Path, *lines: str) -> bool:
    (folder / "new.tsv").write_text("".join(f"{line}\n" for line in lines))
    corpus = of(folder, "new.tsv")
    assert isinstance(corpus, Tsv)
    assert corpus.places.keys() == {"text"}
    return corpus.has_header


def test_the_first_row_is_a_row_also_where_its_label_is_not_read(folder: Path) -> None:
    rows = [f"{'xy'[number % 2]}\tfilm {number}" for number in range(20)]
    assert not has_header(folder, "x\treview", *rows)
    assert has_header(folder, "label\treview", *rows)


def test_labels_that_are_not_in_the_file_do_not_tell_a_header(folder: Path) -> None:
    recipe = recipe_of(folder, '{ tsv = "train.tsv", text = 1, label = 2 }')
    for lines, header in ((["text", "a film", "b"], True), (["good review", "a film", "b"], False)):
        (folder / "new.tsv").write_text("".join(f"{line}\n" for line in lines))
        corpus = given_corpus(recipe, "new.tsv", answered=("text",))
        assert isinstance(corpus, Tsv)
        assert (corpus.places, corpus.has_header) == ({"text": corpus.text}, header)
