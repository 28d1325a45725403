"""`heedful answer` with a model that reads images, and what other verbs say of it."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.reading import fresh_reader, reader_recipe
from tests.models.text import written

from heedful.cli.main import run
from heedful.config.reading.load import recipe_from_json
from heedful.config.tokenizer import Words
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import write_description, write_weights
from heedful.models.from_recipe.network import build_network

Capture = pytest.CaptureFixture[str]
ANSWERS = ("no", "red", "yes")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that was never trained, next to an image."""
    folder = tmp_path_factory.mktemp("model")
    test = {"tsv": str(folder / "test.tsv"), "image": 1, "question": 2, "answer": 3, "group": 4, "name": "test"}
    small = {"width": 8, "heads": 2, "layers": 1, "inner": 8}
    recipe = recipe_from_json(
        {
            "data": {"train": [test], "test": [test]},
            "tokenizer": {"kind": "word"},
            "model": {
                "family": "image_answerer",
                "encoder": {"family": "vit", "patch": 4, "grid": 2, **small},
                "question": {"family": "transformer", **small},
            },
        },
        "recipe",
    )
    torch.manual_seed(1)
    tokenizer = train_tokenizer(Words(kind="word"), ["is it red ?", "what colour is it ?"], (), False)
    vocabularies = Vocabularies({"text": tokenizer}, ANSWERS)
    write_description(folder, recipe, vocabularies)
    write_weights(folder, build_network(recipe.model, vocabularies))
    Image.fromarray(np.full((8, 8, 3), (200, 0, 0), np.uint8)).save(folder / "it.png")
    (folder / "test.tsv").write_text("it.png\tis it red ?\tyes\tyes or no\nit.png\twhat colour is it ?\tred\tcolour\n")
    return folder


def answer(model: Path, *arguments: str | Path) -> int:
    return run(["answer", str(model), "--device", "cpu", *map(str, arguments)])


def test_models_are_compared_by_the_questions_of_their_test_set(model: Path, capsys: Capture) -> None:
    assert run(["compare", str(model), str(model), "--samples", "100", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "\n2 questions of " in shown
    assert "No real difference: +0.00 accuracy (95% interval +0.00 to +0.00), p = 1.000" in shown


def test_questions_about_an_image_give_one_line_each(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert answer(model, "--question", "is it red ?", "-Q", "what colour is it ?", "--image", model / "it.png") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 2
    assert all(text in ANSWERS and 1 / 3 < float(share) <= 1 for text, share in rows)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"is it red ?\n\nwhat colour is it ?\n")))
    assert answer(model, "--image", model / "it.png", "--n-best", "2") == 0
    first, blank, second = capsys.readouterr().out.splitlines()
    assert (first.split("\t")[:2], blank, second.split("\t")[:2]) == (rows[0], "", rows[1])
    assert len(first.split("\t")) == 4


def test_json_has_all_probabilities_and_files_name_their_images(model: Path, tmp_path: Path, capsys: Capture) -> None:
    row = {"question": "is it red ?", "image": str(model / "it.png")}
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n")
    assert answer(model, tmp_path / "q.jsonl", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {key: found[key] for key in row} == row
    assert {*found["probabilities"]} == {*ANSWERS}
    assert found["probabilities"][found["answer"]] == found["probability"] == max(found["probabilities"].values())
    assert "nbest" not in found
    assert answer(model, tmp_path / "q.jsonl", "--json", "-n", "2") == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["text"] for each in found["nbest"]] == [*found["probabilities"]][:2]
    assert found["nbest"][0] == {"text": found["answer"], "probability": found["probability"]}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-Q", "why ?"], "This model answers questions about images: give the image by --image."),
        (
            ["-Q", "why ?", "--context", "a cat"],
            "--context gives a text, but this model answers questions about images: give --image instead.",
        ),
        (
            ["-Q", "why ?", "--image", "it.png", "--max-answer", "3"],
            "--max-answer and --threshold apply to answers in a text, not to images: leave them out.",
        ),
        (["-Q", "why ?", "--image", "none.png"], "none.png: no such file."),
        (["-Q", "why ?", "--image", "."], ".: this is a folder, but must be an image."),
        (["-Q", " ", "--image", "it.png"], "--question: the question is empty:"),
        (["-Q", "why ?", "--image", "words.txt"], "words.txt is not an image but text: it must be PNG, JPEG or WebP."),
        (
            ["q.jsonl", "-Q", "why ?"],
            'FILE has questions with their images (one JSON object per line: {"question": "...", "image": "..."}): '
            "leave out --question and --image.",
        ),
        (["q.jsonl"], "q.jsonl, line 1 has no field `image`. Known: question."),
    ],
)
def test_each_mistake_is_one_line_and_exit_code_2(
    model: Path, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("a line\n")
    (tmp_path / "q.jsonl").write_text('{"question": "why ?"}\n')
    (tmp_path / "it.png").write_bytes((model / "it.png").read_bytes())
    assert answer(model, *arguments) == 2
    assert told in capsys.readouterr().err


def test_a_reader_of_texts_refuses_an_image(tmp_path: Path, capsys: Capture) -> None:
    folder = written(fresh_reader(reader_recipe(tmp_path)), tmp_path)
    assert answer(folder, "-Q", "Who ?", "--image", "it.png") == 2
    told = "--image gives an image, but this model answers questions about texts: give --context instead."
    assert told in capsys.readouterr().err


def test_other_verbs_know_the_model(model: Path, capsys: Capture) -> None:
    assert run(["evaluate", str(model), "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "2 questions in " in shown
    assert "yes or no" in shown
    assert run(["classify", str(model), "--text", "x"]) == 2
    assert "is a model that answers questions about images: use `heedful answer`." in capsys.readouterr().err
    assert run(["evaluate", str(model), "--threshold", "1"]) == 2
    assert "--threshold is for readers, which" in capsys.readouterr().err
