"""What a user does with translators of `transformers`: trains them further here or there, and sends them back."""

import json
from pathlib import Path

import pytest
import torch
from tests.unit.interop.marian_folders import ENGLISH, GERMAN, write_marian
from tests.unit.interop.pairs.theirs import write_nllb, write_pegasus
from tests.unit.interop.pairs.translators import write_translator
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from heedful.cli.main import run
from heedful.interop.exports.exporting import CLOSE, export_model
from heedful.interop.importing import import_model
from heedful.models.bundle import read_bundle
from heedful.tasks.translate.model import Translator

RECIPE = """
[data]
train = {{ source = "{folder}/text.en", target = "{folder}/text.de", to = "deu_Latn" }}
valid = {{ source = "{folder}/text.en", target = "{folder}/text.de", to = "deu_Latn" }}
batch_tokens = 256
max_length = 100
[train]
start_from = "{folder}/ours"
steps = 4
schedule = {{ kind = "constant", lr = 0.001 }}
device = "cpu"
precision = "float32"
threads = 1
validation = {{ every = 4, translate = true }}
"""


def test_training_continues_with_tags_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.en").write_text("\n".join(ENGLISH) + "\n")
    (tmp_path / "text.de").write_text("\n".join(GERMAN) + "\n")
    write_nllb(tmp_path / "theirs")
    assert run(["import", str(tmp_path / "theirs"), "--out", str(tmp_path / "ours")]) == 0
    (tmp_path / "more.toml").write_text(RECIPE.format(folder=tmp_path))
    assert run(["train", str(tmp_path / "more.toml"), "--out", str(tmp_path / "more")]) == 0
    capsys.readouterr()
    start: Translator = Translator.load(tmp_path / "ours", device="cpu")
    made: Translator = Translator.load(tmp_path / "more", device="cpu")
    assert made.recipe.data.target_tags
    assert made.recipe.model == start.recipe.model
    before = start.evaluate_rows(list(zip(ENGLISH, GERMAN, strict=True)), to="deu_Latn", most_tokens=5).likelihood
    *_, validated = (tmp_path / "more/metrics.jsonl").read_text().splitlines()
    assert json.loads(validated)["loss"] < before.loss
    (best, *_) = made.translate_detailed(ENGLISH[0], to="deu_Latn")
    assert best.tokens[0] == made.vocabularies["target"].tag("deu_Latn")


@pytest.mark.parametrize("kind", ["marian", "pegasus"])
def test_an_imported_model_goes_back(kind: str, tmp_path: Path) -> None:
    write = {"marian": write_marian, "pegasus": write_pegasus}[kind]
    write(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    (tmp_path / "lines").write_text("\n".join(ENGLISH) + "\n")
    found = export_model(tmp_path / "ours", "transformers", tmp_path / "again", samples=tmp_path / "lines")
    assert found.comparison is not None
    assert (found.comparison.count, found.comparison.unequal) == (7, 0)
    assert found.comparison.difference < CLOSE


@pytest.mark.parametrize("model", [{}, {"norm": "pre"}, {"tie": "none", "output_bias": True}])
def test_a_model_that_was_trained_there_comes_back(model: dict[str, object], tmp_path: Path) -> None:
    write_translator(tmp_path / "ours", model)
    export_model(tmp_path / "ours", "transformers", tmp_path / "theirs")
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    theirs.train()
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    theirs(**tokenizer(list(ENGLISH), return_tensors="pt", padding=True), labels=torch.full((7, 3), 9)).loss.backward()
    optimizer.step()
    theirs.save_pretrained(tmp_path / "trained")
    tokenizer.save_pretrained(tmp_path / "trained")
    import_model(tmp_path / "trained", tmp_path / "back")
    ours, back = read_bundle(tmp_path / "ours"), read_bundle(tmp_path / "back")
    assert back.vocabularies["source"].fingerprint == ours.vocabularies["source"].fingerprint
    changed = [
        not torch.equal(parameter, ours.model.get_parameter(name)) for name, parameter in back.model.named_parameters()
    ]
    assert sum(changed) > len(changed) / 2
    texts = Translator.load(tmp_path / "back", device="cpu")
    inputs = tokenizer(ENGLISH[1], return_tensors="pt")
    theirs.eval()
    found = theirs.generate(**inputs, num_beams=1, max_length=None, max_new_tokens=30)
    translation: str = texts.translate(ENGLISH[1], beam=1, max_extra=31 - inputs["input_ids"].shape[1])
    assert translation == tokenizer.decode(found[0], skip_special_tokens=True)
