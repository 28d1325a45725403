"""`heedful init`: what it says about files of people, the recipes that it writes, and what it refuses to guess."""

import io
import json
import os
import tomllib
from collections.abc import Callable
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import pytest
from tests.shared.people_files import PEOPLE_FILES, PeopleFile
from tests.shared.people_rows import draw, json_lines, opinions, table, translations, written
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.config.reading.load import load_recipe

Init = Callable[..., tuple[int, str, str]]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Init:
    """Run `heedful init` in a folder of its own; return the exit code, the output and the messages."""
    monkeypatch.chdir(tmp_path)

    def init(*arguments: str) -> tuple[int, str, str]:
        code = run(["init", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return init


def data(path: str = "recipe.toml") -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))["data"]
    return found


@pytest.mark.parametrize("kind", PEOPLE_FILES, ids=str)
def test_every_kind_of_file_gets_a_recipe_for_its_task(kind: PeopleFile, init: Init, tmp_path: Path) -> None:
    names = [os.path.relpath(path, tmp_path) for path in kind.make(tmp_path)]
    code, out, err = init(*names, *kind.options, "-o", "recipe.toml")
    assert (code, "error" in err) == (0, False), err
    recipe = load_recipe("recipe.toml")
    assert recipe.rules.name == kind.task
    assert recipe.data.valid
    assert err.startswith(f"heedful: {names[0]} is ")
    assert out.startswith(f"recipe.toml: a recipe for {recipe.rules.learner} (")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["heedful", verb] for verb in ("doctor", "train", "evaluate", recipe.rules.verb)
    ]


def test_the_recipe_has_its_reasons_and_what_training_chooses(init: Init, tmp_path: Path) -> None:
    written(tmp_path, "reviews.csv", table([("id", "text", "label"), *((i, *row) for i, row in enumerate(opinions()))]))
    code, out, err = init("reviews.csv")
    assert (code, out) == (
        0,
        "reviews.toml: a recipe for a classifier (`text` is the text, `label` is the label). Next:\n"
        "  heedful doctor reviews.toml\n"
        "  heedful train reviews.toml --out runs/reviews\n"
        "  heedful evaluate runs/reviews --split valid\n"
        "  heedful classify runs/reviews --data reviews.csv\n",
    )
    text = (tmp_path / "reviews.toml").read_text()
    start = """\
# Written by `heedful init reviews.csv`.
# reviews.csv is a table with the columns `id`, `text`, `label` (40 rows).
#   id     id      a different value in each row
#   text   text    40 different texts in 40 rows, 47 characters on average
#   label  label   2 values in 40 rows: positive, negative
# Names of files are relative to the folder in which heedful is run. `heedful config explain KEY` explains a
# key, `heedful config show reviews.toml` shows all.

# a classifier: `text` is the text, `label` is the label
task = "classify"

[data]
# For training: three quarters of the rows, chosen by the hash of their content: equal rows stay together
train = { csv = "reviews.csv", separator = ",", text = "text", label = "label", part = "1-3/4" }
# For validation, which chooses the best model: the other rows
valid = { csv = "reviews.csv", separator = ",", text = "text", label = "label", part = "0/4" }
# test = { ... } would name data that training never sees, for the final score.
# Training chooses for """
    assert text.startswith(start)
    assert "\n[train]\n# Training chooses for " in text
    assert [line.removeprefix("heedful: ") for line in err.splitlines()[:4]] == [
        line.removeprefix("# ") for line in start.splitlines()[1:5]
    ]


def test_a_recipe_is_never_overwritten(init: Init, tmp_path: Path) -> None:
    written(tmp_path, "a.csv", table([("text", "label"), *opinions()]))
    (tmp_path / "a.toml").write_text("mine")
    assert init("a.csv") == (
        2,
        "",
        "heedful: error: a.toml already exists, and is not overwritten: choose another name with --output.\n",
    )
    assert (tmp_path / "a.toml").read_text() == "mine"
    assert init("a.csv", "-o", "b.toml")[0] == 0


