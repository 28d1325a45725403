"""Adapters as a user sees them: `heedful train` with one, `--adapter`, and `heedful merge`."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.refusals import like

from heedful.cli.main import run

BASE = Path(__file__).parents[2] / "golden/bundles/transformer"
Capture = pytest.CaptureFixture[str]
Ask = Callable[..., str]
TEXTS = ["the dog sees the tree today.", "a bird likes a small fish."]
GERMAN = ["der Hund sieht den Baum heute.", "ein Vogel mag einen Fisch."]
RECIPE = """
[data]
train = { source = "a.en", target = "a.de" }
valid = { source = "a.en", target = "a.de" }
test = { source = "a.en", target = "a.de" }
batch_tokens = 100
[train]
start_from = "base"
adapter = { kind = "lora", rank = 2 }
steps = 4
schedule = { kind = "constant", lr = 0.05 }
device = "cpu"
threads = 1
report = false
validation = { every = 4 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a base, and two adapters that the command line has trained."""
    made = tmp_path_factory.mktemp("merge")
    shutil.copytree(BASE, made / "base")
    (made / "my.toml").write_text(RECIPE)
    for name, lines in (("a.en", TEXTS), ("a.de", GERMAN)):
        (made / name).write_text("".join(f"{line}\n" for line in lines * 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setenv("HEEDFUL_CACHE", str(made / "cache"))
        for number in "12":
            assert run(["train", "my.toml", "--out", f"adapter-{number}", "--set", f"train.seed={number}"]) == 0
    return made


@pytest.fixture
def ask(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Ask:
    """Run a command in the folder, and return what it prints."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HEEDFUL_CACHE", str(folder / "cache"))

    def ask(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run([*words]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return ask


def test_a_model_translates_with_its_adapter_as_the_merged_one_does(folder: Path, ask: Ask) -> None:
    plain = ask("translate", "base", "a.en")
    first, second = (ask("translate", "base", "a.en", "--adapter", f"adapter-{number}") for number in "12")
    assert len({plain, first, second}) == 3
    assert ask("translate", "adapter-1", "a.en") == first
    printed = ask("merge", "base", "adapter-1", "-o", "merged")
    assert printed == "base with the adapter adapter-1 is in merged\n"
    assert ask("translate", "merged", "a.en") == first
    assert ask("translate", "base", "a.en") == plain


def test_an_adapter_is_quantized_together_with_its_base(ask: Ask) -> None:
    printed = ask("quantize", "adapter-1", "-o", "adapter-int8")
    assert printed == ask("quantize", "base", "-o", "base-int8").replace("base", "adapter-1", 1).replace(
        "base-int8", "adapter-int8"
    )
    assert ask("translate", "adapter-int8", "a.en")


def test_what_was_merged_may_be_told_as_json(ask: Ask) -> None:
    assert json.loads(ask("merge", "base", "adapter-2", "-o", "merged-2", "--json")) == {
        "model": "merged-2", "base": "base", "adapter": "adapter-2", "next": "heedful translate merged-2 < text.txt"
    }  # fmt: skip
    assert ask("merge", "base", "adapter-2", "-o", "merged-2", code=2) == like(
        "heedful: error: merged-2 already holds a model: ...\n"
    )


def test_every_verb_that_answers_has_the_option(ask: Ask) -> None:
    def scores(*words: str) -> str:
        return ask("score", *words)

    pairs = ("--source", "a.en", "--target", "a.de")
    assert scores("base", *pairs, "--adapter", "adapter-1") == scores("adapter-1", *pairs)
    assert scores("base", *pairs, "--adapter", "adapter-1") != scores("base", *pairs)
    embedded = ask("embed", "base", "a.en", "--adapter", "adapter-1")
    assert embedded == ask("embed", "adapter-1", "a.en")

    def loss(*words: str) -> float:
        return float(json.loads(ask("evaluate", *words, "--json"))["corpora"][0]["perplexity"])

    assert loss("base", "--adapter", "adapter-1") == loss("adapter-1") != loss("adapter-2")


def test_an_adapter_belongs_to_one_model(ask: Ask) -> None:
    assert ask("evaluate", "base", "adapter-1", "--adapter", "adapter-2", code=2) == (
        "heedful: error: --adapter is an adapter of one model, but several models are given: name one.\n"
    )
    other = str(BASE.parent / "recurrent-cho")
    assert ask("translate", other, "a.en", "--adapter", "adapter-1", code=2) == like(
        f"heedful: error: adapter-1 adapts another model than {other}: ...\n"
    )
    assert ask("translate", "base", "a.en", "--adapter", "nowhere", code=2) == like(
        "heedful: error: nowhere is not a folder: ...\n"
    )


def test_parts_of_a_batch_job_are_of_one_adapter(folder: Path, ask: Ask) -> None:
    words = ("translate", "base", "a.en", "--output", "parts", "--shard", "1/1")
    ask(*words, "--adapter", "adapter-1")
    assert "--adapter" in ask(*words, "--adapter", "adapter-2", code=2)
    assert ask("join", "parts") == ask("translate", "adapter-1", "a.en")
