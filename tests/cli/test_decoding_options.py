"""The decoding options of `heedful translate`, as a user types them."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.shared.refusals import like

from heedful.cli.main import run
from heedful.config.decode import Sampling
from heedful.config.tokenizer import Words
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import read_description, write_description, write_weights
from heedful.models.from_recipe.network import build_model
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text"
    path.write_text("ant bee cat\ndog\n")
    return str(path)


def lines(capsys: Capture, model: Path, *arguments: str) -> list[str]:
    assert run(["translate", str(model), "--device", "cpu", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_sampling(reversing_folder: Path, reversing: Translator, text: str, capsys: Capture) -> None:
    wild = ["--sample", "--temperature", "3", "--top-k", "6", "--top-p", "0.9", "--min-p", "0.01", "--seed", "4"]
    shown = [line.split("\t") for line in lines(capsys, reversing_folder, text, *wild, "--n-best", "3")]
    drawn = Sampling(3.0, 6, 0.9, 3, 4, 0.01)
    expected = reversing.translate_detailed(["ant bee cat", "dog"], sampling=drawn)
    assert [row[2] for row in shown] == [best.text for found in expected for best in found]
    assert [row[0] for row in shown] == ["1"] * 3 + ["2"] * 3


def test_constraints_and_penalties(reversing_folder: Path, text: str, capsys: Capture) -> None:
    assert lines(capsys, reversing_folder, text, "--prefix", "hen hen") != lines(capsys, reversing_folder, text)
    assert all(line.startswith("hen hen") for line in lines(capsys, reversing_folder, text, "--prefix", "hen hen"))
    assert all(len(line.split()) >= 4 for line in lines(capsys, reversing_folder, text, "--min-length", "4"))
    for line in lines(capsys, reversing_folder, text, "--min-length", "6", "--no-repeat", "1"):
        assert len(set(line.split())) == len(line.split()) >= 6
    shifted = ["--length-penalty-kind", "shifted", "--length-shift", "1", "--length-penalty", "1"]
    scores = [float(line.split("\t")[0]) for line in lines(capsys, reversing_folder, text, *shifted, "--scores")]
    objects = map(json.loads, lines(capsys, reversing_folder, text, *shifted, "--json"))
    for score, found in zip(scores, objects, strict=True):
        assert score == pytest.approx(found["log_probability"] / ((2 + len(found["tokens"])) / 2), abs=1e-4)
    covered = [
        float(line.split("\t")[0]) for line in lines(capsys, reversing_folder, text, "--coverage", "1", "--scores")
    ]
    plain = [float(line.split("\t")[0]) for line in lines(capsys, reversing_folder, text, "--scores")]
    assert all(a < b for a, b in zip(covered, plain, strict=True))


def test_alignments_are_a_last_column(reversing_folder: Path, text: str, capsys: Capture) -> None:
    for line in lines(capsys, reversing_folder, text, "--alignments", "--n-best", "2"):
        assert len(line.split("\t")) == 4
    shown = lines(capsys, reversing_folder, text, "--alignments")
    for line in shown:
        words, alignment = line.split("\t")
        pairs = [tuple(map(int, pair.split("-"))) for pair in alignment.split()]
        assert all(target < len(words.split()) for _, target in pairs)
    found = json.loads(lines(capsys, reversing_folder, text, "--alignments", "--json")[0])
    assert " ".join(f"{a}-{b}" for a, b in found["alignment"]["words"]) == shown[0].split("\t")[1]
    assert found["alignment"]["target_pieces"] == found["text"].split()


def test_an_ensemble(reversing_folder: Path, text: str, capsys: Capture) -> None:
    with_itself = lines(capsys, reversing_folder, text, "--with", str(reversing_folder))
    assert with_itself == lines(capsys, reversing_folder, text)


def refused(capsys: Capture, *arguments: str) -> str:
    assert run(["translate", *arguments]) == 2
    return capsys.readouterr().err.removeprefix("heedful: error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top-k", "3"], "--top-k applies to sampling: add --sample."),
        (["--seed", "3"], "--seed applies to sampling: add --sample."),
        (["--temperature", "0.5"], "--temperature applies to sampling: add --sample."),
        (["--top-p", "0.5"], "--top-p applies to sampling: add --sample."),
        (["--min-p", "0"], "--min-p applies to sampling: add --sample."),
        (["--sample", "--min-p", "2"], "--min-p is 2.0, but must be from 0, which is all tokens, to 1."),
        (["--beam", "10001"], "--beam is 10,001, but must be at most 10,000."),
        (
            ["--sample", "--beam", "4"],
            "--sample does not use a beam: leave out --beam; --n-best is the number of samples.",
        ),
        (["--json", "--scores"], "--json has the score in every object: leave out --scores."),
    ],
)
def test_idle_options_are_refused(text: str, options: list[str], message: str, capsys: Capture) -> None:
    assert refused(capsys, "no-model", text, *options) == message


def test_a_shift_of_another_kind_of_penalty_is_refused(
    reversing_folder: Path, text: str, tmp_path: Path, capsys: Capture
) -> None:
    message = "--length-shift applies to the shifted ... wu: add --length-penalty-kind shifted."
    model = str(reversing_folder)
    for verb in (["evaluate", model], ["compare", model, model]):
        assert run([*verb, "--length-shift", "1", "--device", "cpu"]) == 2
        assert capsys.readouterr().err.splitlines()[-1] == like(f"heedful: error: {message}")
    assert refused(capsys, model, text, "--length-shift", "1") == like(message)
    assert refused(capsys, model, text, "--length-shift", "0", "--length-penalty-kind", "wu") == like(message)
    recipe, tokenizers = read_description(reversing_folder)
    shifted = recipe.decode.model_copy(update={"length_penalty_kind": "shifted", "length_penalty": 1.0})
    folder = shutil.copytree(reversing_folder, tmp_path / "shifted")
    write_description(folder, recipe.model_copy(update={"decode": shifted}), tokenizers)
    by_recipe = lines(capsys, folder, text, "--length-shift", "1", "--scores")
    by_option = ["--length-penalty-kind", "shifted", "--length-penalty", "1", "--length-shift", "1"]
    assert by_recipe == lines(capsys, reversing_folder, text, *by_option, "--scores")
    assert by_recipe != lines(capsys, folder, text, "--length-shift", "3", "--scores")


def test_the_help_of_objects_names_what_they_have(capsys: Capture) -> None:
    assert run(["translate", "--help"]) == 0
    assert "text, score, token ids and more" in " ".join(re.sub("[│┃]", " ", capsys.readouterr().out).split())


def test_an_ensemble_of_other_vocabularies_is_refused(
    reversing_folder: Path, text: str, tmp_path: Path, capsys: Capture
) -> None:
    recipe, vocabularies = read_description(reversing_folder)
    own = vocabularies["source"]
    other = train_tokenizer(Words(kind="word"), ["ant bee yak"])
    shutil.rmtree(folder := tmp_path / "other", ignore_errors=True)
    write_description(folder, recipe, Vocabularies({"source": other, "target": other}))
    write_weights(folder, build_model(recipe.pair_model, other.size, other.size))
    message = refused(capsys, str(reversing_folder), text, "--with", str(folder))
    assert message == (
        f"{folder} has another source vocabulary ({other.size} pieces, {other.fingerprint[:8]}) than "
        f"{reversing_folder} ({own.size} pieces, {own.fingerprint[:8]}): models of an ensemble must "
        "share theirs."
    )


def test_a_prefix_that_cannot_be_tokenized_is_refused(reversing_folder: Path, text: str, capsys: Capture) -> None:
    assert refused(capsys, str(reversing_folder), text, "--prefix", "yak") == (
        "The prefix of line 1 cannot be tokenized: a part of `yak` is not in the vocabulary."
    )


def test_evaluating_an_ensemble_takes_one_model_and_the_others(reversing_folder: Path, capsys: Capture) -> None:
    model = str(reversing_folder)
    assert run(["evaluate", model, model, "--with", model]) == 2
    assert "--with makes one ensemble, but several models are given" in capsys.readouterr().err
    assert run(["evaluate", model, "--with", model, "--json", "--device", "cpu"]) == 0
    both = json.loads(capsys.readouterr().out)["corpora"][0]
    assert run(["evaluate", model, "--json", "--device", "cpu"]) == 0
    alone = json.loads(capsys.readouterr().out)["corpora"][0]
    assert both["bleu"] == alone["bleu"]
    assert both["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-4)
