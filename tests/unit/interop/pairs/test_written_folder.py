"""What is written opens without Heedful, says every default, and is compared with the original in earnest."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.shared.patience import PATIENCE
from tests.shared.refusals import refuses
from tests.unit.interop.pairs.translators import write_translator

from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.exporting import CLOSE, export_model
from heedful.interop.exports.samples import read_samples
from heedful.interop.transformers.pairs.comparing import compare
from heedful.interop.transformers.pairs.writing import write
from heedful.models.bundle import read_bundle

ALONE = """
import sys
sys.modules["heedful"] = None  # a program that imports it fails
{program}
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    write_translator(folder / "m", languages=("de", "fr"), tokenizer={"kind": "unigram"}, decode={"beam": 2})
    (folder / "m").rename(folder / "english-german")
    export_model(folder / "english-german", "transformers", folder / "theirs" / "english-german")
    return folder


@pytest.mark.wide
def test_the_program_of_the_card_runs_without_heedful(exported: Path) -> None:
    card = (exported / "theirs/english-german/README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: translation\ntags:\n- heedful\n---\n")
    assert "\n# english-german\n" in card
    assert str(exported) not in card
    (program,) = re.findall(r"```python\n(.*?)```", card, re.S)
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(program=program)],
        cwd=exported / "theirs",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert re.match(r"""\[['"].""", done.stdout), done.stderr
    assert "<2" not in done.stdout


def test_a_card_says_which_tags_texts_begin_with(exported: Path) -> None:
    card = (exported / "theirs/english-german/README.md").read_text()
    assert "\nA text begins with the tag of the language that it is translated to: `<2de>`, `<2fr>`.\n" in card


def test_a_card_says_that_text_is_tokenized(tmp_path: Path) -> None:
    bundle = write_translator(tmp_path / "m", data={"tokenized": {"source": "en", "target": "de"}})
    write(bundle, tmp_path)
    assert "It reads and writes text that is tokenized by Moses' rules" in (tmp_path / "README.md").read_text()


def test_every_default_of_a_generation_is_written(exported: Path) -> None:
    said = json.loads((exported / "theirs/english-german/generation_config.json").read_text())
    assert said == {
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        "forced_bos_token_id": None,
        "forced_eos_token_id": None,
        "suppress_tokens": [0, 1, 3, 4, 5],
        "begin_suppress_tokens": None,
        "bad_words_ids": None,
        "do_sample": False,
        "num_beams": 2,
        "num_return_sequences": 1,
        "early_stopping": False,
        "length_penalty": 0.6,
        "no_repeat_ngram_size": 0,
        "repetition_penalty": 1.0,
        "min_length": 0,
        "max_length": 307,
        "use_cache": True,
    }
    config = json.loads((exported / "theirs/english-german/config.json").read_text())
    assert {key: config[key] for key in ("decoder_start_token_id", "forced_eos_token_id", "model_type")} == {
        "decoder_start_token_id": 1,
        "forced_eos_token_id": None,
        "model_type": "marian",
    }


def test_no_path_of_this_machine_is_written(exported: Path) -> None:
    for file in (exported / "theirs/english-german").iterdir():
        assert str(exported).encode() not in file.read_bytes(), file.name


def test_markers_in_a_text_are_text(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    bundle = write_translator(tmp_path / "m", languages=("de", "fr"))
    write(bundle, tmp_path)
    tokenizer, ours = AutoTokenizer.from_pretrained(tmp_path), bundle.vocabularies["source"]
    for text in ("a </s> b", "<pad>", "the <unk> of <s>", "<2it> x"):
        assert tokenizer(f"<2fr> {text}").input_ids == [ours.tag("fr"), *ours.encode(text), 2]


@pytest.mark.parametrize("languages", [(), ("de",), ("de", "fr")])
def test_each_text_is_read_as_here(languages: tuple[str, ...], tmp_path: Path) -> None:
    bundle = write_translator(tmp_path / "m", languages=languages)
    write(bundle, tmp_path / "m")
    found = compare(bundle, tmp_path / "m", read_samples(bundle, tmp_path / "m"))
    assert (found.count, found.unequal) == (7, 0)
    assert found.difference < CLOSE


# --- the comparison finds what is wrong -------------------------------------------------------------------------------


def change_weights(folder: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = change(tensors[name]).contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def write_markers(folder: Path) -> None:
    change_weights(folder, "final_logits_bias", lambda row: row + 50 * torch.eye(1, row.shape[1]))
    change_json(folder / "generation_config.json", suppress_tokens=None)


FAULTS: dict[str, Callable[[Path], None]] = {
    "rows that are not permuted": lambda folder: change_weights(
        folder, "model.encoder.layers.0.fc2.weight", lambda rows: rows.flip(0)
    ),
    "a bias too many": lambda folder: change_weights(
        folder, "final_logits_bias", lambda row: row + torch.eye(1, row.shape[1])
    ),
    "embeddings that are not scaled": lambda folder: change_json(folder / "config.json", scale_embedding=False),
    "another start": lambda folder: change_json(folder / "generation_config.json", decoder_start_token_id=0),
    "markers that are written": write_markers,
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_folder_answers_differently(name: str, tmp_path: Path) -> None:
    bundle = write_translator(tmp_path / "m")
    write(bundle, tmp_path / "theirs")
    FAULTS[name](tmp_path / "theirs")
    found = compare(bundle, tmp_path / "theirs", read_samples(bundle, tmp_path / "m"))
    assert found.unequal or found.difference > CLOSE


def test_text_that_is_read_otherwise_is_found(tmp_path: Path) -> None:
    bundle = write_translator(tmp_path / "m")
    write(bundle, tmp_path / "theirs")
    change_json(tmp_path / "theirs/tokenizer.json", post_processor=None)
    found = compare(bundle, tmp_path / "theirs", read_samples(bundle, tmp_path / "m"))
    assert found.unequal == 7


def test_a_wrong_export_is_refused_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_translator(tmp_path / "m")
    wrong = Comparison(7, 2, 0.5, "7 rows")
    monkeypatch.setattr("heedful.interop.transformers.pairs.comparing.compare", lambda *given: wrong)
    with refuses("...m answers differently in transformers: 2 of 7 ..."):
        export_model(tmp_path / "m", "transformers", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_texts_longer_than_those_of_training_are_not_compared(tmp_path: Path) -> None:
    bundle = write_translator(tmp_path / "m", data={"max_length": 20})
    write(bundle, tmp_path / "theirs")
    (tmp_path / "lines").write_text("short\n" + "a long line " * 30 + "\n\n")
    found = compare(bundle, tmp_path / "theirs", read_samples(bundle, tmp_path / "m", tmp_path / "lines"))
    assert (found.count, found.unequal) == (1, 0)
    assert read_bundle(tmp_path / "m").recipe.data.max_length == 20
