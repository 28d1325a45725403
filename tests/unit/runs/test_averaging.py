"""`heedful.runs.averaging`: one model of several, and what has no mean."""

import json
import shutil
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file
from tests.models.text import classifier_recipe, fresh_classifier, written
from tests.shared.refusals import like

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import read_bundle, write_description, write_weights
from heedful.models.from_recipe.network import build_model
from heedful.runs.averaging import are_strangers, average
from heedful.runs.training_run import train
from heedful.tasks.translate.model import Translator

Make = Callable[..., Path]
REGRESSOR = Path(__file__).parents[2] / "golden/bundles/regressor-bag"


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a bundle with fresh weights; the options are those of [model]."""

    def made(name: str, words: str = "ant bee cat", target_words: str = "", **options: object) -> Path:
        config = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "tie": "decoder" if target_words else "all"}
        recipe = Recipe(
            data=Data(train=(AlignedFiles(source="a", target="b"),)),
            tokenizer=Words(kind="word", joint=not target_words),
            model=TransformerModel.model_validate({**config, **options}),
        )
        source = train_tokenizer(recipe.tokenizer, [words])
        target = train_tokenizer(recipe.tokenizer, [target_words]) if target_words else source
        write_description(tmp_path / name, recipe, Vocabularies({"source": source, "target": target}))
        write_weights(tmp_path / name, build_model(recipe.pair_model, source.size, target.size))
        return tmp_path / name

    return made


def weights(path: Path) -> dict[str, np.ndarray]:
    return load_file(path / "model.safetensors")


def is_mean(found: Path, parts: Sequence[Path]) -> bool:
    loaded = [weights(part) for part in parts]
    return all(
        np.array_equal(tensor, np.mean([part[name].astype(np.float64) for part in loaded], axis=0).astype(np.float32))
        for name, tensor in weights(found).items()
    )


def refused(models: Sequence[Path], out: Path, **options: int) -> str:
    with pytest.raises(UserError) as caught:
        average(models, out, last=options.get("last"), best=options.get("best"))
    return str(caught.value)


# --- several models ---------------------------------------------------------------------------------------------------


def test_several_models_become_their_mean(make: Make, tmp_path: Path) -> None:
    models = [make("a"), make("b"), make("c")]
    out = tmp_path / "new/mean"
    assert average(models, out) == models
    assert is_mean(out, models)
    assert not is_mean(out, models[:2])
    assert Translator.load(out, "cpu").recipe == Translator.load(models[0], "cpu").recipe
    card = (out / "README.md").read_text()
    assert f"the mean of the weights of {models[0].name}, {models[1].name}, {models[2].name}." in card
    assert f"heedful translate {out.name} < text.txt" in card


def test_models_with_other_dropout_have_a_mean(make: Make, tmp_path: Path) -> None:
    """As a model and what it was fine-tuned to."""
    models = [make("a"), make("b", dropout=0.3)]
    average(models, tmp_path / "mean")
    assert is_mean(tmp_path / "mean", models)


@pytest.mark.parametrize(
    ("first", "second", "side"),
    [
        ({}, {"words": "ant bee dog"}, "source"),
        ({"target_words": "x y"}, {"target_words": "x z"}, "target"),
        ({"target_words": "x y"}, {"words": "ant bee dog", "target_words": "x y"}, "source"),
    ],
)
def test_models_of_other_vocabularies_have_no_mean(
    make: Make, tmp_path: Path, first: dict[str, str], second: dict[str, str], side: str
) -> None:
    a, b = make("a", **first), make("b", **second)
    message = f"{b} and {a} have different {side} vocabularies: they cannot be averaged."
    assert refused([a, b], tmp_path / "mean") == message
    assert not (tmp_path / "mean").exists()


def test_models_are_strangers_unless_they_share_a_seed_or_a_start_or_one_is_the_others_start(tmp_path: Path) -> None:
    def made(name: str, **train: object) -> Path:
        return written(fresh_classifier(classifier_recipe(tmp_path, train=train)), tmp_path / name)

    base, other = made("base", seed=1), made("other", seed=2)
    fine = [made(f"fine-{seed}", seed=seed, start_from=str(base)) for seed in (3, 4)]
    assert are_strangers([base, other])
    assert are_strangers([other, *fine])
    assert not are_strangers([base, made("same", seed=1)])
    assert not are_strangers(fine)
    assert not are_strangers([fine[0], base])


def test_classifiers_of_one_label_and_of_several_have_no_mean(tmp_path: Path) -> None:
    one, several = (
        written(fresh_classifier(classifier_recipe(tmp_path, {"labels": labels})), tmp_path / labels)
        for labels in ("one", "several")
    )
    assert refused([one, several], tmp_path / "mean") == (
        f'{several}: `model.labels` is "several", but in {one} it is "one": they cannot be averaged.'
    )


def test_models_of_other_classes_have_no_mean(tmp_path: Path) -> None:
    recipe = classifier_recipe(tmp_path)
    a, b = (
        written(fresh_classifier(recipe, labels), tmp_path / "".join(labels)) for labels in (("x", "y"), ("x", "z"))
    )
    assert refused([a, b], tmp_path / "mean") == f"{b} and {a} have different classes: they cannot be averaged."


def test_regressors_of_numbers_of_other_scales_have_no_mean(tmp_path: Path) -> None:
    a, b = (shutil.copytree(REGRESSOR, tmp_path / name) for name in "ab")
    config = json.loads((b / "config.json").read_text())
    config["scale"]["mean"] += 1
    (b / "config.json").write_text(json.dumps(config))
    assert refused([a, b], tmp_path / "mean") == (
        f"{b} and {a} learned numbers of different scales: they cannot be averaged."
    )


def test_models_of_other_shapes_have_no_mean(make: Make, tmp_path: Path) -> None:
    a, wide, deep = make("a"), make("b", inner=24), make("c", layers=2)
    assert refused([a, make("d"), wide], tmp_path / "mean") == (
        f"{wide}/model.safetensors: `encoder.blocks.0.network.into.weight` is (24, 16), "
        f"but in {a} it is (16, 16): only models of the same shape can be averaged."
    )
    name = "`encoder.blocks.1.attention.project.weight`"
    assert refused([a, deep], tmp_path / "mean") == like(
        f"{deep}/model.safetensors: {name} is (48, 16), but in {a} it is missing: only models of the same ..."
    )
    assert refused([deep, a], tmp_path / "mean") == like(
        f"{a}/model.safetensors: {name} is missing, but in {deep} it is (48, 16): only models of the same ..."
    )


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"heads": 4}, "`model.heads` is 4, but in {a} it is 2"),
        ({"activation": "gelu"}, '`model.activation` is "gelu", but in {a} it is "relu"'),
        ({"norm": "pre", "final_norm": False}, '`model.norm` is "pre", but in {a} it is "post"'),
        ({"positions": "sinusoidal_halves"}, '`model.positions` is "sinusoidal_halves", but in {a} it is "sinusoidal"'),
    ],
)
def test_models_of_the_same_shapes_that_compute_otherwise_have_no_mean(
    make: Make, tmp_path: Path, option: dict[str, object], told: str
) -> None:
    a, b = make("a"), make("b", **option)
    assert refused([a, b], tmp_path / "mean") == f"{b}: {told.format(a=a)}: they cannot be averaged."


def test_checkpoints_are_of_one_run(make: Make, tmp_path: Path) -> None:
    models = [make("a"), make("b")]
    message = "`last` and `best` choose checkpoints of one run, but several models are given: leave them out."
    assert refused(models, tmp_path / "mean", last=2) == message
    assert refused(models, tmp_path / "mean", best=2) == message


# --- a run's checkpoints ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four checkpoints, two of them validated; its scores rise and fall."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        (folder / "a.txt").write_text("ant bee\ncat ant\nbee\n" * 20)
        corpus = {"source": "a.txt", "target": "a.txt"}
        recipe = {
            "data": {
                "folder": str(folder),
                "train": [corpus],
                "valid": [corpus | {"lines": "1-5"}],
                "batch_tokens": 64,
            },
            "tokenizer": {"kind": "word"},
            "model": {"width": 16, "heads": 2, "layers": 1, "inner": 16},
            "train": {
                "steps": 8,
                "schedule": {"kind": "constant", "lr": 0.003},
                "precision": "float32",
                "device": "cpu",
                "checkpoint_every": 2,
                "keep_checkpoints": 4,
                "validation": {"every": 4},
            },
        }
        return train(recipe_from_json(recipe, "recipe"), folder / "run", console=Console(file=StringIO()))


def checkpoints(run: Path, *steps: int) -> list[Path]:
    return [run / f"checkpoints/step-{step:08d}" for step in steps]


def test_the_last_checkpoints_of_a_run_become_their_mean(run: Path, tmp_path: Path) -> None:
    parts = checkpoints(run, 4, 6, 8)
    assert average([run], tmp_path / "mean", last=3) == parts
    assert is_mean(tmp_path / "mean", parts)
    assert Translator.load(tmp_path / "mean", "cpu").recipe == Translator.load(run, "cpu").recipe


def test_the_best_checkpoints_of_a_run_are_those_that_were_validated(run: Path, tmp_path: Path) -> None:
    assert sorted(average([run], tmp_path / "mean", best=2)) == checkpoints(run, 4, 8)
    assert is_mean(tmp_path / "mean", checkpoints(run, 4, 8))


def test_too_few_checkpoints_are_refused(run: Path, tmp_path: Path) -> None:
    way_out = "request fewer, or train with ... {}."
    assert refused([run], tmp_path / "mean", last=5) == like(
        f"{run} holds 4 checkpoints, but 5 were requested: {way_out.format(5)}"
    )
    assert refused([run], tmp_path / "mean", best=3) == like(
        f"{run} holds 2 checkpoints validated when saved, but 3 were requested: {way_out.format(3)}"
    )
    assert not (tmp_path / "mean").exists()


def test_a_bundle_without_checkpoints_holds_none(make: Make, tmp_path: Path) -> None:
    model = make("a")
    assert refused([model], tmp_path / "mean", last=2).startswith(
        f"{model} holds 0 checkpoints, but 2 were requested: "
    )


def test_one_model_alone_has_no_mean(run: Path, tmp_path: Path) -> None:
    assert refused([run], tmp_path / "mean") == (
        f"A single model has nothing to average: add `last=N` or `best=N` to average checkpoints of {run}."
    )
    assert refused([run], tmp_path / "mean", last=2, best=2) == (
        "The last and the best checkpoints may differ: leave out `last` or `best`."
    )


# --- where it goes ----------------------------------------------------------------------------------------------------


def test_a_model_is_never_written_over(run: Path, make: Make, tmp_path: Path) -> None:
    models = [make("a"), make("b")]
    before = weights(models[0])
    for out in (run, models[0]):
        assert refused(models, out) == f"{out} already holds a model: choose another folder."
    assert all(np.array_equal(tensor, before[name]) for name, tensor in weights(models[0]).items())


@pytest.mark.parametrize("out", ["file", "file/mean"])
def test_a_file_in_the_way_is_named(make: Make, tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("")
    assert refused([make("a"), make("b")], tmp_path / out) == like(
        f"{tmp_path}/file: a file exists where a ... folder."
    )


def test_what_is_no_model_is_named(make: Make, tmp_path: Path) -> None:
    no_model = tmp_path / "nothing"
    message = like(f"{no_model} is not a folder: a model is a folder that ...")
    assert refused([no_model, make("a")], tmp_path / "mean") == message
    assert refused([make("b"), no_model], tmp_path / "mean") == message


def test_a_mean_can_be_averaged_again(make: Make, tmp_path: Path) -> None:
    a, b, c = make("a"), make("b"), make("c")
    average([a, b], tmp_path / "ab")
    average([tmp_path / "ab", c], tmp_path / "abc")
    assert is_mean(tmp_path / "abc", [tmp_path / "ab", c])
    assert read_bundle(tmp_path / "abc").vocabularies.joint
