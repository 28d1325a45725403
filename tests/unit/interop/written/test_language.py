"""Language models go to `transformers`, answer alike, and come back with equal weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.shared.refusals import refuses
from tests.unit.interop.language.language_folders import write_gpt2, write_llama, write_mistral, write_qwen2
from tests.unit.interop.written.tiny_models import (
    GPT,
    LLAMA,
    TEXTS,
    assert_equal,
    make_model,
    there_and_back,
    tiny_recipe,
    weights_of,
)
from transformers import AutoTokenizer, pipeline

from heedful.interop.exports.exporting import export_model
from heedful.interop.exports.formats import FORMATS
from heedful.interop.importing import import_model
from heedful.models.bundle import read_bundle, write_weights
from heedful.models.networks import LanguageModel
from heedful.tasks.generate.model import TextGenerator

VARIANTS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {  # type, decoder, tokenizer, keys of the model
    "gpt2": ("gpt2", GPT, "byte_bpe", {}),
    "gpt2 of words": ("gpt2", GPT | {"activation": "relu"}, "word", {"tie": False}),
    "gpt2 of WordPiece": ("gpt2", GPT | {"activation": "silu"}, "wordpiece", {}),
    "gpt2 of unigrams": ("gpt2", GPT | {"activation": "gelu"}, "unigram", {}),
    "gpt2 of BPE": ("gpt2", GPT, "bpe", {}),
    "gpt2 of letters": ("gpt2", GPT, "char", {}),
    "llama": ("llama", LLAMA, "byte_bpe", {}),
    "llama with biases": ("llama", LLAMA | {"bias": True, "rope_base": 500.0}, "byte_bpe", {"tie": False}),
    "llama with wide heads": ("llama", LLAMA | {"key_width": 6, "value_width": 6}, "unigram", {}),
    "mistral": ("mistral", LLAMA | {"attention_radius": 3}, "byte_bpe", {"tie": False}),
}


def in_short(variant: str, borders: str) -> bool:
    """Whether `make test` tries a variant, and not only `make test-all`."""
    return (variant, borders) in {
        ("gpt2", "closed"),
        ("llama", "open"),
        ("mistral", "closed"),
        ("gpt2 of words", "open"),
    }


@pytest.mark.parametrize(
    ("kind", "decoder", "pieces", "keys", "borders"),
    [
        pytest.param(
            *variant, borders, marks=() if in_short(name, borders) else pytest.mark.wide, id=f"{name}-{borders}"
        )
        for name, variant in VARIANTS.items()
        for borders in ("closed", "open")
    ],
)
def test_a_model_answers_alike_and_comes_back_with_equal_weights(
    kind: str, decoder: dict[str, Any], pieces: str, keys: dict[str, Any], borders: str, tmp_path: Path
) -> None:
    model = {"family": "language", "decoder": decoder, **keys}
    folder = make_model(tmp_path / "ours", model, pieces, {"borders": borders})
    exported, back = there_and_back(folder, tmp_path)
    assert exported.comparison is not None
    assert exported.comparison.count > 20
    assert json.loads((tmp_path / "theirs/config.json").read_text())["model_type"] == kind
    assert_equal(back, weights_of(folder))
    recipe = read_bundle(tmp_path / "back", LanguageModel).recipe
    assert (recipe.data.borders, recipe.tokenizer.kind) == (borders, pieces)


@pytest.mark.parametrize(
    "write",
    [write_gpt2, *(pytest.param(one, marks=pytest.mark.wide) for one in (write_llama, write_mistral, write_qwen2))],
)
def test_what_was_imported_goes_back_without_its_copies_of_markers(write: Any, tmp_path: Path) -> None:
    theirs = write(tmp_path / "first")
    import_model(tmp_path / "first", tmp_path / "ours")
    _, back = there_and_back(tmp_path / "ours", tmp_path)
    assert_equal(back, weights_of(tmp_path / "ours"))
    config = json.loads((tmp_path / "theirs/config.json").read_text())
    assert (config["model_type"], config["vocab_size"]) == (theirs.config.model_type, theirs.config.vocab_size)
    first, second = (AutoTokenizer.from_pretrained(tmp_path / name) for name in ("first", "theirs"))
    for text in TEXTS:
        read, written = (tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) for tokenizer in (first, second))
        assert len(read) == len(written)
        assert read[1:] == written[1:]


def test_biases_of_projections_alone_are_those_of_llama_with_other_tokenizers_than_qwens(tmp_path: Path) -> None:
    decoder = LLAMA | {"projection_bias": True}
    folder = make_model(tmp_path / "ours", {"family": "language", "decoder": decoder}, "byte_bpe")
    export_model(folder, "transformers", tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs/config.json").read_text())
    assert (config["model_type"], config["attention_bias"]) == ("llama", True)
    tensors = load_file(tmp_path / "theirs/model.safetensors")
    assert not tensors["model.layers.1.self_attn.o_proj.bias"].any()
    assert tensors["model.layers.1.self_attn.q_proj.bias"].all()


@pytest.mark.parametrize("decoder", [GPT, pytest.param(LLAMA, marks=pytest.mark.wide)], ids=["gpt2", "llama"])
def test_a_pipeline_continues_texts_as_the_original(decoder: dict[str, Any], tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", {"family": "language", "decoder": decoder}, "byte_bpe")
    export_model(folder, "transformers", tmp_path / "theirs")
    asked = pipeline("text-generation", model=str(tmp_path / "theirs"), device="cpu")
    answer = asked("the old house", max_new_tokens=8, max_length=None, return_full_text=False)
    ours = TextGenerator.load(folder, device="cpu").generate("the old house", max_tokens=8, temperature=0)
    assert answer[0]["generated_text"] == ours


def test_settings_of_generation_are_all_written(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", {"family": "language", "decoder": GPT}, "byte_bpe")
    export_model(folder, "transformers", tmp_path / "theirs")
    settings = json.loads((tmp_path / "theirs/generation_config.json").read_text())
    assert settings["suppress_tokens"] == [0, 1, 3]
    assert (settings["bos_token_id"], settings["eos_token_id"], settings["pad_token_id"]) == (1, 2, 0)
    assert (settings["do_sample"], settings["num_beams"], settings["max_length"]) == (False, 1, 64)


def test_line_breaks_and_markers_in_texts_are_read_alike(tmp_path: Path) -> None:
    """Vocabularies of words have a sign for a line break; a marker in a text is text."""
    texts = ["one\ntwo", "a\n\n b \n", "\nc", "the </s> end <s>", "x\n\ty"]
    for pieces in ("word", "unigram", "wordpiece", "bpe", "byte_bpe"):
        folder = make_model(tmp_path / f"{pieces}/ours", {"family": "language", "decoder": GPT}, pieces)
        (tmp_path / f"{pieces}/lines.txt").write_text("\n".join(texts))
        export_model(folder, "transformers", tmp_path / f"{pieces}/theirs", samples=tmp_path / f"{pieces}/lines.txt")
        ours, theirs = (
            TextGenerator.load(folder, device="cpu"),
            AutoTokenizer.from_pretrained(tmp_path / f"{pieces}/theirs"),
        )
        for text in texts:
            ((_, _, encoded),) = [ours.continuing([text], {})]
            assert theirs(text)["input_ids"] == encoded[0], (pieces, text)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_bias_that_training_has_changed_is_refused(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    bundle = read_bundle(tmp_path / "ours", LanguageModel)
    bias = bundle.model.output.bias
    assert bias is not None
    with torch.no_grad():
        bias[7] = 0.5
    write_weights(tmp_path / "ours", bundle.model)
    with refuses(
        f"The output layer of {tmp_path}/ours has a bias (`model.output_bias`) that training has changed, and the "
        "models of transformers have none: train with `train.freeze`, or without `model.output_bias`, to export."
    ):
        export_model(tmp_path / "ours", "transformers", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("decoder", "key", "why"),
    [
        (GPT | {"norm": "post"}, "norm", 'in GPT-2 it is "pre", but here it is "post"'),
        (GPT | {"positions": "alibi"}, "positions", 'in GPT-2 it is "learned", but here it is "alibi"'),
        (GPT | {"attention_radius": 4}, "attention_radius", "in GPT-2 there is none, but here it is 4"),
        (GPT | {"bias": False}, "bias", "in GPT-2 it is true, but here it is false"),
        (GPT | {"key_value_heads": 2}, "key_value_heads", "in GPT-2 every head has keys and values of its own"),
        (GPT | {"key_width": 8}, "key_width", "in GPT-2 heads divide the width"),
        (LLAMA | {"activation": "gelu"}, "activation", 'in Llama it is "swiglu", but here it is "gelu"'),
        (LLAMA | {"positions": "learned"}, "positions", 'in Llama it is "rope", but here it is "learned"'),
        (LLAMA | {"value_width": 8}, "value_width", "in Llama values are as wide as keys"),
        (
            LLAMA | {"attention_radius": 4, "bias": True},
            "bias",
            "in Mistral it is false, but here it is true",
        ),
        (
            {"family": "recurrent", "width": 8},
            "family",
            'transformers has decoders like "transformer" only, not like "recurrent"',
        ),
    ],
)
def test_what_no_language_model_of_transformers_has_is_refused(decoder: dict[str, Any], key: str, why: str) -> None:
    recipe = tiny_recipe({"family": "language", "decoder": decoder}, "byte_bpe")
    assert FORMATS["transformers"].refusals(recipe) == [(f"model.decoder.{key}", why)]


def test_a_trained_bias_of_the_output_layer_is_refused() -> None:
    recipe = tiny_recipe({"family": "language", "decoder": GPT, "output_bias": True}, "byte_bpe")
    refusal = ("model.output_bias", "in GPT-2 the output layer has no bias")
    assert FORMATS["transformers"].refusals(recipe) == [refusal]
