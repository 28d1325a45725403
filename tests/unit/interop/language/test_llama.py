"""From a Llama folder to a bundle: recipe and markers, and one line for what Heedful does not have."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.shared.refusals import like
from tests.unit.interop.language.language_folders import BEGIN_OF_TEXT, END_OF_TEXT, write_mistral, write_qwen2
from tests.unit.interop.marian_folders import Change
from tokenizers import Tokenizer as Library

from heedful.base.errors import UserError
from heedful.config.model.language import LanguageModelTable, TransformerDecoderTable
from heedful.interop.transformers.language.reading import read_llama, read_mistral, read_qwen2
from heedful.interop.transformers.model_folder import open_folder
from heedful.models.bundle import Bundle
from heedful.models.networks import LanguageModel


@pytest.fixture
def folder(whole_llama: Path, tmp_path: Path) -> Path:
    """A copy of the Llama folder."""
    return shutil.copytree(whole_llama, tmp_path / "llama")


def imported(folder: Path) -> Bundle[LanguageModel]:
    return read_llama(open_folder(folder))


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        imported(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_recipe_says_what_the_config_says(folder: Path) -> None:
    bundle = imported(folder)
    decoder = TransformerDecoderTable(
        width=16,
        heads=4,
        key_value_heads=2,
        layers=2,
        inner=24,
        activation="swiglu",
        norm_kind="rms",
        norm_epsilon=1e-6,
        positions="rope",
        rope_base=500.0,
        bias=False,
        dropout=0.0,
        dropout_attention=0.0,
    )
    assert bundle.recipe.model == LanguageModelTable(family="language", decoder=decoder, tie=False, output_bias=True)
    assert (bundle.recipe.data.max_length, bundle.recipe.data.borders) == (96, "closed")


def test_markers_are_the_folders_own_and_copies_are_never_predicted(folder: Path) -> None:
    library = Library.from_file(str(folder / "tokenizer.json"))
    begin, end = library.token_to_id(BEGIN_OF_TEXT), library.token_to_id(END_OF_TEXT)
    bundle, words = imported(folder), load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    embedding, bias = bundle.model.get_parameter("decoder.embedding.weight"), bundle.model.output.bias
    assert bias is not None
    assert torch.equal(embedding[:4], words[[end, begin, end, end]])
    assert bias[:4].tolist() == [-100, 0, 0, -100]
    assert len(embedding) == len(words) + 2
    reserved = bundle.vocabularies["text"].size - 1
    assert bundle.vocabularies["text"].decode([reserved]) == "<|reserved 0|>"


def test_older_configs_keep_the_base_elsewhere_and_store_rates(folder: Path, change: Change) -> None:
    change(rope_parameters=None, rope_theta=70.0, rope_scaling=None, num_key_value_heads=2)
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}, folder / "model.safetensors")
    table = imported(folder).recipe.model
    assert isinstance(table, LanguageModelTable)
    assert isinstance(table.decoder, TransformerDecoderTable)
    assert table.decoder.rope_base == 70.0


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            '`rope_scaling.rope_type` is "llama3", but must be "default": Heedful does not scale rotary positions.',
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            '`rope_scaling.type` is "linear", but must be "default": Heedful does not scale rotary positions.',
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 500.0}},
            '`rope_parameters.rope_type` is "yarn", but must be "default": Heedful does not scale rotary positions.',
        ),
        (
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            "`rope_parameters.partial_rotary_factor` is 0.5, but must be 1.0: Heedful rotates whole heads.",
        ),
        ({"rope_scaling": "linear"}, '`rope_scaling` is "linear", but must be a table.'),
        ({"sliding_window": 64}, "`sliding_window` is 64, but must be null: Heedful's attention has no window."),
        ({"mlp_bias": True}, "`mlp_bias` is true, but must be false: Heedful's gated networks have no biases."),
        ({"head_dim": "wide"}, '`head_dim` is "wide", but must be a whole number.'),
        ({"hidden_act": "gelu"}, '`hidden_act` is "gelu", but must be one of silu, swish.'),
        (
            {"num_key_value_heads": 3},
            "`num_key_value_heads` is 3, but must be a divisor of `num_attention_heads` (4).",
        ),
    ],
)
def test_what_heedful_does_not_have_is_refused(
    folder: Path, change: Change, changed: dict[str, Any], line: str
) -> None:
    change(**changed)
    assert refusal(folder) == f"{folder}/config.json: {line}"


def test_a_head_that_is_not_the_tied_matrix_is_refused(folder: Path, change: Change) -> None:
    change(tie_word_embeddings=True)
    assert refusal(folder) == like(
        f"{folder}: `lm_head.weight` and `model.embed_tokens.weight` differ, but ... {folder}"
        "/config.json: set it to false there."
    )


def test_vocabularies_of_llama_2_are_refused(folder: Path) -> None:
    path = folder / "tokenizer.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps(described | {"decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]}}))
    assert refusal(folder) == f"{path}: `decoder` is Sequence, but must be ByteLevel, as in GPT-2 and Llama 3."


# --- Mistral and Qwen2 ------------------------------------------------------------------------------------------------


def test_a_window_counts_the_token_itself(tmp_path: Path) -> None:
    write_mistral(tmp_path / "mistral")
    table = read_mistral(open_folder(tmp_path / "mistral")).recipe.model
    assert isinstance(table, LanguageModelTable)
    assert isinstance(table.decoder, TransformerDecoderTable)
    assert table.decoder.attention_radius == 4


def test_qwen2_composes_texts_and_has_biases_of_projections_alone(tmp_path: Path) -> None:
    write_qwen2(tmp_path / "qwen2")
    bundle = read_qwen2(open_folder(tmp_path / "qwen2"))
    assert bundle.recipe.data.nfc
    assert (bundle.recipe.data.borders, bundle.recipe.data.max_length) == ("open", 96)
    biases = {name.split(".", 3)[-1] for name, _ in bundle.model.named_parameters() if ".blocks." in name}
    assert {name for name in biases if name.endswith("bias")} == {"attention.project.bias"}


def refusal_of(write: Any, read: Any, folder: Path, **changed: Any) -> str:
    write(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(UserError) as caught:
        read(open_folder(folder))
    return str(caught.value)


def test_other_windows_and_biases_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mistral"
    assert refusal_of(write_mistral, read_mistral, folder, sliding_window=1) == (
        f"{folder}/config.json: `sliding_window` is 1, but must be at least 2: a token, and one before."
    )
    assert refusal_of(write_mistral, read_mistral, folder, attention_bias=True) == (
        f"{folder}/config.json: `attention_bias` is true, but must be false: Mistral's attention has no biases."
    )
    folder = tmp_path / "qwen2"
    assert refusal_of(write_qwen2, read_qwen2, folder, use_sliding_window=True) == (
        f"{folder}/config.json: `use_sliding_window` is true, but must be false: Heedful's layers all see the whole "
        "text, or all a window."
    )
    types = ["full_attention", "sliding_attention"]
    assert refusal_of(write_qwen2, read_qwen2, folder, layer_types=types) == (
        f'{folder}/config.json: `layer_types` must be "full_attention" for each layer, as no window is used.'
    )


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    for write, read in ((write_mistral, read_mistral), (write_qwen2, read_qwen2)):
        folder = tmp_path / read.__name__
        write(folder)
        whole = load_file(folder / "model.safetensors")
        name = "model.layers.1.self_attn.k_proj.weight"
        for tensors, line in (
            ({key: tensor for key, tensor in whole.items() if key != name}, f"lacks `{name}`, which "),
            (whole | {name: whole[name][:4].clone()}, f": `{name}` has shape (4, 16), but "),
            (whole | {"model.extra": torch.zeros(2)}, "has `model.extra`, which does not belong "),
        ):
            save_file(tensors, folder / "model.safetensors")
            with pytest.raises(UserError) as caught:
                read(open_folder(folder))
            assert str(caught.value).startswith(f"{folder}/model.safetensors{'' if line[0] == ':' else ' '}{line}")
