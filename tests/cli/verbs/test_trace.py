"""`heedful trace` as a user sees it."""

import json
from pathlib import Path

import numpy as np
import pytest

import heedful
from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]
BUNDLES = Path(__file__).parents[2] / "golden/bundles"
TEXT = "the dog sees the tree."


def trace(name: str, *arguments: str) -> int:
    return run(["trace", str(BUNDLES / name), TEXT, *arguments])


def test_a_worked_example_is_printed(capsys: Capture) -> None:
    assert trace("transformer", "--head", "2", "--query", "2", "--target", "der") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("encoder, layer 1, head 2: query 2 of ")
    assert "q . k  / sqrt(4)    softmax  v" in shown
    assert "sum of weights times v = [" in shown


def test_json_has_every_number(capsys: Capture) -> None:
    assert trace("language-transformer", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    model = heedful.load(BUNDLES / "language-transformer", "cpu")
    expected = model.explain(TEXT).attention("decoder").weights[0, 0]  # type: ignore[call-arg]
    np.testing.assert_allclose(np.array(found["steps"][-1]["values"]), expected, atol=1e-6)
    assert found["steps"][-2]["values"][0][1] is None  # the second token, which the first does not see


def test_a_page_is_written_for_a_head_and_for_a_cell(tmp_path: Path, capsys: Capture) -> None:
    for name in ("transformer", "recurrent-bahdanau"):
        assert trace(name, "--target", "der", "-o", str(tmp_path / "page.html")) == 0
        assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        assert capsys.readouterr().err.endswith("kB): open it in a browser.\n")


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("transformer", ["--layer", "3"], "There is no head 1 in layer 3 of `encoder`: the model has 2 layers of 2 heads."),
    ("transformer", ["--query", "99", "--target", "der"], "There is no token 99: `encoder` has"),
    ("transformer", ["--kind", "cell"], "This model has no recurrent cell"),
    ("language-recurrent", ["--kind", "encoder"], "of `encoder`: the model has no heads of this kind."),
    ("language-recurrent", ["--direction", "backward"], "This network reads in one direction"),
    ("language-recurrent", ["--target", "x"], "--target is for translators, but the task of this model is `generate`"),
    ("classifier-bag", [], "This model has neither heads of attention nor recurrent cells"),
    ("pictures-vit", [], "Models of the task `classify_pictures` are not traced"),
    ("transformer", ["-o", "page.txt"], "page.txt: a page is a file that ends in .html"),
])  # fmt: skip
def test_wrong_input_is_one_line(name: str, arguments: list[str], message: str, capsys: Capture) -> None:
    assert trace(name, *arguments) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
