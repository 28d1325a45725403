"""Adapters in runs: what is saved, what is loaded, several at once, and what is refused."""

import json
import shutil
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from tests.shared.refusals import refuses

import heedful
from heedful.base.errors import UserError
from heedful.base.files import read_json, write_json
from heedful.models.bundle import read_bundle
from heedful.runs.averaging import average
from heedful.runs.merging import merge
from heedful.runs.quantizing import quantize

GOLDEN = Path(__file__).parents[3] / "golden/bundles"
TEXTS = ["the dog sees the tree today.", "a bird likes a small fish.", "the girl hears the man?"]
GERMAN = ["der Hund sieht den Baum heute.", "ein Vogel mag einen Fisch.", "das Mädchen hört den Mann?"]
Train = Callable[..., Path]
load: Any = heedful.load  # as the class of the task, which is not known here


def read(path: Path) -> Any:
    return read_json(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of an old translator, and some sentences."""
    made = tmp_path_factory.mktemp("adapters")
    shutil.copytree(GOLDEN / "transformer", made / "base")
    shutil.copytree(GOLDEN / "recurrent-bahdanau", made / "other")
    for name, lines in (("a.en", TEXTS), ("a.de", GERMAN)):
        (made / name).write_text("".join(f"{line}\n" for line in lines * 4))
    return made


@pytest.fixture(scope="module")
def adapt(folder: Path) -> Train:
    """Train an adapter of a model."""

    def adapt(
        out: str, base: str = "base", adapter: Mapping[str, object] | None = None, resume: bool = False, **train: Any
    ) -> Path:
        corpus = {"source": "a.en", "target": "a.de"}
        recipe = {
            "data": {"folder": str(folder), "train": corpus, "valid": corpus, "batch_tokens": 100},
            "train": {
                "start_from": str(folder / base), "adapter": {"kind": "lora", "rank": 2, **(adapter or {})}, "steps": 4,
                "schedule": {"kind": "constant", "lr": 0.03}, "device": "cpu", "precision": "float32", "threads": 1,
                "report": False, "checkpoint_every": 2, "validation": {"every": 2}, **train,
            },
        }  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
            run = heedful.train(recipe, folder / out, resume=resume, console=Console(file=StringIO()))
        return run.folder

    return adapt


@pytest.fixture(scope="module")
def adapter(adapt: Train) -> Path:
    """An adapter of the base."""
    return adapt("adapter")


def refused(message: str, act: Callable[[], object]) -> None:
    with refuses(message):
        act()


def edited(source: Path, target: Path, **changes: object) -> Path:
    """A copy of a bundle with other values in its config."""
    shutil.copytree(source, target)
    write_json(target / "config.json", {**read(target / "config.json"), **changes})
    return target


# --- what is saved and loaded -----------------------------------------------------------------------------------------


def test_a_run_saves_the_adapter_alone_which_is_small(folder: Path, adapter: Path) -> None:
    weights, base = load_file(adapter / "adapter.safetensors"), load_file(folder / "base/model.safetensors")
    assert not (adapter / "model.safetensors").exists()
    assert {name.rpartition(".")[0] for name in weights} == {
        name for name in base if name.endswith("weight") and base[name].ndim == 2 and "embedding" not in name
    }
    assert sum(map(torch.numel, weights.values())) < sum(map(torch.numel, base.values()))
    for checkpoint in (adapter / "checkpoints").glob("step-*"):
        assert load_file(checkpoint / "model.safetensors").keys() == weights.keys()
        state = load_file(checkpoint / "optimizer.safetensors")
        assert {name.rpartition(".")[0] for name in state} == weights.keys()
    stated = json.loads((adapter / "config.json").read_text())["adapter"]
    assert len(stated["base"]) == 64
    card = (adapter / "README.md").read_text()
    assert "An adapter of a transformer of " in card
    assert "heedful translate BASE --adapter adapter < text.txt" in card
    assert 'heedful.load("BASE", adapter="adapter")' in card


def test_every_way_to_load_it_answers_alike_and_differs_from_the_base(folder: Path, adapter: Path) -> None:
    base = load(folder / "base", heedful.Translator)
    own = base.translate(TEXTS)
    alone = load(folder / "base", heedful.Translator, adapter=adapter)
    found = alone.translate(TEXTS)
    assert found != own
    ways = {
        "with_adapter": base.with_adapter(adapter),
        "its own folder": load(adapter),
        "its run": heedful.Run(adapter).model,
        "its class": heedful.Translator.load(folder / "base", adapter=adapter),
        "merged": load(merge(folder / "base", adapter, folder / "merged")),
        "with_adapter of another": base.with_adapter(adapter).with_adapter(adapter),
    }
    assert {way: model.translate(TEXTS) for way, model in ways.items()} == dict.fromkeys(ways, found)
    assert base.translate(TEXTS) == own
    assert alone.recipe.train.adapter is not None


def test_the_scores_of_validations_are_those_of_the_model_that_is_loaded(folder: Path, adapter: Path) -> None:
    run, best = heedful.Run(adapter), load(adapter)
    recorded = next(one for one in run.validations if one["step"] == run.best_step)
    found: Any = heedful.evaluate(best, [*zip(TEXTS, GERMAN, strict=True)])
    assert found.perplexity == pytest.approx(recorded["perplexity"], rel=1e-5)


def test_two_adapters_of_one_model_answer_as_each_alone_and_share_what_they_do_not_adapt(
    folder: Path, adapt: Train, adapter: Path
) -> None:
    attention = adapt("attention", adapter={"on": "attention"}, seed=2)
    alone = [load(folder / "base", adapter=one).translate(TEXTS) for one in (adapter, attention)]
    base = load(folder / "base", heedful.Translator)
    before = {name: weight.detach().clone() for name, weight in base.network.named_parameters()}
    both = [base.with_adapter(one) for one in (adapter, attention)]
    assert [model.translate(TEXTS) for model in both] == alone
    for model, adapted in zip(both, (adapter, attention), strict=True):
        parts = load_file(adapted / "adapter.safetensors")
        weights = dict(base.network.named_parameters())
        for name, weight in model.network.named_parameters():
            assert (weight.data_ptr() == weights[name].data_ptr()) == (f"{name}.down" not in parts)
    assert all(torch.equal(weight, before[name]) for name, weight in base.network.named_parameters())


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_an_adapter_is_used_in_every_precision(folder: Path, adapter: Path, precision: str) -> None:
    base = load(folder / "base", heedful.Translator, precision=precision)
    merged = load(merge(folder / "base", adapter, folder / precision), precision=precision)
    assert base.with_adapter(adapter).translate(TEXTS) == merged.translate(TEXTS)


def test_a_killed_run_resumes_with_its_base_and_ends_with_the_same_bits(
    folder: Path, adapt: Train, adapter: Path
) -> None:
    adapt("halves", steps=2)
    halves = adapt("halves", resume=True)
    assert (halves / "adapter.safetensors").read_bytes() == (adapter / "adapter.safetensors").read_bytes()


def test_checkpoints_are_averaged_and_a_moving_average_is_kept(folder: Path, adapt: Train) -> None:
    mean = adapt("mean", average={"last": 2})
    parts = [load_file(path / "model.safetensors") for path in sorted((mean / "checkpoints").glob("step-*"))]
    where = mean if (mean / "single").exists() else mean / "mean"
    for name, weight in load_file(where / "adapter.safetensors").items():
        torch.testing.assert_close(weight, (parts[0][name] + parts[1][name]) / 2)
    assert load(where).translate(TEXTS)
    moving = adapt("moving", moving_average=0.5)
    assert load(moving).translate(TEXTS)


def test_recurrent_models_and_other_optimizers_train_adapters(folder: Path, adapt: Train) -> None:
    run = adapt("recurrent", base="other", optimizer={"kind": "muon", "weight_decay": 0.1}, adapter={"dropout": 0.2})
    names = load_file(run / "adapter.safetensors")
    assert any("weight_hh" in name for name in names)
    assert any("alignment" in name for name in names)
    assert load(run).translate(TEXTS) != load(folder / "other").translate(TEXTS)


def test_a_model_of_another_task_starts_from_a_base_and_its_head_is_saved_whole(folder: Path) -> None:
    (folder / "labels.tsv").write_text("".join(f"{n % 2}\t{text}\n" for n, text in enumerate(TEXTS * 4)))
    corpus = {"tsv": "labels.tsv", "label": 1, "text": 2}
    recipe = {
        "data": {"folder": str(folder), "train": corpus, "valid": corpus, "batch_tokens": 100, "max_length": 30},
        "model": {"family": "classifier"},
        "train": {
            "start_from": str(GOLDEN / "bert"), "adapter": {"kind": "lora", "rank": 2}, "steps": 20, "report": False,
            "schedule": {"kind": "constant", "lr": 0.03}, "device": "cpu", "validation": {"every": 10},
        },
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        run = heedful.train(recipe, folder / "labels", quiet=True)
    weights = load_file(run / "adapter.safetensors")
    assert {"output.weight", "output.bias"} <= weights.keys()
    model = load(GOLDEN / "bert", heedful.TextClassifier, adapter=run)
    assert [one.label for one in model.classify(TEXTS)] == [one.label for one in load(run).classify(TEXTS)]
    merged = merge(GOLDEN / "bert", run.folder, folder / "merged-labels")
    ours, theirs = (dict(found.network.named_parameters()) for found in (model, load(merged)))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    filler = load(GOLDEN / "bert", heedful.MaskFiller)
    with pytest.raises(UserError, match=r"labels is a model that .*: "):
        filler.with_adapter(run)


def test_a_merged_model_is_one_like_any_other(folder: Path, adapter: Path, adapt: Train) -> None:
    merged = merge(folder / "base", adapter, folder / "again")
    assert "adapter" not in read(merged / "config.json")
    assert quantize(merged, folder / "small").exists()
    assert quantize(adapter, folder / "small-too").exists()
    further = adapt("further", base="again")
    assert load(further).translate(TEXTS)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_an_adapter_of_another_model_is_refused(folder: Path, adapter: Path) -> None:
    other, base = folder / "other", folder / "base"
    hashes = [read(adapter / "config.json")["adapter"]["base"][:8], None]
    with pytest.raises(UserError) as caught:
        load(other, adapter=adapter)
    hashes[1] = str(caught.value).rpartition(" have ")[2][:8]
    assert hashes[0] != hashes[1]
    assert str(caught.value) == (
        f"{adapter} adapts another model than {other}: it belongs to weights with the sha256 {hashes[0]}, and those of "
        f"{other} have {hashes[1]}. Name the model that it was trained on."
    )
    twice = merge(base, adapter, folder / "twice")
    refused(f"{adapter} adapts another model than {twice}: ...", lambda: merge(twice, adapter, folder / "thrice"))


def test_models_and_adapters_are_not_exchanged(folder: Path, adapter: Path, adapt: Train) -> None:
    base = folder / "base"
    refused(
        f"{folder / 'other'} holds a whole model, not an adapter of {base}: use it without {base}.",
        lambda: load(base, adapter=folder / "other"),
    )
    refused(
        f"{adapter} is an adapter itself: `heedful.merge` makes a model of it and its base, which can be adapted.",
        lambda: load(adapter, adapter=adapter),
    )
    refused(
        f"`train.start_from` is {adapter}, which is an adapter itself: make a model of it and its base by "
        "`heedful.merge`, and start from that.",
        lambda: adapt("on-adapter", base="adapter"),
    )
    refused(
        f"{adapter} is an adapter, whose checkpoints have no model of their own: average them in training, by "
        "`train.average`, or average models.",
        lambda: average([adapter], folder / "averaged", last=2),
    )


def test_a_base_that_is_not_there_is_named(folder: Path, adapter: Path) -> None:
    recipe = read(adapter / "config.json")["recipe"]
    recipe["train"]["start_from"] = "gone"
    lost = edited(adapter, folder / "lost", recipe=recipe)
    refused(
        f'{lost} is an adapter, and its base gone is not there: name both: `heedful.load(base, adapter="{lost}")`.',
        lambda: load(lost),
    )
    assert load(folder / "base", adapter=lost).translate(TEXTS) == load(adapter).translate(TEXTS)


@pytest.mark.parametrize("value", ["00", 5, None])
def test_a_damaged_config_of_an_adapter_is_refused(folder: Path, adapter: Path, tmp_path: Path, value: object) -> None:
    damaged = edited(adapter, tmp_path / "damaged", adapter={"base": value})
    refused(
        f"{damaged / 'config.json'}: `adapter.base` must be the sha256 of the weights that are adapted: restore it "
        "from a copy of the adapter.",
        lambda: load(folder / "base", adapter=damaged),
    )


def test_an_adapter_without_its_settings_or_of_another_shape_is_refused(
    folder: Path, adapter: Path, tmp_path: Path
) -> None:
    recipe = read(adapter / "config.json")["recipe"]
    without = edited(adapter, tmp_path / "without", recipe={**recipe, "train": {**recipe["train"], "adapter": None}})
    refused(
        f"{without / 'config.json'}: `train.adapter` is missing: restore it from a copy of the adapter.",
        lambda: load(folder / "base", adapter=without),
    )
    wider = edited(adapter, tmp_path / "wider", recipe={**recipe, "model": {**recipe["model"], "inner": 24}})
    name = "encoder.blocks.0.network.into.weight"
    refused(
        f"{wider} does not fit its base: `{name}` has another shape there: restore it from a copy of the adapter.",
        lambda: load(folder / "base", adapter=wider),
    )
    settings = {**recipe["train"]["adapter"], "rank": 3}
    ranked = edited(adapter, tmp_path / "ranked", recipe={**recipe, "train": {**recipe["train"], "adapter": settings}})
    refused(
        f"{ranked / 'adapter.safetensors'} does not fit its config.json: `...` is ...",
        lambda: load(folder / "base", adapter=ranked),
    )


def test_damaged_weights_of_an_adapter_are_refused(folder: Path, adapter: Path, tmp_path: Path) -> None:
    copies = {name: shutil.copytree(adapter, tmp_path / name) for name in ("cut", "changed", "another", "infinite")}
    file = copies["cut"] / "adapter.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    refused(f"{file} is damaged (...", lambda: load(folder / "base", adapter=file.parent))
    file = copies["changed"] / "adapter.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    refused(f"{file} is damaged (its sha256...", lambda: load(folder / "base", adapter=file.parent))
    file = copies["infinite"] / "adapter.safetensors"
    save_file({name: torch.full_like(weight, torch.inf) for name, weight in load_file(file).items()}, file)
    refused(f"{file.parent} holds weights that are not finite...", lambda: read_bundle(file.parent))
    (copies["another"] / "adapter.safetensors").unlink()
    refused(
        f"{copies['another']} holds no adapter.safetensors yet: ...",
        lambda: load(folder / "base", adapter=copies["another"]),
    )


def test_a_run_does_not_resume_on_another_base(folder: Path, adapt: Train) -> None:
    shutil.copytree(folder / "base", folder / "replaced")
    adapt("of-replaced", base="replaced", steps=2)
    weights = load_file(folder / "replaced/model.safetensors")
    save_file({name: weight * 2 for name, weight in weights.items()}, folder / "replaced/model.safetensors")
    refused(
        f"{folder / 'replaced'} has other weights than the model that this run adapts: restore that model from a copy, "
        "or train into another folder.",
        lambda: adapt("of-replaced", base="replaced", resume=True),
    )


def test_an_ensemble_and_a_model_of_a_program_have_no_other_adapter(folder: Path, adapter: Path) -> None:
    both = load(folder / "base", heedful.Translator, ensemble=[folder / "base"])
    refused(
        "`with_adapter` adapts a ..., not an ensemble: ...",
        lambda: both.with_adapter(adapter),
    )
    bundle = read_bundle(folder / "base")
    made = heedful.Translator(type(bundle)(bundle.recipe, bundle.vocabularies, bundle.model))
    refused(
        "`with_adapter` adapts a single loaded model, not a model that was not loaded from a folder: load the model "
        "alone.",
        lambda: made.with_adapter(adapter),
    )
