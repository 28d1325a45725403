"""`heedful evaluate` of masked language models as a user sees it."""

from pathlib import Path
from statistics import mean

import pytest
from tests.cli.verbs.evaluate.evaluating import Capture, changed, evaluate, refused, shown
from tests.models.text import (
    film_texts,
    fresh_masked_model,
    masked_recipe,
    written,
)

from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.data.prepare.texts import prepare_texts
from heedful.models.bundle import read_bundle
from heedful.models.networks import MaskedModel
from heedful.tasks.fill.task import FillTask


@pytest.fixture
def masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A masked language model with random weights, its texts, and a cache of its own."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    for name, seed in (("train", 0), ("test", 5)):
        documents = ["\n".join(text.replace(" . ", " .\n").split("\n")) for _, text in film_texts(30, seed)]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(documents) + "\n")
    return written(fresh_masked_model(masked_recipe(tmp_path)), tmp_path / "masked")


def test_a_masked_model_scores_as_in_training(masked: Path, capsys: Capture) -> None:
    (corpus,) = shown(capsys, masked)["corpora"]
    bundle = read_bundle(masked, MaskedModel)
    bundle.model.eval()
    expected = dict(
        FillTask().validator(
            bundle, prepare_texts(bundle.recipe, given=bundle.vocabularies, documents=True, mask=True)
        )()
    )
    assert expected.pop("baseline_loss") > 0
    assert {name: corpus[name] for name in ("loss", "perplexity", "accuracy", "next_accuracy")} == {
        name: pytest.approx(score, rel=1e-5) for name, score in expected.items()
    }
    assert corpus["documents"] == 30
    assert corpus["masked_tokens"] > 30
    assert corpus["pairs"] > 0


def test_a_masked_models_scores_are_readable(masked: Path, capsys: Capture) -> None:
    (corpus,) = shown(capsys, masked)["corpora"]
    assert evaluate(masked) == 0
    accuracy, perplexity, loss, follows, speed = capsys.readouterr().out.splitlines()
    tokens, pairs = corpus["masked_tokens"], corpus["pairs"]
    share = f"{100 * corpus['accuracy']:.2f}%"
    assert accuracy.split() == ["accuracy", share, f"{round(corpus['accuracy'] * tokens)}", "of", str(tokens),
                                "masked", "tokens"]  # fmt: skip
    assert perplexity.split() == ["perplexity", f"{corpus['perplexity']:.2f}"]
    assert loss.split() == ["loss", f"{corpus['loss']:.4f}"]
    assert follows.split()[:3] == ["next", "sentence", f"{100 * corpus['next_accuracy']:.2f}%"]
    assert follows.endswith(f" of {pairs} pairs")
    assert speed.startswith("30 documents in ")


def test_without_next_sentences_there_is_no_such_score(masked: Path, tmp_path: Path, capsys: Capture) -> None:
    recipe = masked_recipe(tmp_path, {"next_sentence": False, "segments": 0})
    folder = written(fresh_masked_model(recipe), tmp_path / "plain")
    assert "next_accuracy" not in shown(capsys, folder)["corpora"][0]


def test_masked_models_of_several_seeds_have_a_mean_over_the_same_masks(
    masked: Path, tmp_path: Path, capsys: Capture
) -> None:
    other = written(fresh_masked_model(masked_recipe(tmp_path, seed=2)), tmp_path / "other")
    found = shown(capsys, masked, other)
    first, second = (one["corpora"][0] for one in found["models"])
    assert first["masked_tokens"] == second["masked_tokens"]
    assert found["figures"]["loss"] == pytest.approx(mean([first["loss"], second["loss"]]), abs=1e-4)
    assert list(found["figures"]) == [
        "accuracy", "accuracy_sd", "perplexity", "perplexity_sd", "loss", "loss_sd", "next_accuracy",
        "next_accuracy_sd",
    ]  # fmt: skip


def test_what_means_nothing_for_a_masked_model_is_refused(masked: Path, tmp_path: Path, capsys: Capture) -> None:
    assert refused(capsys, masked, "--source", "x", "--target", "y") == (
        f"--source and --target are for texts with labels or translations, but {masked} is a model that fills masks: "
        "leave them out."
    )
    assert refused(capsys, masked, "--outputs", "x") == (
        f"--outputs is for what a model says of whole texts, but {masked} is a model that fills masks: leave it out."
    )
    assert refused(capsys, masked, "--beam", "2") == (
        f"--beam is for translators, which {masked} is not: leave it out."
    )
    bundle = read_bundle(masked, MaskedModel)
    for key, way_out in (("test", "add --split valid"), ("valid", "add --split test")):
        folder = written(changed(bundle, ("data", key), []), tmp_path / f"no-{key}")
        assert refused(capsys, folder, "--split", key) == f"{folder}: its recipe has no `data.{key}`: {way_out}."
    nothing = written(changed(changed(bundle, ("data", "test"), []), ("data", "valid"), []), tmp_path / "nothing")
    assert refused(capsys, nothing) == (
        f"{nothing}: its recipe has no `data.test`: name a file that it is evaluated on, by --data."
    )


def test_masked_models_without_a_common_mean_are_refused(masked: Path, tmp_path: Path, capsys: Capture) -> None:
    bundle = read_bundle(masked, MaskedModel)
    longer = written(changed(bundle, ("data", "max_length"), 20), tmp_path / "longer")
    assert refused(capsys, masked, longer) == (
        f"{longer} has `data.max_length` = 20, but {masked} has 40: their scores cannot be averaged."
    )
    recipe = recipe_from_json({**recipe_to_json(bundle.recipe), "tokenizer": {"kind": "char"}}, "characters")
    other = written(fresh_masked_model(recipe), tmp_path / "other")
    assert refused(capsys, masked, other) == (
        f"{other} has another vocabulary than {masked}: their scores cannot be averaged."
    )
    shorter = changed(bundle, ("data", "test"), [{"text": "train.txt"}])
    folder = written(shorter, tmp_path / "shorter")
    assert refused(capsys, masked, folder) == (f"{folder} has other test corpora than {masked}: score them one by one.")
