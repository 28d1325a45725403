"""`heedful plot` as a user sees it."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("arguments", [
    ["positions", "--length", "50", "--width", "16"],
    ["positions", "demo-en-es", "--length", "50"],
    ["schedule"],
    ["schedule", "demo-en-es", "--schedule", "cosine,lr=0.001,steps=500", "--log"],
    ["distribution", "softmax", "sparsemax", "--values", "1,0"],
    ["architecture", "demo-en-es"],
    ["unrolled", "rnnsearch", "--text", "a b"],
    ["unrolled", "--layers", "2", "--bidirectional"],
    ["cell", "gru"],
    ["cell", "sutskever"],
    ["layer-cost", "--width", "16", "--batch-tokens", "32", "--length", "16"],
    ["gradients", "--width", "8", "--length", "10"],
], ids=" ".join)  # fmt: skip
def test_every_plot_is_an_image(arguments: list[str], capsys: Capture) -> None:
    assert run(["plot", *arguments, "-o", "-"]) == 0
    assert ElementTree.fromstring(capsys.readouterr().out).tag.endswith("svg")


def test_an_alignment_is_drawn(reversing_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["plot", "alignment", str(reversing_folder), "ant bee", "-o", str(tmp_path / "a.svg")]) == 0
    assert ">bee</text>" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().err.endswith("kB): open it in a browser.\n")


def test_costs_of_layers_are_numbers_too(capsys: Capture) -> None:
    assert run(["plot", "layer-cost", "--width", "8", "--batch-tokens", "16", "--length", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    attention = next(row for row in found["layers"] if row["layer"] == "self_attention")
    assert attention["cost"] == {"16": 4 * 16 * 8**2 + 2 * 16**2 * 8, "20": 4 * 20 * 8**2 + 2 * 20**2 * 8}
    assert attention["path"] == {"16": 1, "20": 1}
    assert (found["width"], found["machine"]) == (8, "this CPU")


@pytest.mark.parametrize(("arguments", "message"), [
    (["postions"], "No such command 'postions'"),
    (["cell", "lstn"], "`lstn` is not a recurrent cell. Did you mean `lstm`"),
    (["positions", "--width", "7"], "--width is 7, but sinusoidal positions have an even number of dimensions."),
    (["positions", "--dimensions", "a"], "--dimensions: `a` is not a whole number from 0 on"),
    (["positions", "--set", "model.width=8"], "--set changes a recipe, but there is none"),
    (["distribution", "--values", "1,x"], "--values: `x` is not a number below a million"),
    (["layer-cost", "--work", "both"], "--work both needs a record with --results"),
    (["layer-cost", "--kernel", "4"], "--kernel is 4, but must be odd, so that a token is in the middle of what it"),
    (["architecture", "tests/golden/bundles/transformer", "--set", "model.layers=2"], "--set changes recipes only"),
    (["alignment", "tests/golden/bundles/bert", "some text"], "does not translate (its task is `fill`)"),
    (["alignment", "tests/golden/bundles/recurrent-cho", "the dog"], "has no attention over a source"),
    (["cell", "gru", "-o", "cell.jpg"], "cell.jpg: an image is a file that ends in .svg, .png, .html"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")  # fmt: skip
def test_wrong_input_is_one_line(arguments: list[str], message: str, capsys: Capture) -> None:
    assert run(["plot", *arguments]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
