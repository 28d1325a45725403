"""`heedful shortlist`, and `--shortlist` of the verbs that translate, as a user sees them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from tests.shared.refusals import Refusal, each, like

import heedful
from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]
Sentences = Callable[[int], list[str]]


@pytest.fixture
def model(reversing_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reversing_folder, tmp_path / "model"))


def learn(model: Path, *arguments: str | int | Path) -> int:
    return run(["shortlist", str(model), *map(str, arguments)])


def test_a_shortlist_is_learned_once_and_then_used(
    model: Path, sentences: Sentences, tmp_path: Path, capsys: Capture
) -> None:
    assert learn(model) == 0
    told = capsys.readouterr()
    assert told.out == like(f"{model}/shortlist.safetensors: ... target tokens for a source token, learned from ...\n")
    assert told.out.endswith("learned from the 40 training pairs\n")
    assert told.err == f"heedful: next: heedful translate {model} --shortlist < text.txt\n"
    (tmp_path / "text").write_text("\n".join(sentences(12)))
    shown = []
    for options in ([], ["--shortlist"]):
        assert run(["translate", str(model), str(tmp_path / "text"), "--device", "cpu", *options]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_only_tokens_of_the_list_are_found(model: Path, tmp_path: Path, capsys: Capture) -> None:
    for name in ("in", "out"):
        (tmp_path / name).write_text("ant\n")
    files = ("--source", tmp_path / "in", "--target", tmp_path / "out")
    assert learn(model, *files, "--candidates", 1, "--frequent", 0, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": f"{model}/shortlist.safetensors",
        "learned_from": "the 1 training pair",
        "tokens_each": pytest.approx(1, abs=0.5),
    }
    loaded = heedful.Translator.load(model, device="cpu")
    for found in loaded.translate(["bee cat", "ant dog hen"], shortlist=True, beam=3):
        assert set(found.split()) <= {"bee", "cat", "ant", "dog", "hen"}
    assert {*loaded.translate("bee bee", shortlist=True).split()} <= {"bee"}
    assert loaded.translate("bee cat", shortlist=True, require=["hen"]) == loaded.translate("bee cat", require=["hen"])
    assert loaded.translate("", shortlist=True) == ""


def test_evaluation_takes_a_shortlist(model: Path, capsys: Capture) -> None:
    assert learn(model) == 0
    capsys.readouterr()
    scores = []
    for options in ([], ["--shortlist"]):
        assert run(["evaluate", str(model), "--device", "cpu", "--json", *options]) == 0
        scores.append(json.loads(capsys.readouterr().out))
    of_corpora = [json.dumps(score).partition('"bleu"')[2][:40] for score in scores]
    assert of_corpora[0] == of_corpora[1] != ""


def test_python_learns_what_the_command_learns(model: Path) -> None:
    assert learn(model, "--candidates", 3, "--frequent", 2) == 0
    by_command = load_file(model / "shortlist.safetensors")
    learned = heedful.learn_shortlist(model, candidates=3, frequent=2)
    assert learned.path == model / "shortlist.safetensors"
    assert all((part == by_command[name]).all() for name, part in load_file(learned.path).items())


def test_a_model_in_int8_keeps_the_shortlist(model: Path, sentences: Sentences, tmp_path: Path) -> None:
    heedful.learn_shortlist(model)
    heedful.quantize(model, tmp_path / "int8")
    loaded, texts = heedful.Translator.load(tmp_path / "int8", device="cpu"), sentences(12)
    assert loaded.translate(texts, shortlist=True) == loaded.translate(texts)


def test_a_model_without_one_says_how_to_learn_it(model: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "text").write_text("ant\n")
    assert run(["translate", str(model), str(tmp_path / "text"), "--shortlist", "--device", "cpu"]) == 2
    assert capsys.readouterr().err == (
        f"heedful: error: {model} has no shortlist.safetensors, which a shortlist is made of: learn it by `heedful "
        f"shortlist {model}`.\n"
    )


def test_a_shortlist_that_is_not_asked_for_is_not_read(model: Path, tmp_path: Path, capsys: Capture) -> None:
    (model / "shortlist.safetensors").write_text("anything")
    (tmp_path / "text").write_text("ant bee\n")
    assert run(["translate", str(model), str(tmp_path / "text"), "--device", "cpu"]) == 0
    assert capsys.readouterr() == ("bee ant\n", "")


@each(
    [
        Refusal(
            "one side alone",
            lambda model: heedful.learn_shortlist(model, source="text.en"),
            "A shortlist is learned from pairs: give both `source` and `target`, or neither.",
        ),
        Refusal(
            "a language of the training corpora",
            lambda model: heedful.learn_shortlist(model, to="de"),
            "`to` is the language of `source` and `target`, but the recipe's corpora have their own: leave it out.",
        ),
        Refusal(
            "no candidates",
            lambda model: heedful.learn_shortlist(model, candidates=0),
            like("`candidates` ... 0, but must be ..."),
        ),
    ]
)
def test_what_cannot_be_learned_is_refused(refusal: Refusal, model: Path) -> None:
    refusal.check(model)


def test_a_model_of_another_task_has_no_shortlist(capsys: Capture) -> None:
    bundle = Path("tests/golden/bundles/language-recurrent")
    assert learn(bundle) == 2
    assert capsys.readouterr().err == (
        f"heedful: error: {bundle} generates text, but shortlists are for models that translate.\n"
    )
