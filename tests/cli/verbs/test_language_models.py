"""Verbs that know several tasks, with language models: score, evaluate, embed, tokens and compare."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.cli.verbs.test_generate import write
from tests.shared.refusals import like, refuses
from tests.unit.tasks.text_generators import language_bundle

import heedful
from heedful.cli.main import run
from heedful.config.corpora.containers import PlainText
from heedful.config.tokenizer import Words
from heedful.tasks.generate.model import TextGenerator

Capture = pytest.CaptureFixture[str]
DOCUMENTS = ("the cat sat on the mat .", "the dog saw it .", "a story of a cat", "a dog") * 3


def model_on(folder: Path, name: str, texts: Path, seed: int = 5, tokenizer: Words | None = None) -> Path:
    """A model whose recipe has a test corpus of four documents, three times."""
    bundle = language_bundle(tokenizer)
    if seed != 5:
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in bundle.model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    test = (PlainText(text=str(texts), documents="line"),)
    data = bundle.recipe.data.model_copy(update={"test": test, "folder": ""})
    return write(folder / name, replace(bundle, recipe=bundle.recipe.model_copy(update={"data": data})))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("language")
    (home / "test.txt").write_text("".join(f"{text}\n" for text in DOCUMENTS))
    model_on(home, "a", home / "test.txt")
    model_on(home, "b", home / "test.txt", seed=6)
    model_on(home, "words", home / "test.txt", tokenizer=Words(kind="word"))
    return home


def refused(capsys: Capture, *arguments: object) -> str:
    assert run([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err.removeprefix("heedful: error: ").rstrip("\n")


# --- score ------------------------------------------------------------------------------------------------------------


def test_score_writes_the_log_probability_of_each_text(folder: Path, capsys: Capture) -> None:
    assert run(["score", str(folder / "a"), "the cat", "-t", "dog", "--device", "cpu"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = TextGenerator.load(folder / "a", "cpu").score(["the cat", "dog"])
    assert lines == [[f"{one.log_probability:.4f}", f"{one.per_piece:.4f}"] for one in expected]
    assert run(["score", str(folder / "a"), "-t", "dog", "--tokens", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.split("\t")[2].split()[::2] == ["d", "o", "g", "</s>"]


def test_score_takes_a_file_as_one_text(folder: Path, capsys: Capture) -> None:
    assert run(["score", str(folder / "a"), str(folder / "test.txt"), "--whole", "--stride", "9", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    (expected,) = TextGenerator.load(folder / "a", "cpu").score(["\n".join(DOCUMENTS)], stride=9)
    assert json.loads(line)["log_probability"] == pytest.approx(expected.log_probability, rel=1e-5)


def test_score_refuses_what_belongs_to_the_other_kind_of_model(
    folder: Path, reversing_folder: Path, capsys: Capture
) -> None:
    model, file = folder / "a", folder / "test.txt"
    assert refused(capsys, "score", model, "--source", file, "--target", file) == (
        f"--source is for translators, which {model} is not: leave it out."
    )
    assert refused(capsys, "score", model, "-t", "a\tb", "--rerank") == (
        f"--rerank is for translators, which {model} is not: leave it out."
    )
    assert refused(capsys, "score", reversing_folder, "-t", "ant\tant", "--stride", "3") == (
        f"--stride is for language models, which {reversing_folder} is not: leave it out."
    )
    assert refused(capsys, "score", model, "-t", "a", "--stride", "99") == (
        "--stride is 99, but must be from 1 to 24, the length of a window."
    )


# --- evaluate ---------------------------------------------------------------------------------------------------------


def test_evaluate_takes_the_stride_of_a_language_model(folder: Path, capsys: Capture) -> None:
    assert run(["evaluate", str(folder / "a"), "--stride", "3", "--json", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out)["corpora"][0]
    in_python = heedful.evaluate(folder / "a", stride=3, device="cpu")["1"].to_json()
    assert found["stride"] == 3
    assert found["documents"] == len(DOCUMENTS)
    assert found["perplexity"] == in_python["perplexity"]
    assert found["uniform_perplexity"] == TextGenerator.load(folder / "a", "cpu").vocabularies["text"].size


def test_a_stride_is_refused_for_other_tasks(folder: Path, reversing_folder: Path, capsys: Capture) -> None:
    assert refused(capsys, "evaluate", reversing_folder, "--stride", "3") == (
        f"--stride is for language models, which {reversing_folder} is not: leave it out."
    )
    assert refused(capsys, "evaluate", folder / "a", "--beam", "3") == (
        f"--beam is for translators, which {folder / 'a'} is not: leave it out."
    )
    with refuses("`stride` is for language models, which The model is not: leave it out."):
        heedful.evaluate(heedful.Translator.load(reversing_folder, "cpu"), [("ant", "ant")], stride=3)


# --- embed and tokens -------------------------------------------------------------------------------------------------


def test_embed_writes_the_vectors_of_a_language_model(folder: Path, capsys: Capture) -> None:
    assert run(["embed", str(folder / "a"), "the cat", "--pool", "last", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = TextGenerator.load(folder / "a", "cpu").embed("the cat", pool="last")[0]
    assert found["vector"] == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-5)


def test_tokens_shows_the_characters_that_a_language_model_reads(folder: Path, capsys: Capture) -> None:
    assert run(["tokens", str(folder / "a"), "the cat"]) == 0
    assert capsys.readouterr().out.split("\t")[0] == "t h e ▁ c a t"


# --- compare ----------------------------------------------------------------------------------------------------------


def test_compare_pairs_language_models_by_document(folder: Path, capsys: Capture) -> None:
    a, b = str(folder / "a"), str(folder / "b")
    assert run(["compare", a, b, "--samples", "200", "--json", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out)
    bits, words = found["metrics"]
    assert (bits["metric"], words["metric"]) == ("bits per byte", "word perplexity")
    for name, side in ((a, "a"), (b, "b")):
        scores = TextGenerator.load(name, "cpu").score(DOCUMENTS)
        total = -sum(score.log_probability for score in scores)
        assert bits[side]["mean"] == pytest.approx(total / math.log(2) / len("".join(DOCUMENTS)), rel=1e-4)
        assert words[side]["mean"] == pytest.approx(math.exp(total / len(" ".join(DOCUMENTS).split())), rel=1e-3)
    assert found["sentences"] == len(DOCUMENTS)
    assert found["unit"] == "document"
    assert heedful.compare(a, b, samples=200, device="cpu").metrics[0].difference == pytest.approx(bits["difference"])


def test_compare_knows_models_with_different_vocabularies(folder: Path, capsys: Capture) -> None:
    assert run(["compare", str(folder / "a"), str(folder / "words"), "--samples", "100", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "12 documents of" in out
    assert "By length: words of the document" in out
    assert "By frequency" not in out


def test_a_model_does_not_differ_from_itself(folder: Path) -> None:
    found = heedful.compare(folder / "a", folder / "a", samples=100, device="cpu", metrics=["word_perplexity"])
    assert found.metrics[0].difference == 0
    assert found.metrics[0].better is None


def test_compare_refuses_what_language_models_do_not_have(
    folder: Path, reversing_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    a, b, file = folder / "a", folder / "b", folder / "test.txt"
    assert refused(capsys, "compare", a, b, "--beam", "3") == (
        f"--beam is for translators, which {a} is not: leave it out."
    )
    assert refused(capsys, "compare", a, file) == (
        f"{file} has translations, but {a} is a model that generates text: compare it with another model."
    )
    assert refused(capsys, "compare", a, b, "--metric", "bleu") == like(
        "`bleu` is not a metric that ... generates text. Known: bits_per_byte, word_perplexity."
    )
    assert refused(capsys, "compare", a, reversing_folder) == (
        f"{reversing_folder} is a model that translates, but {a} is one that generates text: compare models of one "
        "task."
    )
    assert refused(capsys, "compare", a, b, "--split", "valid") == (
        f"{a}: its recipe has no `data.valid`: add --split test."
    )
    with refuses(f"`references` is for translators, which {a} is not: leave it out."):
        heedful.compare(a, b, references=["a"])
    with refuses(f"ours has translations, but {a} is a model that generates text: compare it ..."):
        heedful.compare(a, heedful.System("ours", ("a",)))
    other = tmp_path / "other.txt"
    other.write_text("the cat\n")
    alone = model_on(tmp_path, "alone", other)
    assert refused(capsys, "compare", a, alone) == (
        f"{a} and {alone} read different documents of the test set, or other labels or another form of text, as their "
        "recipes differ: only scores on the same ones can be compared."
    )
    assert refused(capsys, "compare", alone, alone) == (
        f"{other} is one document, but a comparison needs at least two, as it draws documents: divide it with "
        '`documents = "blank_line"` in the recipes, or compare the scores of `heedful evaluate`.'
    )