def test_a_dash_prints_the_recipe_and_json_tells_what_was_found(init: Init, tmp_path: Path) -> None:
    written(tmp_path, "a.csv", table([("text", "label"), *opinions()]))
    _, text, _ = init("a.csv", "-o", "-", "--set", "train.steps=7", "--quiet")
    assert tomllib.loads(text)["train"] == {"steps": 7}
    code, out, _ = init("a.csv", "--json")
    found = json.loads(out)
    assert (code, found["task"], found["recipe"], len(found["next"])) == (0, "classify", "a.toml", 4)
    assert found["files"][0]["columns"][1]["kind"] == "label"
    assert found["text"] == (tmp_path / "a.toml").read_text()


def test_a_recipe_in_another_folder_finds_its_files(init: Init, tmp_path: Path) -> None:
    written(tmp_path, 'da\'ta/my "file".csv', table([("Text ü", "标签"), *opinions()]))
    (tmp_path / "recipes").mkdir()
    assert init('da\'ta/my "file".csv', "-o", "recipes/a.toml")[0] == 0
    found = data("recipes/a.toml")
    assert found["folder"] == str(tmp_path)
    assert [found["train"][key] for key in ("csv", "text", "label")] == ['da\'ta/my "file".csv', "Text ü", "标签"]


def test_names_of_files_say_the_splits(init: Init, tmp_path: Path) -> None:
    for name in ("train.csv", "validation.csv", "my test.csv"):
        written(tmp_path, name, table([("text", "label"), *opinions()]))
    assert init("my test.csv", "train.csv", "validation.csv", "-o", "recipe.toml")[0] == 0
    assert {split: corpus["csv"] for split, corpus in data().items()} == {
        "train": "train.csv",
        "valid": "validation.csv",
        "test": "my test.csv",
    }
    assert init("my test.csv", "-o", "b.toml")[0] == 0  # the only file is for training, whatever it is called
    assert data("b.toml")["train"]["csv"] == "my test.csv"


def test_few_documents_are_divided_by_position_and_one_row_is_not(init: Init, tmp_path: Path) -> None:
    written(tmp_path, "one.txt", "All of it is here. " * 300)
    assert "one.txt is plain text, one sentence or more per line (1 line)." in init("one.txt", "-o", "recipe.toml")[2]
    assert (list(data()), "part" in data()["train"]) == (["train"], False)
    assert "too few rows to hold some out" in Path("recipe.toml").read_text(encoding="utf-8")
    written(tmp_path, "two.txt", ("A line of it.\nAnother one.\n" * 15 + "\n") * 2)
    init("two.txt", "--task", "fill", "-o", "two.toml")
    assert [data("two.toml")[split]["lines"] for split in ("train", "valid")] == ["1-55", "56-62"]


def test_a_validation_set_is_never_empty_where_rows_repeat(init: Init, tmp_path: Path) -> None:
    sentences = [f"der\tDET\n{noun}\tNOUN\nsieht\tVERB\n{other}\tNAME\n\n" for noun in "abcd" for other in "xyz"]
    written(tmp_path, "a.conll", "".join(sentences * 8))
    init("a.conll", "-o", "recipe.toml")
    assert load_recipe("recipe.toml").data.valid[0].part != "0/10"
    assert run(["config", "check", "recipe.toml"]) == 0


def test_a_parser_writes_tags_where_words_have_them(init: Init, tmp_path: Path) -> None:
    for name, tree in (("tags.mrg", "(S (NP (NN a)) (VP (VBZ {})))\n"), ("moods.trees", "(3 (2 a) (4 {}))\n")):
        written(tmp_path, name, "".join(tree.format(number) for number in range(80)))
        init(name, "-o", f"{name}.toml")
    assert [data(f"{name}.toml")["train"].get("leaves") for name in ("tags.mrg", "moods.trees")] == ["tag", None]


