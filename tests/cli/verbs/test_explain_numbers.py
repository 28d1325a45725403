"""`heedful explain --attribute`, `--lens` and `--patch` as a user sees them."""

import json
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]
BUNDLES = Path(__file__).parents[2] / "golden/bundles"


def explain(model: str, *arguments: str | Path) -> int:
    return run(["explain", str(BUNDLES / model), "--device", "cpu", *map(str, arguments)])


def model_named(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


def test_json_has_the_numbers_of_python(capsys: Capture) -> None:
    asked = ("--json", "--no-gradients", "--attribute", "erasure", "--lens", "--patch", "The film was mull.")
    assert explain("classifier-transformer", "--text", "The film was dull.", *asked) == 0
    found, model = json.loads(capsys.readouterr().out), model_named("classifier-transformer")
    text = "The film was dull."
    expected = (model.attribute(text, kind="erasure"), model.lens(text), model.patch(text, "The film was mull."))
    for one in expected:
        assert found[one.name] == json.loads(json.dumps(one.to_json()))


def test_what_was_not_asked_is_not_there(capsys: Capture) -> None:
    assert explain("classifier-bag", "--json", "--text", "The film was dull.") == 0
    assert not {"attribution", "lens", "patch"} & json.loads(capsys.readouterr().out).keys()


def test_a_given_output_is_explained_against_another(capsys: Capture) -> None:
    asked = ("--json", "--attribute", "gradient", "--against", "der Hund")
    assert explain("recurrent-cho", "--text", "the dog", "--target-text", "der Mann", *asked) == 0
    found = json.loads(capsys.readouterr().out)["attribution"]
    expected = model_named("recurrent-cho").attribute("the dog", "der Mann", against="der Hund", kind="gradient")
    assert found == json.loads(json.dumps(expected.to_json()))


def test_a_page_draws_them(tmp_path: Path) -> None:
    asked = ("--attribute", "integrated", "--lens", "--patch", "The film was mull.", "-o", tmp_path / "page.html")
    assert explain("classifier-transformer", "--text", "The film was dull.", *asked) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for name in ("attribution-text", "lens", "patch-encoder"):
        assert f'"name": "{name}"' in page or f'"name":"{name}"' in page
    pair = ("--attribute", "gradient", "--patch", "The film was dull.\tI liked at.", "-o", tmp_path / "pair.html")
    assert explain("classifier-gpt-pairs", "--text", "The film was dull.\tI liked it.", *pair) == 0


@pytest.mark.parametrize(("model", "arguments", "message"), [
    (
        "classifier-bag",
        ["--attribute", "gradient", "--svg"],
        "--attribute, --lens and --patch add to a page or to --json: leave out --svg, --map and --swap.",
    ),
    (
        "classifier-bag",
        ["--against", "bad"],
        "--against is what an attribution compares with: add --attribute integrated.",
    ),
    (
        "tagger-transformer",
        ["--lens"],
        "--attribute, --lens and --patch are for translators, language models, masked language models, classifiers and "
        "regressors of texts, but the task of this model is `tag`: leave them out.",
    ),
    ("recurrent-cho", ["--attribute", "sum"], "`sum` is not a kind of attribution"),
    ("recurrent-cho", ["--lens"], "The lens reads the layers of a Tr"),
])  # fmt: skip
def test_what_cannot_be_answered_is_refused(
    model: str, arguments: list[str], message: str, tmp_path: Path, capsys: Capture
) -> None:
    assert explain(model, "--text", "the dog", "-o", tmp_path / "page.html", *arguments) == 2
    assert message in capsys.readouterr().err
