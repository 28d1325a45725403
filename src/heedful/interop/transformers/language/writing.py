"""Writes language models as GPT-2, Llama, Mistral or Qwen2, with tokenizer, settings of generation and model card."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.base.files import write_bytes, write_json
from heedful.config.model.language import LanguageModelTable
from heedful.config.task_rules import model_of
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN
from heedful.interop.tensors import by_rows, write_pairs
from heedful.interop.transformers.contents.card import write_card
from heedful.interop.transformers.language.kinds import GPT2, LLAMA, MISTRAL, QWEN2, Kind, decoder_of, kind_of
from heedful.interop.transformers.language.names import pairs_of
from heedful.interop.transformers.model_folder import CONFIG, WEIGHTS, theirs_of
from heedful.interop.transformers.tokenizers.byte_level import NEVER
from heedful.interop.transformers.tokenizers.written import Markers, write_tokenizer
from heedful.models.bundle import Bundle
from heedful.models.networks import LanguageModel

GENERATION: Final = "generation_config.json"
_QWEN2_SPLIT: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_UNUSED: Final = (PAD, BEGIN, UNKNOWN)  # markers that a model never outputs


def write(bundle: Bundle[nn.Module], folder: Path) -> None:
    """Write a model that `refusals` accepts."""
    recipe, decoder = bundle.recipe, decoder_of(bundle.recipe)
    kind, tie = written_kind(bundle), model_of(recipe, LanguageModelTable).tie
    weights = dict(bundle.model.named_parameters())
    copies = copies_of(bundle)
    kept = kept_ids(bundle.vocabularies["text"].size, copies)
    places = {number: place for place, number in enumerate(kept)}
    rows = [places.get(number, places[END]) for number in range(len(kept) + len(copies))]
    pairs = pairs_of(kind, decoder.model_dump(), tie, by_rows(rows, len(kept)))
    named = {pair.ours for pair in pairs} | {"decoder.output.bias"}
    assert named >= weights.keys(), f"not written: {sorted(weights.keys() - named)}"
    tensors = write_pairs(pairs, weights)
    if kind is LLAMA and decoder.projection_bias and not decoder.bias:
        missing = {f"model.layers.{layer}.self_attn.o_proj.bias" for layer in range(decoder.layers)}
        tensors |= {name: torch.zeros(decoder.width) for name in missing}
    write_bytes(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))
    markers = {
        "bos_token_id": rows[BEGIN],
        "eos_token_id": rows[END],
        "pad_token_id": rows[PAD],
    }
    write_json(folder / CONFIG, _config(bundle, kind, len(kept)) | markers)
    write_json(
        folder / GENERATION, _generation(bundle, [places[number] for number in _UNUSED if number in places]) | markers
    )
    around = Markers(begins=recipe.data.borders == "closed", ends=False, copies=copies)
    write_tokenizer(folder, bundle.vocabularies["text"], recipe.data, around, _longest(bundle))
    write_card(folder, bundle, "text-generation", kind.model_class, '"a text that goes on"')


def written_kind(bundle: Bundle[nn.Module]) -> Kind:
    """Return the type that a model is written as.

    `transformers` splits texts for every Qwen2 by Qwen2's own rule, whatever its folder says: with another tokenizer, a
    model of this form is a Llama whose biases of outputs are 0.
    """
    kind = kind_of(decoder_of(bundle.recipe))
    if kind is not QWEN2:
        return kind
    described = json.loads(bundle.vocabularies["text"].to_json())
    parts = (described.get("pre_tokenizer") or {}).get("pretokenizers", [{}])
    splits = parts[0].get("pattern") == {"Regex": _QWEN2_SPLIT} and described["normalizer"] is None
    return QWEN2 if splits and bundle.recipe.data.nfc else LLAMA


def copies_of(bundle: Bundle[nn.Module]) -> tuple[int, ...]:
    """Return the markers that are copies of `</s>`, which a bias keeps from being predicted, as in imported models.

    Their rows are not written: no model of `transformers` has such a bias. A bias of any other kind is refused.
    """
    bias: Tensor | None = getattr(getattr(bundle.model, "output", None), "bias", None)
    if bias is None:
        return ()
    copies = tuple((bias == NEVER).nonzero().flatten().tolist())
    others = bias[[number for number in range(len(bias)) if number not in copies]]
    if others.any() or not set(copies) <= set(_UNUSED) or not _equal_rows(bundle, copies):
        raise UserError(
            f"The output layer of {bundle.folder} has a bias (`model.output_bias`) that training has changed, and the "
            "models of transformers have none: train with `train.freeze`, or without `model.output_bias`, to export."
        )
    return copies


def _equal_rows(bundle: Bundle[nn.Module], copies: Sequence[int]) -> bool:
    """Whether the rows of copies are still those of `</s>`."""
    model = bundle.model
    assert isinstance(model, LanguageModel), "another family has another writer"
    matrices = [model.get_parameter("decoder.embedding.weight"), model.output.weight]
    return all(bool((matrix[number] == matrix[END]).all()) for matrix in matrices for number in copies)


def kept_ids(size: int, copies: Sequence[int]) -> list[int]:
    """Return our ids that are written, in the order of theirs."""
    return [number for number in range(size) if number not in copies]


def _longest(bundle: Bundle[nn.Module]) -> int:
    decoder, window = decoder_of(bundle.recipe), bundle.recipe.data.max_length
    return min(decoder.max_positions, window) if decoder.positions_kind.limited else window


def _config(bundle: Bundle[nn.Module], kind: Kind, size: int) -> dict[str, Any]:
    decoder, table = decoder_of(bundle.recipe), model_of(bundle.recipe, LanguageModelTable)
    values = {key: getattr(decoder, key) for key in kind.keys}
    config: dict[str, Any] = {
        "architectures": [kind.model_class],
        "model_type": kind.model_type,
        "vocab_size": size,
        "tie_word_embeddings": table.tie,
        "dtype": "float32",
    }
    if kind is GPT2:
        values |= {"activation": theirs_of(decoder.activation)}
        values["dropout_embedding"] = (
            decoder.dropout if decoder.dropout_embedding is None else decoder.dropout_embedding
        )
        config |= {
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "reorder_and_upcast_attn": False,
            "add_cross_attention": False,
        }
    else:
        values["key_value_heads"] = decoder.key_value_heads or decoder.heads
        config |= {
            "hidden_act": "silu",
            "head_dim": decoder.head_widths[0],
            "max_position_embeddings": _longest(bundle),
            "rope_parameters": {"rope_type": "default", "rope_theta": decoder.rope_base},
            "rope_theta": decoder.rope_base,  # where older versions look for it
            "attention_bias": bool(decoder.bias or (kind is LLAMA and decoder.projection_bias)),
            "mlp_bias": False,
        }
        if kind is MISTRAL:
            config["sliding_window"] = decoder.attention_radius + 1  # it counts the token itself
        elif kind is QWEN2:
            config["use_sliding_window"] = False
    return config | {kind.keys[key]: value for key, value in values.items()}


def _generation(bundle: Bundle[nn.Module], unused: Sequence[int]) -> dict[str, Any]:
    """Return settings of generation, each written, so that no default of another version changes what is found."""
    return {
        "do_sample": False,
        "num_beams": 1,
        "num_return_sequences": 1,
        "max_length": _longest(bundle),
        "min_length": 0,
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 1.0,
        "repetition_penalty": 1.0,
        "no_repeat_ngram_size": 0,
        "suppress_tokens": list(unused),
    }