def test_columns_of_one_name_are_given_by_number(init: Init, tmp_path: Path) -> None:
    rows = [("text", "text", "label"), *((f"a b {n}", f"c d {n}", "xy"[n % 2]) for n in range(60))]
    written(tmp_path, "a.csv", table(rows))
    code, out, _ = init("a.csv", "-o", "recipe.toml")
    assert (code, "(column 1 is the text, column 2 is the second text, `label` is the label)" in out) == (0, True)
    assert run(["config", "check", "recipe.toml"]) == 0


def test_a_column_of_exactly_the_name_comes_before_others(init: Init, tmp_path: Path) -> None:
    draw(tmp_path / "a.png", "red", 1.0, 1)
    rows = [
        ("a.png", f"Is it {one} ?", other, "yes") for one in "abc" for other in ("colour", "size") for _ in range(9)
    ]
    written(tmp_path, "a.csv", table([("image", "question", "question_type", "answer"), *rows]))
    assert init("a.csv", "-o", "recipe.toml")[0] == 0
    assert data()["train"]["question"] == "question"


def test_few_captions_are_not_labels_and_a_first_row_of_phonemes_is_not_a_header(init: Init, tmp_path: Path) -> None:
    draw(tmp_path / "a.png", "red", 1.0, 1)
    rows = [{"path": "a.png", "caption": f"a {colour} star"} for colour in ("red", "blue") * 30]
    written(tmp_path, "a.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    assert ": a recipe for a captioner (" in init("a.jsonl")[1]
    words = list(islice(permutations("abcdefgh", 5), 0, 4000, 50))
    written(tmp_path, "w.tsv", "".join(f"{''.join(word)}\t{' '.join(word).upper()}\n" for word in words))
    assert init("w.tsv", "-o", "recipe.toml")[0] == 0
    assert data()["train"]["header"] is False


def test_several_files_of_one_kind_are_one_corpus(init: Init, tmp_path: Path) -> None:
    for name in ("a.tsv", "b.tsv"):
        written(tmp_path, name, table([("text", "label"), *opinions()], "\t"))
    assert init(".", "-o", "recipe.toml")[0] == 0
    assert [corpus["tsv"] for corpus in data()["train"]] == ["a.tsv", "b.tsv"]


def test_folders_of_images_for_each_split(init: Init, tmp_path: Path) -> None:
    for number in range(12):
        for split in ("train", "test"):
            draw(tmp_path / f"cars/{split}/{('red', 'blue')[number % 2]}/{number}.png", "red", 0.5, number)
    assert init("cars", "-o", "recipe.toml")[0] == 0
    assert (data()["train"]["images"], data()["test"]["images"]) == ("cars/train", "cars/test")


def test_languages_and_sides_decide_the_direction(init: Init, tmp_path: Path) -> None:
    pairs = translations({"film": "Film", "the": "der", "was": "war"})
    for one, other in (("tgt-train.txt", "src-train.txt"), ("x.ru-en.en", "x.ru-en.ru")):
        written(tmp_path, one, "".join(f"{line}\n" for line, _ in pairs))
        written(tmp_path, other, "".join(f"{line}\n" for _, line in pairs))
        assert init(one, other, "-o", f"{one}.toml")[0] == 0
        assert data(f"{one}.toml")["train"]["source"] == other


def test_tables_that_are_sorted_by_label_are_read_to_their_end(init: Init, tmp_path: Path) -> None:
    rows = [(label, 3, f"{text} {'and so on ' * 60}") for label in ("bad", "good") for text, _ in opinions(500)]
    written(tmp_path, "long.tsv", table(rows, "\t"))
    json_lines(tmp_path, "long.jsonl", [{"review": text, "verdict": label} for label, _, text in rows])
    written(tmp_path, "many.csv", table([("a", "b"), *((f"a {n}", label) for label in "xy" for n in range(3000))]))
    for name in ("long.tsv", "long.jsonl", "many.csv"):
        code, _, err = init(name, "-o", f"{name}.toml")
        assert (code, load_recipe(f"{name}.toml").rules.name) == (0, "classify"), err
    assert err.startswith("heedful: many.csv is a table with the columns `a`, `b` (2,000 rows were looked at).")


def test_numbers_that_are_ratings_or_labels(init: Init, tmp_path: Path) -> None:
    rows = [(text, i % 5) for i, (text, _) in enumerate(opinions())]
    written(tmp_path, "a.csv", table([("text", "x"), *rows]))
    assert init("a.csv")[1].startswith("a.toml: a recipe for a classifier ")
    assert init("a.csv", "--task", "regress", "-o", "b.toml")[1].startswith("b.toml: a recipe for a regressor ")
    written(tmp_path, "c.csv", table([("text", "stars"), *rows]))
    assert init("c.csv")[1].startswith("c.toml: a recipe for a regressor ")


# --- what cannot be known ---------------------------------------------------------------------------------------------


def opinions_with(tmp_path: Path, *names: str) -> None:
    rows = [(text, label, "xyz"[i % 3], text[::-1]) for i, (text, label) in enumerate(opinions())]
    written(tmp_path, "a.csv", table([names, *(row[: len(names)] for row in rows)]))


def test_several_labels_are_a_choice(init: Init, tmp_path: Path) -> None:
    opinions_with(tmp_path, "text", "label", "category")
    assert init("a.csv") == (
        2,
        "",
        "heedful: error: a.csv: several things can be learned from it. Add one of: --column label=label (a classifier: "
        "`text` is the text, `label` is the label); --column label=category (a classifier: `text` is the text, "
        "`category` is the label).\n",
    )
    assert init("a.csv", "--column", "label=category")[0] == 0
    assert data("a.toml")["train"]["label"] == "category"
    assert init("a.csv", "--column", "label=2", "-o", "b.toml")[0] == 0
    assert data("b.toml")["train"]["label"] == "label"


def test_a_separator_and_a_header_in_doubt_are_a_choice(init: Init, tmp_path: Path) -> None:
    written(tmp_path, "a.csv", "".join(f"a b {i};c d {i},e f {i}\n" for i in range(9)))
    assert init("a.csv")[2] == (
        "heedful: error: a.csv: the separator of its columns is not clear. Add one of: --separator ';' (columns are "
        "separated by semicolons); --separator ',' (columns are separated by commas).\n"
    )
    written(tmp_path, "b.tsv", "dog\tHund\ncat\tKatze\nhouse\tHaus\n")
    assert init("b.tsv")[2] == (
        "heedful: error: b.tsv: is its first line, `dog`, `Hund`, the names of columns? Add one of: --header (the "
        "first line has the names of columns); --no-header (the first line is data).\n"
    )
    assert init("b.tsv", "--no-header")[0] == 0
    assert data("b.toml")["train"] | {"part": ""} == {
        "tsv": "b.tsv", "source": 1, "target": 2, "header": False, "part": ""
    }  # fmt: skip


def test_a_terminal_is_asked(init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opinions_with(tmp_path, "text", "label", "category")
    monkeypatch.setattr("heedful.cli.verbs.init._can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("9\n2\n"))
    code, out, err = init("a.csv")
    assert (code, "`category` is the label" in out) == (0, True)
    assert err.startswith(
        "a.csv: several things can be learned from it.\n"
        "  1  a classifier: `text` is the text, `label` is the label\n"
        "  2  a classifier: `text` is the text, `category` is the label\n"
        "1 to 2 [1]: 1 to 2 [1]: heedful: a.csv is a table"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert "`label` is the label" in init("a.csv", "-o", "b.toml")[1]
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert init("a.csv", "-o", "c.toml")[0] == 2


def made(folder: Path) -> None:
    """Files for refusals."""
    written(folder, "empty.csv", "\n")
    written(folder, "iris.csv", "length,width\n" + "".join(f"{i}.5,{i}.2\n" for i in range(20)))
    written(folder, "a.csv", table([("text", "label"), *opinions()]))
    written(folder, "b.csv", table([("review", "label"), *opinions()]))
    written(folder, "a.trees", "(S (NP (NN a)))\n")
    written(folder, "names.csv", "text,label\n")
    written(folder, "ft.txt", "__label__x a text\n__label__y another\n")
    written(folder, "one.en", "a\nb\n")
    written(folder, "one.de", "a\n")
    written(folder, "photos.csv", "image,label\na.png,x\nb.png,y\n")
    for language in ("cs", "de", "en", "fr"):
        written(folder, f"many/train.{language}", "a\nb\n")
    written(folder, "story.txt", "Once upon a time.\n\nThe end.\n")
    draw(folder / "loose/a.png", "red", 0.5, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("empty.csv", "empty.csv is empty: give a file with data."),
        (
            "iris.csv",
            "iris.csv has the columns length (number), width (number), of which none is a text or an image that "
            "something can be learned from: name the columns with --column text=NAME and --column label=NAME, or "
            "--column source=NAME and --column target=NAME.",
        ),
        (
            "a.csv --task regress",
            "a.csv has the columns text (text), label (label), which are not enough for --task regress: a regressor "
            "learns from texts with numbers: give `text` and `number`; name columns with --column text=NAME.",
        ),
        ("a.csv --task sing", "--task sing: there is no such task. Known: translate, ..."),
        ("a.csv --column lable=x", "--column lable=x: `lable` is not a role of a column. Did you mean `label`?"),
        ("a.csv --column label=lable", "--column label=lable: a.csv has no such column. Did you mean `label`?"),
        ("a.csv --column label", "--column label: must be a role and a column, as in --column label=sentiment."),
        ("a.csv --separator :", "--separator :: must be one of , ; | or tab."),
        (
            "a.csv b.csv",
            "b.csv has no column `text`, which is the text in the other files: give files with the same columns.",
        ),
        ("names.csv", "names.csv has the names of columns, but no rows: give a file with data."),
        ("none.csv", "none.csv: no such file."),
        (
            "a.csv a.trees",
            "a.csv is a table with the columns `text`, `label`, but a.trees is bracketed trees, one per line, with a "
            "label at the root: give the files of one corpus, which may be split into training, validation and test "
            "files.",
        ),
        (
            "a.trees --task tag",
            "--task tag: a.trees is bracketed trees, one per line, with a label at the root, from which a parser "
            "learns (--task parse); a tagger learns from words with labels: ...",
        ),
        (
            "a.trees --column label=x",
            "--column: a.trees is bracketed trees, one per line, with a label at the root, which has no columns: leave "
            "it out.",
        ),
        (
            "ft.txt",
            "ft.txt has labels as fastText writes them (`__label__x text`): make a table of it with "
            r"`sed 's/^__label__\([^ ]*\) */\1\t/' ft.txt > ft.tsv`.",
        ),
        (
            "one.en one.de",
            "one.en has 2 lines and one.de 1, but line n of one must be the translation of line n of the other: "
            "correct the files.",
        ),
        (
            "many",
            "many/train.cs, many/train.de, many/train.en: which two of these are translations? Give the files of two "
            "languages, or add --task generate for a language model of all.",
        ),
        (
            "photos.csv",
            "photos.csv: column `image` has names of images, 0 of the first 2 found: paths are relative to the folder "
            "of the table. Move the table, or correct the paths.",
        ),
        (
            "loose",
            "loose has 1 image, but nothing that says what is to be learned about them: put images into one folder for "
            "each class, or add a table (CSV, TSV or JSON lines) with their paths.",
        ),
        (
            "loose/a.png",
            "loose/a.png is an image: give the folder of all images, with one folder for each class in it, or a table "
            "(CSV, TSV or JSON lines) with the path of each image and what is to be learned about it.",
        ),
        ("story.txt --task classify", "--task classify: story.txt is running text, but a classifier learns from ..."),
        (
            "story.txt --task translate",
            "story.txt is running text: a translator learns from pairs of files, or from a table with two columns of "
            "texts.",
        ),
    ],
)
def test_what_is_refused(arguments: str, message: str, init: Init, tmp_path: Path) -> None:
    made(tmp_path)
    code, out, err = init(*arguments.split(), "-o", "recipe.toml")
    assert (code, out) == (2, "")
    assert err == like(f"heedful: error: {message}\n")
    assert not (tmp_path / "recipe.toml").exists()
