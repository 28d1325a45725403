"""From a GPT-2 folder to a bundle: recipe and weights, and one line for every other folder.

That the bundle computes what `transformers` computes is in tests/numerics/models/test_import_language_models.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.unit.interop.language.language_folders import write_gpt2
from tests.unit.interop.marian_folders import Change

from heedful.base.errors import UserError
from heedful.config.corpora.containers import PlainText
from heedful.config.model.language import LanguageModelTable, TransformerDecoderTable
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.interop.importing import import_model
from heedful.interop.transformers.language.reading import read_gpt2
from heedful.interop.transformers.model_folder import open_folder
from heedful.models.bundle import Bundle
from heedful.models.networks import LanguageModel


def imported(folder: Path) -> Bundle[LanguageModel]:
    return read_gpt2(open_folder(folder))


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        imported(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def change_tensors(folder: Path, renamed: Callable[[str], str] = str, **added: torch.Tensor) -> None:
    """Rename tensors, or add some; those that are called nothing are taken away."""
    tensors = {renamed(name): tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    tensors |= {name.replace("__", "."): tensor for name, tensor in added.items()}
    save_file({name: tensor for name, tensor in tensors.items() if name}, folder / "model.safetensors")


def test_the_recipe_says_what_the_config_says(folder: Path) -> None:
    bundle = imported(folder)
    decoder = TransformerDecoderTable(
        width=16,
        heads=4,
        layers=2,
        inner=64,
        activation="gelu_tanh",
        norm_epsilon=1e-5,
        max_positions=96,
        dropout=0.25,
        dropout_embedding=0.125,
        dropout_attention=0.0625,
    )
    assert bundle.recipe.model == LanguageModelTable(family="language", decoder=decoder, tie=True, output_bias=True)
    assert (bundle.recipe.data.max_length, bundle.recipe.data.borders) == (96, "open")
    assert bundle.recipe.data.train == (PlainText(name="imported", text=str(folder)),)
    assert bundle.recipe.tokenizer.kind == "byte_bpe"
    assert bundle.recipe.tokenizer.size == bundle.vocabularies["text"].size
    assert recipe_from_json(recipe_to_json(bundle.recipe), "config.json") == bundle.recipe


def test_the_end_marker_is_all_four_markers(folder: Path) -> None:
    bundle, words = imported(folder), load_file(folder / "model.safetensors")["transformer.wte.weight"]
    end = json.loads((folder / "vocab.json").read_text())["<|endoftext|>"]
    embedding, bias = bundle.model.get_parameter("decoder.embedding.weight"), bundle.model.output.bias
    assert bias is not None
    assert len(embedding) == len(words) + 3
    for marker in range(4):
        assert torch.equal(embedding[marker], words[end])
    assert bias[:4].tolist() == [-100, -100, 0, -100]
    assert not bias[4:].any()


def test_the_end_marker_in_a_text_is_text(folder: Path) -> None:
    tokenizer = imported(folder).vocabularies["text"]
    assert min(tokenizer.encode("a<|endoftext|>")) > 3
    assert tokenizer.decode(tokenizer.encode("a<|endoftext|>")) == "a<|endoftext|>"


def test_a_marker_before_every_text_is_kept(folder: Path, change: Change) -> None:
    change("tokenizer_config.json", add_bos_token=True)
    assert imported(folder).recipe.data.borders == "closed"


def test_files_may_repeat_the_tied_matrix_and_store_masks(folder: Path) -> None:
    before, words = imported(folder), load_file(folder / "model.safetensors")["transformer.wte.weight"]
    mask = torch.ones(1, 1, 96, 96).tril()
    change_tensors(
        folder,
        lm_head__weight=words.clone(),
        transformer__h__0__attn__bias=mask,
        transformer__h__1__attn__masked_bias=torch.tensor(-1e4),
    )
    after = imported(folder)
    for name, parameter in before.model.named_parameters():
        assert torch.equal(after.model.get_parameter(name), parameter), name


def test_a_head_that_is_not_the_tied_matrix_is_refused(folder: Path) -> None:
    words = load_file(folder / "model.safetensors")["transformer.wte.weight"]
    change_tensors(folder, lm_head__weight=words + 1)
    assert refusal(folder) == (
        f"{folder}: `lm_head.weight` and `wte.weight` differ, but `tie_word_embeddings` is true in "
        f"{folder}/config.json: set it to false there."
    )


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"scale_attn_weights": False}, "`scale_attn_weights` is false, but must be true: Heedful does not support "),
        ({"add_cross_attention": True}, "`add_cross_attention` is true, but must be false: Heedful does not support "),
        (
            {"scale_attn_by_inverse_layer_idx": True},
            "`scale_attn_by_inverse_layer_idx` is true, but must be false: Heedful does not support other GPT-2 models",
        ),
        (
            {"activation_function": "mish"},
            '`activation_function` is "mish", but must be one of gelu_new, gelu_pytorch_tanh, gelu, relu, silu, swish.',
        ),
        ({"n_head": 3}, "`n_head` is 3, but must be a divisor of `n_embd` (16)."),
        ({"n_positions": None}, "`n_positions` is missing, but must be a whole number."),
        ({"eos_token_id": None}, "`eos_token_id` is missing, but a language model needs its end marker."),
        ({"eos_token_id": [0, 1]}, "`eos_token_id` is [0, 1], but must be one whole number from 0 to 400."),
    ],
)
def test_other_models_are_refused(folder: Path, change: Change, changed: dict[str, Any], line: str) -> None:
    (folder / "generation_config.json").unlink()
    change(**changed)
    assert refusal(folder).startswith(f"{folder}/config.json: {line}")


def test_sizes_that_are_not_of_the_weights_are_refused_before_anything_is_made_of_them(
    folder: Path, change: Change
) -> None:
    change(n_layer=10_000_000)
    assert refusal(folder).startswith(f"{folder}/model.safetensors lacks `transformer.h.9999999.ln_1.weight`, which ")
    change(n_layer=1)
    assert refusal(folder).startswith(f"{folder}/model.safetensors has `transformer.h.1.attn.c_attn.bias`, which ")
    change(n_layer=2, n_positions=10_000_000)
    assert refusal(folder).endswith(f" has shape (96, 16), but {folder}/config.json requires (10000000, 16).")


def test_pickles_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "holds its weights as a pickle (pytorch_model.bin), which can run code" in refusal(folder)


def test_the_card_says_how_to_generate(folder: Path, tmp_path: Path) -> None:
    found = import_model(folder, tmp_path / "out")
    assert found.model_type == "gpt2"
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"imported from {folder.name}, a gpt2 model of `transformers`, training data unknown.\n" in card
    assert "heedful generate out" in card


# --- vocabularies -----------------------------------------------------------------------------------------------------


def change_library(folder: Path, **parts: Any) -> None:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"decoder": None}, "`decoder` is missing, but must be ByteLevel, as in GPT-2 and Llama 3."),
        ({"decoder": {"type": "Fuse"}}, "`decoder` is Fuse, but must be ByteLevel, as in GPT-2 and Llama 3."),
        (
            {"normalizer": {"type": "Lowercase"}},
            "`normalizer` is Lowercase, but must be NFC or missing: Heedful reads texts as they are.",
        ),
        (
            {"pre_tokenizer": {"type": "WhitespaceSplit"}},
            "`pre_tokenizer` ends with WhitespaceSplit, but must end with ByteLevel.",
        ),
        ({"pre_tokenizer": None}, "`pre_tokenizer` ends with missing, but must end with ByteLevel."),
        (
            {
                "pre_tokenizer": {
                    "type": "ByteLevel",
                    "add_prefix_space": True,
                    "trim_offsets": True,
                    "use_regex": True,
                }
            },
            "`add_prefix_space` is true, but must be false: Heedful reads texts as they are.",
        ),
        (
            {
                "pre_tokenizer": {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": False,
                }
            },
            "`pre_tokenizer` joins a word with the white space after it, which Heedful does not support.",
        ),
        (
            {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "added_tokens": []},
            "`model` is WordLevel, but must be BPE, as in GPT-2 and Llama 3.",
        ),
    ],
)
def test_other_tokenizers_are_refused(folder: Path, parts: dict[str, Any], line: str) -> None:
    change_library(folder, **parts)
    assert refusal(folder) == f"{folder}/tokenizer.json: {line}"


def test_a_damaged_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    assert refusal(folder).startswith(f"{folder}/tokenizer.json is not a tokenizer (")
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": -1}}, "added_tokens": []}')
    assert refusal(folder).startswith(f"{folder}/tokenizer.json is not a tokenizer (a piece has the id -1, but ids ")


def test_added_pieces_of_text_are_refused(folder: Path) -> None:
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    change_library(folder, added_tokens=[{**added[0], "special": False}])
    assert refusal(folder) == (
        f"{folder}/tokenizer.json adds `<|endoftext|>` to the vocabulary, which is looked for in texts, but Heedful "
        "supports only pieces made by merges, and markers."
    )


def test_other_markers_in_a_text_are_refused(folder: Path, change: Change) -> None:
    end = json.loads((folder / "vocab.json").read_text())["<|endoftext|>"]
    special = {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [end], "tokens": ["<|endoftext|>"]}}
    after = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}]
    change_library(
        folder,
        post_processor={"type": "TemplateProcessing", "single": after, "pair": after, "special_tokens": special},
    )
    assert refusal(folder) == (
        f"{folder}/tokenizer.json: `post_processor` adds other markers to a text than `bos_token_id` before it, which "
        "Heedful does not support."
    )
    change("tokenizer_config.json", add_eos_token=True)
    assert refusal(folder) == (
        f"{folder}/tokenizer_config.json: `add_eos_token` is true, but must be false: Heedful continues a prompt "
        "without an end marker."
    )


def test_vocabularies_of_another_size_or_without_a_byte_are_refused(folder: Path, change: Change) -> None:
    change(vocab_size=4000)
    assert refusal(folder) == (
        f"{folder}/tokenizer.json has 401 pieces, but `vocab_size` of {folder}/config.json is 4,000: copy both again."
    )
    (folder / "tokenizer.json").unlink()
    (folder / "merges.txt").write_text("")
    ids = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({piece: number for piece, number in ids.items() if piece != "a"}))
    assert refusal(folder) == (
        f"{folder}/vocab.json lacks a piece for the byte `a`: it is not a byte-level vocabulary."
    )


def test_pieces_and_merges_that_are_not_those_are_refused(tmp_path: Path, folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "merges.txt").write_text("#version: 0.2\na b c\n")
    assert refusal(folder) == f"{folder}/merges.txt: line 2 must be two pieces, but is `a b c`: copy it again."
    (folder / "merges.txt").write_text("strange things\n")
    assert refusal(folder).startswith(f"{folder}/vocab.json and merges.txt do not fit together (")
    (folder / "vocab.json").write_text('{"a": "b"}')
    assert refusal(folder) == (
        f"{folder}/vocab.json must contain pieces with their ids, but contains something else: copy it again."
    )
    (folder / "vocab.json").write_text(json.dumps({"a" * 20_001: 0}))
    assert refusal(folder) == (
        f"{folder}/vocab.json has a piece of 20,001 characters, but the longest may have 20,000: copy it again."
    )
    (folder / "merges.txt").unlink()
    assert refusal(folder) == f"{folder} has no merges.txt, which a gpt2 model needs: copy it there."
    (folder / "vocab.json").unlink()
    assert refusal(folder) == (
        f"{folder} has neither tokenizer.json nor vocab.json and merges.txt, which a gpt2 model needs: copy its "
        "tokenizer there."
    )


def test_pieces_added_in_a_file_of_their_own_are_refused(folder: Path) -> None:
    (folder / "added_tokens.json").write_text('{"<|endoftext|>": 400, "[PAD]": 401}')
    assert imported(folder).recipe.data.borders == "open"  # tokenizer.json says all
    (folder / "tokenizer.json").unlink()
    assert refusal(folder) == (
        f"{folder}/added_tokens.json adds `[PAD]`, which may be a marker or text: save the tokenizer with "
        "`save_pretrained` of `transformers`, so that tokenizer.json says which."
    )


def test_a_space_before_every_text_is_refused(tmp_path: Path) -> None:
    write_gpt2(tmp_path, files="pieces")
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    assert refusal(tmp_path) == (
        f"{tmp_path}/tokenizer_config.json: `add_prefix_space` is true, but must be false: Heedful reads texts as "
        "they are."
    )
