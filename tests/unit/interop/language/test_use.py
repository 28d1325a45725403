"""What a user does with an imported language model: generates, scores texts, and trains it further."""

import json
from pathlib import Path

import pytest
import torch
from tests.unit.interop.language.language_folders import prompts

import heedful
from heedful.cli.main import run
from heedful.interop.importing import import_model
from heedful.models.bundle import read_bundle
from heedful.models.networks import LanguageModel
from heedful.tasks.generate.model import TextGenerator

RECIPE = """
[data]
train = {{ text = "{folder}/train.txt", documents = "line" }}
valid = {{ text = "{folder}/train.txt", documents = "line" }}
batch_tokens = 192
max_length = 48
borders = "{borders}"
[train]
start_from = "{folder}/ours"
steps = 3
schedule = {{ kind = "constant", lr = 0.001 }}
device = "cpu"
precision = "float32"
threads = 1
validation = {{ every = 3 }}
"""


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_training_continues_with_the_imported_weights_and_pieces(
    name: str, whole: Path, whole_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    texts = [" ".join(text.split()) for text in prompts(60)]
    (tmp_path / "train.txt").write_text("".join(f"{text}\n" for text in texts))
    import_model({"gpt2": whole, "llama": whole_llama}[name], tmp_path / "ours")
    start = read_bundle(tmp_path / "ours", LanguageModel)
    borders = start.recipe.data.borders
    (tmp_path / "more.toml").write_text(RECIPE.format(folder=tmp_path, borders=borders))
    assert run(["train", str(tmp_path / "more.toml"), "--out", str(tmp_path / "more")]) == 0
    made = read_bundle(tmp_path / "more", LanguageModel)
    assert made.recipe.model == start.recipe.model
    assert made.vocabularies["text"].fingerprint == start.vocabularies["text"].fingerprint
    for key, parameter in made.model.named_parameters():
        before = start.model.get_parameter(key)
        assert not torch.equal(parameter, before), key
        torch.testing.assert_close(parameter, before, atol=0.02, rtol=0)  # a few small steps away
    lines = [json.loads(line) for line in (tmp_path / "more/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["loss"] < TextGenerator.load(tmp_path / "ours", device="cpu").evaluate(texts).likelihood.loss


def test_a_classifier_starts_from_an_imported_gpt2(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    import_model(whole, tmp_path / "ours")
    texts = [" ".join(text.split()) for text in prompts(20)]
    (tmp_path / "train.tsv").write_text("".join(f"{'ab'[n % 2]}\t{text}\n" for n, text in enumerate(texts)))
    corpus = f'{{ tsv = "{tmp_path}/train.tsv", label = 1, text = 2 }}'
    (tmp_path / "classes.toml").write_text(
        f'[data]\ntrain = {corpus}\nbatch_tokens = 192\nmax_length = 48\n[model]\nfamily = "classifier"\n'
        f'[train]\nstart_from = "{tmp_path}/ours"\nauxiliary = 0.5\nsteps = 2\ndevice = "cpu"\n'
    )
    assert run(["train", str(tmp_path / "classes.toml"), "--out", str(tmp_path / "classes")]) == 0
    model = heedful.TextClassifier.load(tmp_path / "classes")
    assert set(model.classify(texts[0]).probabilities) == {"a", "b"}
    assert model.vocabularies["text"].size == TextGenerator.load(tmp_path / "ours").vocabularies["text"].size
