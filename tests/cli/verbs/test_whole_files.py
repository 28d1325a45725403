"""`--data FILE` of every verb that answers, with a small model of each task: the same rows, with answers."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.shared.refusals import like

import heedful
from heedful.cli.main import run

BUNDLES = Path(__file__).parents[2] / "golden" / "bundles"
Capture = pytest.CaptureFixture[str]
TABLE = 'id;text;label\n1;"a; ""nice""\nfilm";x\n2;;y\n3;dull;\n'
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "Anna lives in Rome.",
                    "qas": [
                        {"id": "q1", "question": "Where does Anna live?", "answers": [{"text": "Paris"}]},
                        {"id": "q2", "question": "Who lives in Rome?"},
                    ],
                }
            ]
        }
    ]
}


def answer(capsys: Capture, verb: str, model: str, *arguments: str | Path, code: int = 0) -> list[str]:
    assert run([verb, str(BUNDLES / model), "--device", "cpu", *map(str, arguments)]) == code
    return capsys.readouterr().out.splitlines()


def refused(capsys: Capture, verb: str, model: str, *arguments: str | Path) -> str:
    assert run([verb, str(BUNDLES / model), "--device", "cpu", *map(str, arguments)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err.removeprefix("heedful: error: ").rstrip("\n")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "it.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """Two classes of images, of which one is damaged, and a table that names them and one that is not there."""
    folder, random = tmp_path_factory.mktemp("images"), np.random.default_rng(1)
    for name in ("a/1.png", "b/2.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(random.integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(folder / name)
    (folder / "b" / "bad.png").write_bytes(b"\x89PNG and nothing")
    rows = [(name, "How many?") for name in ("a/1.png", "b/bad.png", "gone.png", "b/2.png")]
    (folder / "it.csv").write_text(
        "".join(f"{image},{question}\n" for image, question in [("image", "question"), *rows])
    )
    return folder


COLUMNS = [
    ("classify", "classifier-bag", ["predicted_label", "probability"]),
    ("classify", "classifier-bert-several", ["labels"]),
    ("regress", "regressor-bag", ["number"]),
    ("tag", "tagger-transformer", ["labels", "probabilities"]),
    ("parse", "parser", ["tree"]),
    ("generate", "language-transformer", ["continuation"]),
    ("score", "language-transformer", ["log_probability", "per_piece"]),
    ("embed", "classifier-bag", ["vector"]),
]


@pytest.mark.parametrize(("verb", "model", "columns"), COLUMNS, ids=[f"{row[0]} {row[1]}" for row in COLUMNS])
def test_a_table_comes_back_with_its_answers(
    verb: str, model: str, columns: list[str], table: Path, capsys: Capture, one_thread: None
) -> None:
    lines = answer(capsys, verb, model, "--data", table)
    header, first, blank, last = csv.reader((f"{line}\n" for line in lines), delimiter=";")
    assert header == ["id", "text", "label", *columns]
    assert (first[:3], blank[:3], last[:3]) == (["1", 'a; "nice"\nfilm', "x"], ["2", "", "y"], ["3", "dull", ""])
    assert blank[3:] == [""] * len(columns)
    assert last[3] or model == "classifier-bert-several"
    objects = [json.loads(line) for line in answer(capsys, verb, model, "--data", table, "--format", "jsonl")]
    assert [row["id"] for row in objects] == ["1", "2", "3"]
    assert all(column in row for row in objects for column in columns)


def test_the_name_of_the_output_decides_its_format(table: Path, tmp_path: Path, capsys: Capture) -> None:
    assert not answer(capsys, "classify", "classifier-bag", "--data", table, "-o", tmp_path / "out.jsonl")
    assert [json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == ["1", "2", "3"]
    assert not answer(capsys, "classify", "classifier-bag", "--data", table, "-o", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text().startswith("id;text;label;predicted_label;")


def test_sources_and_masks_have_their_own_columns(tmp_path: Path, capsys: Capture, one_thread: None) -> None:
    (tmp_path / "it.tsv").write_text("source\ttarget\na dog runs\tx\n\ty\n")
    translated = answer(capsys, "translate", "transformer", "--data", tmp_path / "it.tsv", "--scores", "--alignments")
    assert translated[0] == "source\ttarget\ttranslation\tscore\talignment"
    assert [line.count("\t") for line in translated] == [4] * 3
    scored = answer(capsys, "score", "transformer", "--data", tmp_path / "it.tsv", "--tokens")
    assert scored[0].split("\t")[2:] == ["log_probability", "per_piece", "tokens"]
    (tmp_path / "masks.txt").write_text("the [MASK] runs\nno mask\n")
    lines = answer(capsys, "fill", "bert", "--data", tmp_path / "masks.txt", code=2)
    assert lines[0] == "text\tfilled"
    assert (lines[1].startswith("the [MASK] runs\tthe "), lines[2]) == (True, "no mask\t")


def test_questions_in_squad_form_and_in_tables(tmp_path: Path, capsys: Capture, one_thread: None) -> None:
    (tmp_path / "dev.json").write_text(json.dumps(SQUAD))
    found = [json.loads(line) for line in answer(capsys, "answer", "reader", "--data", tmp_path / "dev.json")]
    assert [(row["id"], row["question"]) for row in found] == [
        ("q1", "Where does Anna live?"),
        ("q2", "Who lives in Rome?"),
    ]
    assert all(row["text"] == "Anna lives in Rome." and "answer" in row for row in found)
    row = {"question": "Who?", "context": "Anna.", "answers": {"text": ["Anna"], "answer_start": [0]}}
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps({**row, 'n': number})}\n" for number in (1, 2)))
    found = [json.loads(line) for line in answer(capsys, "answer", "reader", "--data", tmp_path / "rows.jsonl")]
    assert [(row["n"], row["context"], "answer" in row) for row in found] == [(1, "Anna.", True), (2, "Anna.", True)]
    assert answer(capsys, "evaluate", "reader", "--data", tmp_path / "rows.jsonl")[0].startswith("exact match")
    (tmp_path / "it.csv").write_text('question,passage\nWho?,"Anna, in Rome."\nWho?,\n')
    asked: list[str | Path] = ["--data", tmp_path / "it.csv", "--set", "data.text=passage"]
    lines = answer(capsys, "answer", "reader", *asked)
    assert (lines[0], lines[2]) == ("question,passage,answer,probability", "Who?,,,")
    several = (
        "--n-best gives several answers to a row, which a table has no place for: add --format jsonl, whose field "
    )
    assert refused(capsys, "answer", "reader", *asked, "--n-best", "2") == f"{several}`nbest` has them."
    first, _ = map(json.loads, answer(capsys, "answer", "reader", *asked, "--n-best", "2", "--json"))
    assert len(first["nbest"]) == 2


IMAGE_VERBS = [
    ("classify", "images-vit", ["label", "probability"]),
    ("regress", "images-numbers", ["number"]),
    ("caption", "captions-transformer", ["caption"]),
    ("answer", "answers-about-images", ["answer", "probability"]),
    ("embed", "images-convolutional", ["vector"]),
]


@pytest.mark.parametrize(("verb", "model", "columns"), IMAGE_VERBS, ids=[row[0] for row in IMAGE_VERBS])
def test_images_of_a_table_that_cannot_be_read_have_no_answer_and_the_command_fails(
    verb: str, model: str, columns: list[str], images: Path, capsys: Capture
) -> None:
    assert run([verb, str(BUNDLES / model), "--data", str(images / "it.csv"), "--device", "cpu"]) == 2
    shown = capsys.readouterr()
    header, *rows = csv.reader(shown.out.splitlines())
    assert header == ["image", "question", *columns]
    assert [(row[0], bool(row[2])) for row in rows] == [
        ("a/1.png", True),
        ("b/bad.png", False),
        ("gone.png", False),
        ("b/2.png", True),
    ]
    assert shown.err.splitlines()[1:] == [
        f"  {images}/it.csv, line 3: {images}/b/bad.png is not an image: it must be PNG, JPEG or WebP.",
        f"  {images}/it.csv, line 4 names the image {images}/gone.png, which is not a file.",
    ]


def test_folders_and_arrays_of_images(images: Path, tmp_path: Path, capsys: Capture) -> None:
    header, *rows = answer(capsys, "classify", "images-vit", "--data", images, "--all", code=2)
    assert header.split("\t")[:4] == ["image", "label", "predicted_label", "probability"]
    assert [row.split("\t")[:2] for row in rows] == [
        [f"{images}/{name}", name[0]] for name in ("a/1.png", "b/2.png", "b/bad.png")
    ]
    np.savez(tmp_path / "it.npz", x=np.zeros((2, 64, 64, 3), np.uint8))
    assert [
        line.split("\t")[0] for line in answer(capsys, "classify", "images-vit", "--data", tmp_path / "it.npz")
    ] == [
        *("image", "1", "2"),
    ]


def test_vectors_of_images_and_rows_as_an_array(images: Path, table: Path, tmp_path: Path, capsys: Capture) -> None:
    (line,) = answer(capsys, "embed", "images-vit", images / "a" / "1.png")
    model: Any = heedful.load(BUNDLES / "images-vit", "cpu")
    vectors = model.embed([images / "a" / "1.png", images / "b" / "2.png"])
    assert json.loads(line)["vector"] == pytest.approx(vectors[0].tolist(), rel=1e-4)
    assert model.embed(images / "a" / "1.png").tolist() == pytest.approx(vectors[:1], rel=1e-4)
    assert model.embed([]).shape == (0, vectors.shape[1])
    answer(capsys, "embed", "classifier-bag", "--data", table, "-o", tmp_path / "it.npy")
    array = np.load(tmp_path / "it.npy")
    assert (len(array), array[1].any()) == (3, False)  # the blank row has no words
    assert refused(capsys, "embed", "images-vit", images, "--pool", "max") == (
        "--pool, --layer and --markers apply to the tokens of texts, not to images: leave them out."
    )


# --- what is refused --------------------------------------------------------------------------------------------------


def test_rows_given_as_lines_are_refused_with_the_way_out(table: Path, tmp_path: Path, capsys: Capture) -> None:
    assert refused(capsys, "classify", "classifier-bag", table) == (
        f"{table} is not plain text, but a table with the columns `id`, `text`, `label`: give it as --data {table}, or "
        f"as standard input (`< {table}`) if each line of it is a text."
    )
    conll = tmp_path / "it.conll"
    conll.write_text("# sent_id = 1\nThe\tDT\ndog\tNN\n\nIt\tPR\n")
    assert refused(capsys, "tag", "tagger-transformer", conll) == like(f"{conll} is not plain text, but words ...")
    (tmp_path / "it.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    assert "JSON lines" in refused(capsys, "generate", "language-transformer", tmp_path / "it.jsonl")
    (tmp_path / "dev.json").write_text(json.dumps(SQUAD))
    assert "SQuAD" in refused(capsys, "answer", "reader", tmp_path / "dev.json")
    plain = tmp_path / "it.txt"
    plain.write_text("Well, it is, after all, a film.\nOne, two, three.\nNice.\n\nDull, but long, and slow.\n")
    assert len(answer(capsys, "classify", "classifier-bag", plain)) == 5
    (tmp_path / "pairs.tsv").write_text("a film\ta good film\nb\tc\n")
    assert len(answer(capsys, "classify", "classifier-recurrent-pairs", tmp_path / "pairs.tsv")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "data.text=x"], "--set applies to the rows of a file: name it by --data, or leave --set out."),
        (["--format", "csv"], "--format applies to the rows ..."),
        (["--data", "-"], "--data is read more than once, which standard input cannot be: name a file."),
        (["--data", "FILE", "it.txt"], "--data FILE has what is to be answered: leave out other files and texts."),
        (
            ["--data", "FILE", "--json", "--format", "csv"],
            "--json and --format csv contradict each other: leave one out.",
        ),
        (["--data", "FILE", "--set", "data.text=x"], "FILE has no column `x`, but id, text, label: ..."),
    ],
)
def test_options_that_contradict_each_other(
    arguments: Sequence[str], message: str, table: Path, capsys: Capture
) -> None:
    given = [str(table) if argument == "FILE" else argument for argument in arguments]
    expected = message.replace("FILE", str(table))
    assert refused(capsys, "classify", "classifier-bag", *given) == like(expected)


def test_a_question_is_not_a_file(capsys: Capture) -> None:
    assert refused(capsys, "answer", "reader", "Who is it?") == (
        "`Who is it?` is not a file: give a question by --question, and its text by --context."
    )
    assert refused(capsys, "answer", "answers-about-images", "Who is it?").endswith("and its image by --image.")
    assert refused(capsys, "answer", "reader", "Who?") == (
        "Who?: no such file (give a question by --question, and its text by --context)."
    )
    assert refused(capsys, "answer", "reader", "questions.jsonl") == like("questions.jsonl: no such file...")
    assert refused(capsys, "answer", "reader", "--context", "Rome", "-Q", "Where?") == (
        "Rome: no such file (a text of one word is read from standard input, by --context -)."
    )
    assert refused(capsys, "answer", "reader", "--context", "", "-Q", "Who?") == like(
        "--context: the text is empty: ..."
    )


def test_a_missing_model_is_told_before_missing_inputs(tmp_path: Path, capsys: Capture) -> None:
    for verb in (
        "classify",
        "translate",
        "tag",
        "parse",
        "answer",
        "caption",
        "regress",
        "embed",
        "fill",
        "generate",
        "score",
    ):
        assert run([verb, str(tmp_path / "no-model"), str(tmp_path / "no-file.txt")]) == 2
        assert capsys.readouterr().err == like(
            f"heedful: error: {tmp_path}/no-model is not a folder: ...\n"[:-1] + "\n"
        )


# --- evaluation -------------------------------------------------------------------------------------------------------


def test_a_file_that_the_recipe_does_not_name_is_evaluated(table: Path, capsys: Capture, one_thread: None) -> None:
    table.write_text("words,truth\na nice film,good\ndull,bad\nnice,good\n")
    settings: list[str | Path] = ["--data", table, "--set", "data.text=words", "--set", "data.label=truth"]
    assert answer(capsys, "evaluate", "classifier-bag", *settings)[0].startswith("accuracy ")
    table.write_text("text,label\na nice film,good\ndull,bad\nnice,good\n")
    of_file = heedful.evaluate(BUNDLES / "classifier-bag", table, device="cpu")
    of_rows = heedful.evaluate(BUNDLES / "classifier-bag", [("a nice film", "good"), ("dull", "bad"), ("nice", "good")])
    assert [score.value for score in of_file.scores()] == [score.value for score in of_rows.scores()]
    expected = "--split chooses among the recipe's corpora: leave it out next to --data."
    assert refused(capsys, "evaluate", "classifier-bag", "--data", table, "--split", "test") == expected
    assert refused(capsys, "evaluate", "classifier-bag", "--data", table, "--source", table) == (
        "--data is a whole test set: leave out --source and --target, or give them without --data."
    )
    assert refused(capsys, "evaluate", "classifier-bag", "--set", "data.text=x") == like("--set applies to the ...")


def test_all_rows_of_a_table_without_a_header_are_answered(tmp_path: Path, capsys: Capture, one_thread: None) -> None:
    path = tmp_path / "it.tsv"
    path.write_text("x\treview\n" + "".join(f"{'xy'[number % 2]}\tfilm {number}\n" for number in range(9)))
    assert len(answer(capsys, "classify", "classifier-bag", "--data", path)) == 10
