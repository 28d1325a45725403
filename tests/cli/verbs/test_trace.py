"""`heedful trace` as a user sees it."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import heedful
from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]
BUNDLES = Path(__file__).parents[2] / "golden/bundles"
TEXT = "the dog sees the tree."


def trace(name: str, *arguments: str, of: str = TEXT) -> int:
    return run(["trace", str(BUNDLES / name), of, *arguments])


@pytest.fixture
def image(tmp_path: Path) -> str:
    path = tmp_path / "image.png"
    Image.fromarray(np.arange(40 * 72 * 3, dtype=np.uint8).reshape(40, 72, 3)).save(path)
    return str(path)


def test_a_worked_example_is_printed(capsys: Capture) -> None:
    assert trace("transformer", "--head", "2", "--query", "2", "--target-text", "der") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("encoder, layer 1, head 2: query 2 of ")
    assert "q . k  / sqrt(4)    softmax  v" in shown
    assert "sum of weights times v = [" in shown


def test_json_has_every_number(capsys: Capture) -> None:
    assert trace("language-transformer", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    model = heedful.TextGenerator.load(BUNDLES / "language-transformer", "cpu")
    expected = model.explain(TEXT).attention("decoder").weights[0, 0]
    np.testing.assert_allclose(np.array(found["steps"][-1]["values"]), expected, atol=1e-6)
    assert found["steps"][-2]["values"][0][1] is None  # the second token, which the first does not see


def test_a_page_is_written_for_a_head_and_for_a_cell(tmp_path: Path, capsys: Capture) -> None:
    for name in ("transformer", "recurrent-bahdanau"):
        assert trace(name, "--target-text", "der", "-o", str(tmp_path / "page.html")) == 0
        assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        assert capsys.readouterr().err.endswith("kB): open it in a browser.\n")


@pytest.mark.parametrize(("name", "arguments", "start"), [
    ("images-vit", [], "encoder, layer 1, head 1: query 1 of 16, `class`"),
    ("images-vit", ["--query", "3"], "encoder, layer 1, head 1: query 3 of 16, `1,2`"),
    ("captions-recurrent", [], "cross, layer 1, head 1: query "),
    ("answers-about-images", ["-Q", "is there a star ?", "--kind", "question"], "question, layer 1, head 1: query 7"),
])  # fmt: skip
def test_what_is_done_with_an_image_is_traced(
    name: str, arguments: list[str], start: str, image: str, capsys: Capture
) -> None:
    assert trace(name, *arguments, of=image) == 0
    assert capsys.readouterr().out.startswith(start)


def test_a_reader_and_a_classifier_of_pairs_are_traced(capsys: Capture) -> None:
    assert trace("reader", "--question", "Who sees the tree?") == 0
    assert capsys.readouterr().out.startswith("encoder, layer 1, head 1: query ")
    assert trace("classifier-recurrent-pairs", of="a dog runs\tan animal moves") == 0
    assert " cell, layer 1, forward: " in capsys.readouterr().out


def test_one_image_is_traced(image: str, capsys: Capture) -> None:
    Path(image).with_name("other.png").write_bytes(Path(image).read_bytes())
    folder = str(Path(image).parent)
    assert trace("images-vit", of=folder) == 2
    assert f"{folder} has 2 images, but one is traced: name its file." in capsys.readouterr().err
    assert trace("images-convolutional", of=image) == 2
    assert "This model has neither heads of attention nor recurrent cells" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("transformer", ["--layer", "3"], "There is no head 1 in layer 3 of `encoder`: the model has 2 layers of 2 heads."),
    ("transformer", ["--query", "99", "--target-text", "der"], "that attend here: choose --query from 1 to "),
    ("transformer", ["--kind", "question"], "no heads of this kind, but has heads of `encoder`, `decoder`, `cross`."),
    ("transformer", ["--kind", "cell"], "This model has no recurrent cell"),
    ("language-recurrent", ["--kind", "encoder"], "of `encoder`: the model has no heads of this kind."),
    ("language-recurrent", ["--direction", "backward"], "This network reads in one direction"),
    ("language-recurrent", ["--target-text", "x"], "--target-text is for translators, but"),
    ("classifier-bag", [], "This model has neither"),
    ("images-vit", [], "the tree.: no such file. This model reads images"),
    ("reader", [], "This model answers questions: add one"),
    ("transformer", ["--question", "Who?"], "--question is for models"),
    ("classifier-recurrent-pairs", [], "the text has 1 column, but this model reads pairs"),
    ("transformer", ["-o", "page.txt"], "page.txt: a page is a file that ends in .html"),
])  # fmt: skip
def test_wrong_input_is_one_line(name: str, arguments: list[str], message: str, capsys: Capture) -> None:
    assert trace(name, *arguments) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
