"""Validation data of a recipe that names none: which rows are held out, what is said, saved and kept."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.shared.refusals import refuses

import heedful
from heedful.cli.main import run as command
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.questions import read_questions
from heedful.data.corpora.texts import read_texts
from heedful.defaults.apply import with_followed_defaults, with_values_of
from heedful.defaults.split import why_not_split, with_held_out_rows, with_split_of
from heedful.models.bundle import read_description, read_recipe
from heedful.runs.training_run import recipe_of_run

TINY = '[model]\nfamily = "classifier"\nencoder = { family = "bag", width = 4 }\n[train]\nsteps = 2\ndevice = "cpu"\n'
TINY += 'precision = "float32"\nschedule = { kind = "constant", lr = 0.001 }\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    write("a.tsv", [f"{'bad' if number % 2 else 'good'}\tfilm number {number}" for number in range(200)])
    return tmp_path


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines))


def split(corpora: dict[str, Any] | list[dict[str, Any]], family: str = "classifier", **tables: Any) -> Recipe:
    data = {"train": corpora, **tables.pop("data", {})}
    return with_held_out_rows(load_recipe({"data": data, "model": {"family": family}, **tables}))


def choices(corpora: tuple[AnyCorpus, ...]) -> list[str]:
    return [getattr(corpus, "part", "") or corpus.lines for corpus in corpora]


def texts(recipe: Recipe, name: str) -> list[str]:
    return [text.text for corpus in getattr(recipe.data, name) for text in read_texts(corpus)]


TEXTS = {"tsv": "a.tsv", "label": 1, "text": 2}
CLASSIFIER = {"model": {"family": "classifier"}}


# --- which rows -------------------------------------------------------------------------------------------------------


def test_a_tenth_of_the_rows_is_held_out() -> None:
    recipe = split(TEXTS)
    assert (choices(recipe.data.train), choices(recipe.data.valid)) == (["1-9/10"], ["0/10"])
    train, valid = texts(recipe, "train"), texts(recipe, "valid")
    assert len(train) + len(valid) == 200
    assert not set(train) & set(valid)
    assert recipe.held_out == f"{len(valid)} of 200 texts are held out as validation data: `data.valid` is not set"


@pytest.mark.parametrize(
    ("rows", "parts"), [(49, None), (50, 5), (99, 5), (140, 7), (200, 10), (20_000, 10), (20_001, 11), (60_000, 30)]
)
def test_few_rows_are_not_split_and_of_many_about_two_thousand_are_held_out(rows: int, parts: int | None) -> None:
    write("b.tsv", [f"x\tfilm {number}" for number in range(rows)])
    recipe = split({**TEXTS, "tsv": "b.tsv"})
    assert choices(recipe.data.valid) == ([] if parts is None else [f"0/{parts}"])
    words = recipe.held_out or ""
    assert words.startswith("about 2,000 of 60,000 texts are held out") == (rows == 60_000)


def test_an_empty_list_and_corpora_that_are_chosen_by_hand_are_left_alone() -> None:
    for recipe in (
        split(TEXTS, data={"valid": []}),
        split({**TEXTS, "part": "1-9/10"}),
        split({**TEXTS, "sample": 100}),
        split({"builtin": "english-spanish", "part": "test", "count": 500}, "transformer"),
        split(TEXTS, data={"valid": TEXTS}),
        split({**TEXTS, "tsv": "missing.tsv"}),
    ):
        assert recipe.held_out is None
        assert "part" not in recipe.data.train[0].model_fields_set or recipe.data.train[0].files() != ("missing.tsv",)
        assert len(recipe.data.valid) <= 1


def test_parts_are_of_the_lines_that_a_recipe_reads() -> None:
    recipe = split({**TEXTS, "lines": "1-100"})
    assert (recipe.data.train[0].lines, choices(recipe.data.valid)) == ("1-100", ["0/5"])
    assert len(texts(recipe, "train")) + len(texts(recipe, "valid")) == 100


def test_several_corpora_are_split_alike_so_that_a_row_in_both_is_on_one_side() -> None:
    write("b.tsv", Path("a.tsv").read_text().splitlines()[:60])
    recipe = split([{**TEXTS, "weight": 2.0, "name": "all"}, {**TEXTS, "tsv": "b.tsv", "name": "some"}])
    assert choices(recipe.data.train) == ["1-9/10"] * 2
    assert [(corpus.name, corpus.weight) for corpus in recipe.data.valid] == [("all", 1.0), ("some", 1.0)]
    assert not set(texts(recipe, "train")) & set(texts(recipe, "valid"))


def test_a_corpus_none_of_which_is_in_the_part_is_not_a_validation_corpus() -> None:
    kept = next(text for text in map(str, range(100)) if text in texts_of_part(text))
    write("one.tsv", [f"good\t{kept}"])
    recipe = split([TEXTS, {**TEXTS, "tsv": "one.tsv"}])
    assert [corpus.files() for corpus in recipe.data.valid] == [("a.tsv",)]
    assert len(recipe.data.train) == 2


def texts_of_part(text: str) -> list[str]:
    """Return the text where it is not in the part that is held out."""
    write("one.tsv", [f"good\t{text}"])
    recipe = load_recipe(
        {"data": {"train": {**TEXTS, "tsv": "one.tsv", "part": "1-9/10"}}, "model": {"family": "classifier"}}
    )
    return texts(recipe, "train")


def test_a_generator_has_a_part_of_its_own() -> None:
    recipe = split({"builtin": "english-spanish", "count": 500}, "transformer")
    (valid,) = recipe.data.valid
    assert valid.model_dump(exclude_unset=True) == {"builtin": "english-spanish", "part": "valid", "count": 50}
    assert recipe.data.train[0].model_dump(exclude_unset=True) == {"builtin": "english-spanish", "count": 500}
    assert recipe.held_out == "50 more pairs are generated as validation data: `data.valid` is not set"


def test_no_text_of_questions_is_on_both_sides_even_where_there_are_few_texts() -> None:
    asked = [
        {"question": f"What is {number}?", "text": f"Text {number % 6} says yes.", "answer": "yes"}
        for number in range(120)
    ]
    write("q.jsonl", [json.dumps(row) for row in asked])
    recipe = split({"jsonl": "q.jsonl", "question": "question"}, "reader", model={"family": "reader"})
    train, valid = ({one.text for one in read_questions(getattr(recipe.data, name)[0])} for name in ("train", "valid"))
    assert len(train) + len(valid) == 6
    assert len(valid) == 1
    assert not train & valid


def test_one_text_with_all_questions_cannot_be_split() -> None:
    write("q.jsonl", [json.dumps({"question": f"{n}?", "text": "It says yes.", "answer": "yes"}) for n in range(90)])
    assert split({"jsonl": "q.jsonl", "question": "question"}, model={"family": "reader"}).data.valid == ()


def test_the_last_lines_of_running_text_in_one_document_are_held_out() -> None:
    write("novel.txt", [f"Line {number} of it." for number in range(300)])
    recipe = split({"text": "novel.txt", "documents": "file"}, "language")
    assert (choices(recipe.data.train), choices(recipe.data.valid)) == (["1-270"], ["271-300"])
    assert recipe.held_out == "the last 30 of 300 lines are held out as validation data: `data.valid` is not set"
    write("short.txt", ["A line."] * 20)
    assert choices(split([{"text": "novel.txt"}, {"text": "short.txt"}], "bert").data.train) == ["1-270", ""]
    assert split({"text": "short.txt"}, "bert").data.valid == ()
    write("chapters.txt", ["A long chapter of it. " * 50] * 12)
    chapters = split({"text": "chapters.txt", "documents": "line"}, "bert")
    assert (choices(chapters.data.train), choices(chapters.data.valid)) == (["1-10"], ["11-12"])
    write("one.txt", ["All of it. " * 5000])
    one = split({"text": "one.txt"}, "language")
    assert one.data.valid == ()
    assert why_not_split(one) == "one.txt is one line, and lines are not divided (`fold -s` breaks it into several)"
    later = split({"text": "novel.txt", "lines": "101-200"}, "bert").data
    assert (choices(later.train), choices(later.valid)) == (["101-180"], ["181-200"])


def test_pairs_and_variants_are_split_by_their_source() -> None:
    write("a.en", [f"sentence {number % 100}" for number in range(200)])
    write("a.de", [f"Satz {number}" for number in range(200)])
    recipe = split({"source": "a.en", "target": "a.de"}, "transformer")
    train, valid = ({one for one, _ in read_pairs(getattr(recipe.data, name)[0])} for name in ("train", "valid"))
    assert len(train) + len(valid) == 100


# --- what needs validation data ---------------------------------------------------------------------------------------


def test_a_metric_is_enough_to_ask_for_a_split_and_refused_where_there_is_none() -> None:
    metric = {"validation": {"metric": "f1"}}
    assert split(TEXTS, train=metric).data.valid
    write("b.tsv", ["x\tone", "y\ttwo"])
    with refuses(
        '`train.validation.metric` is "f1", which needs `data.valid`. There are too few rows to hold some out: name a '
        "validation corpus."
    ):
        split({**TEXTS, "tsv": "b.tsv"}, train=metric)
    with refuses(
        "`train.average.best` needs ... Training corpora with `part` or `sample` are not split: name a validation "
        "corpus."
    ):
        split({**TEXTS, "part": "0/2"}, train={"average": {"best": 2}})


# --- runs -------------------------------------------------------------------------------------------------------------


def recipe_file(extra: str = "") -> Path:
    path = Path("my.toml")
    path.write_text(f'[data]\ntrain = {{ tsv = "a.tsv", label = 1, text = 2 }}\n{extra}{TINY}')
    return path


def test_a_run_says_saves_and_keeps_its_split(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe_file()
    assert command(["train", "my.toml", "--out", "run"]) == 0
    assert "texts are held out as validation data: `data.valid` is not set\n" in capsys.readouterr().err
    saved = read_recipe(Path("run")).data
    assert (choices(saved.train), choices(saved.valid)) == (["1-9/10"], ["0/10"])
    write("a.tsv", [*Path("a.tsv").read_text().splitlines()])
    resumed = recipe_of_run(Path("run"), load_recipe("my.toml"), resume=True)
    assert (resumed.data.train, resumed.data.valid) == (saved.train, saved.valid)
    assert command(["train", "my.toml", "--out", "run", "--resume", "--set", "train.steps=3"]) == 0
    assert "held out" not in capsys.readouterr().err
    assert command(["evaluate", "run", "--split", "valid"]) == 0


def test_a_resumed_run_without_a_split_stays_without(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe_file("valid = []\n")
    assert command(["train", "my.toml", "--out", "run"]) == 0
    recipe_file()  # as an earlier version trained it
    assert command(["train", "my.toml", "--out", "run", "--resume", "--set", "train.steps=3"]) == 0
    assert read_recipe(Path("run")).data.valid == ()
    assert "held out" not in capsys.readouterr().err


def test_a_resumed_recipe_that_lost_its_validation_corpus_gets_no_other() -> None:
    said = load_recipe({"data": {"train": TEXTS}, "model": {"family": "classifier"}})
    other = load_recipe(
        {"data": {"train": TEXTS, "valid": {**TEXTS, "tsv": "b.tsv"}}, "model": {"family": "classifier"}}
    )
    assert with_split_of(said, other) is said
    assert with_split_of(load_recipe(said, {"data.valid": []}), split(TEXTS)).data.valid == ()
    assert with_values_of(said, with_followed_defaults(said)).data == with_followed_defaults(said).data


def test_a_rare_label_that_is_held_out_is_a_class_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    rare = next(f"rare {number}" for number in range(100) if not texts_of_part(f"rare {number}"))
    with Path("a.tsv").open("a") as file:
        file.write(f"odd\t{rare}\n")
    recipe_file()
    assert command(["train", "my.toml", "--out", "run"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert read_description(Path("run"))[1].labels == ("bad", "good", "odd")
    assert command(["doctor", "my.toml", "--quick"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "note valid: labels that no training text has: `odd`" in told
    assert "Only rows that are held out have them, so that they are not learned: collect more." in told


def test_the_doctor_says_why_there_is_no_validation_data(capsys: pytest.CaptureFixture[str]) -> None:
    recipe_file("valid = []\n")
    assert command(["doctor", "my.toml", "--quick"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "there is no validation data: `data.valid` is empty. The last model is kept instead of the best one" in told


def test_rows_in_memory_are_split_unless_valid_is_an_empty_list() -> None:
    rows = [(f"film {number}", "bad" if number % 2 else "good") for number in range(100)]
    recipe = {
        key: value for key, value in load_recipe(recipe_file()).model_dump(exclude_unset=True).items() if key != "data"
    }
    shown = StringIO()
    run = heedful.train(recipe, "run", train=rows, console=Console(file=shown, width=200))
    assert choices(run.recipe.data.valid) == ["0/5"]
    assert "of 100 texts are held out" in shown.getvalue()
    whole = heedful.train(recipe, "whole", train=rows, valid=[], quiet=True)
    assert whole.recipe.data.valid == ()
    again = heedful.train(recipe, "run", {"train.steps": 3}, resume=True, train=rows, quiet=True)
    assert again.recipe.data.valid == run.recipe.data.valid
    with refuses("`train` has no rows: ..."):
        heedful.train(recipe, "none", train=[], quiet=True)
