"""Language models with byte-level vocabularies: GPT-2, and models shaped like Llama

GPT-2 is a pre-norm Transformer decoder with learned positions      Radford et al. 2019
Llama has RMS norms, gated networks, rotary positions, shared heads of keys and values, few biases
                                                                    Touvron et al. 2023
Mistral is a Llama with a window                                    Jiang et al. 2023
Qwen2 is a Llama with biases of queries, keys and values            Yang et al. 2024
"""

from collections.abc import Mapping
from typing import Any, Final

import torch

from heedful.base.errors import UserError
from heedful.config.model.language import LanguageModelTable
from heedful.config.reading.load import recipe_from_json
from heedful.config.task_rules import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.tensors import by_rows, read_pairs
from heedful.interop.transformers.contents.named_tensors import NamedTensors
from heedful.interop.transformers.language.kinds import GPT2, LLAMA, MISTRAL, QWEN2, Kind
from heedful.interop.transformers.language.names import GPT2_PREFIX, HEAD, pairs_of, words_of
from heedful.interop.transformers.model_folder import ACTIVATIONS, CheckedConfig, ModelFolder
from heedful.interop.transformers.tokenizers.byte_level import NEVER, read_byte_level
from heedful.interop.transformers.tokenizers.own_order import kind_of_library, read_own_order
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel
from heedful.models.weights import set_weights, shapes_of

_GPT2_FIXED: Final[Mapping[str, bool]] = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_LLAMA_ACTIVATIONS: Final = {"silu": "swiglu", "swish": "swiglu"}


def read_gpt2(folder: ModelFolder) -> Bundle[LanguageModel]:
    """Read a GPT-2 model, or raise a UserError that says why it cannot be read."""
    config, keys = folder.config, GPT2.keys
    for key, wanted in _GPT2_FIXED.items():
        config.must_be(key, wanted, "Heedful does not support other GPT-2 models")
    width, longest = config.number(keys["width"]), config.number(keys["max_positions"])
    decoder = {
        "family": "transformer",
        "width": width,
        "heads": config.divisor(keys["heads"], keys["width"]),
        "layers": config.number(keys["layers"]),
        "inner": config.number(keys["inner"], 4 * width),
        "activation": config.choice(keys["activation"], ACTIVATIONS),
        "norm_epsilon": config.real(keys["norm_epsilon"], 1e-5),
        "max_positions": longest,
        "dropout": config.fraction(keys["dropout"], 0.1),
        "dropout_embedding": config.fraction(keys["dropout_embedding"], 0.1),
        "dropout_attention": config.fraction(keys["dropout_attention"], 0.1),
    }
    return _read(folder, GPT2, decoder, config.flag("tie_word_embeddings", True), longest)


def read_llama(folder: ModelFolder) -> Bundle[LanguageModel]:
    """Read a Llama-shaped model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    config.must_be("sliding_window", None, "Heedful's attention has no window")
    return _read_llama(folder, LLAMA, {"bias": config.flag("attention_bias", False)})


def read_mistral(folder: ModelFolder) -> Bundle[LanguageModel]:
    """Read a Mistral model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    config.must_be("attention_bias", False, "Mistral's attention has no biases")
    said = config.values.get("sliding_window", 4096)
    if said is None:
        return _read_llama(folder, MISTRAL, {"bias": False})
    if config.number("sliding_window", 4096) < 2:
        raise UserError(f"{config.where}: `sliding_window` is {said}, but must be at least 2: a token, and one before.")
    return _read_llama(folder, MISTRAL, {"bias": False, "attention_radius": said - 1})  # it counts the token itself


def read_qwen2(folder: ModelFolder) -> Bundle[LanguageModel]:
    """Read a Qwen2 model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    config.must_be("use_sliding_window", False, "Heedful's layers all see the whole text, or all a window")
    types = config.values.get("layer_types")
    if types is not None and any(kind != "full_attention" for kind in types):
        raise UserError(f'{config.where}: `layer_types` must be "full_attention" for each layer, as no window is used.')
    return _read_llama(folder, QWEN2, {"bias": False, "projection_bias": True})


def _read_llama(folder: ModelFolder, kind: Kind, own: Mapping[str, Any]) -> Bundle[LanguageModel]:
    """Read a model shaped like Llama; `own` are the keys of the decoder that its type decides."""
    config, keys = folder.config, kind.keys
    config.must_be("mlp_bias", False, "Heedful's gated networks have no biases")
    width = config.number(keys["width"])
    shared = config.values.get(keys["key_value_heads"]) is not None
    heads = config.number(keys["heads"])
    of_head = None if config.values.get("head_dim") is None else config.number("head_dim")
    widths = {}
    if of_head is None or of_head * heads == width:
        heads = config.divisor(keys["heads"], keys["width"])
    else:
        widths = dict.fromkeys(("key_width", "value_width"), of_head)
    decoder = {
        "family": "transformer",
        "width": width,
        "heads": heads,
        **widths,
        "key_value_heads": config.divisor(keys["key_value_heads"], keys["heads"]) if shared else heads,
        "layers": config.number(keys["layers"]),
        "inner": config.number(keys["inner"]),
        "activation": config.choice("hidden_act", _LLAMA_ACTIVATIONS),
        "norm_kind": "rms",
        "norm_epsilon": config.real(keys["norm_epsilon"], 1e-6),
        "positions": "rope",
        "rope_base": _rope_base(config),
        "dropout": 0.0,
        "dropout_attention": config.fraction(keys["dropout_attention"], 0.0),
        **own,
    }
    tie, longest = config.flag("tie_word_embeddings", False), config.number("max_position_embeddings", 2048)
    return _read(folder, kind, decoder, tie, longest)


def _rope_base(config: CheckedConfig) -> float:
    """Return the base of rotary positions; scaled ones are refused. `transformers` has kept it in two places."""
    base = config.real("rope_theta", 10_000.0)
    for key in ("rope_scaling", "rope_parameters"):
        table = config.table(key)
        for kind in ("rope_type", "type"):
            table.must_be(f"{key}.{kind}", "default", "Heedful does not scale rotary positions")
        table.must_be(f"{key}.partial_rotary_factor", 1.0, "Heedful rotates whole heads")
        base = table.real(f"{key}.rope_theta", base)
    return base


def _read(
    folder: ModelFolder, kind: Kind, decoder: Mapping[str, Any], tie: bool, longest: int
) -> Bundle[LanguageModel]:
    """Read the vocabulary and the weights of a model with this decoder.

    Its training data is unknown, so the corpus of its recipe names the folder itself. Texts have closed borders where
    the folder's tokenizer puts a marker before them. Otherwise borders are open: a prompt is continued as it is.
    """
    own = read_own_order(folder)
    vocabulary = read_byte_level(folder) if own is None else None
    tokenizer = vocabulary.tokenizer if vocabulary is not None else own
    assert tokenizer is not None, "one of the two was read"
    # The weights come before the network: a config can claim any size.
    tensors, size = NamedTensors(folder, _spellings(kind)), folder.config.number("vocab_size")
    _check_sizes(folder, tensors, kind, decoder, tie, size)
    begins = vocabulary.begins if vocabulary is not None else _begins(folder)
    table = {
        "data": {
            "train": [{"name": "imported", "text": str(folder.path)}],
            "max_length": longest,
            "batch_tokens": max(4096, longest),
            "borders": "closed" if begins else "open",
            "nfc": vocabulary is not None and vocabulary.composes,
        },
        "tokenizer": {"kind": kind_of_library(tokenizer), "size": tokenizer.size},
        "model": {"family": "language", "decoder": decoder, "tie": tie, "output_bias": vocabulary is not None},
    }
    recipe = recipe_from_json(table, str(folder.config.where))
    network = build_language_model(model_of(recipe, LanguageModelTable), tokenizer.size)
    shapes = shapes_of(dict(network.named_parameters()))
    rows = range(size) if vocabulary is None else vocabulary.rows
    ours = read_pairs(pairs_of(kind, decoder, tie, by_rows(rows, size)), shapes, tensors.take)
    if vocabulary is not None:  # copies of markers are not predicted
        bias = torch.zeros(tokenizer.size)
        bias[torch.tensor(vocabulary.copies)] = NEVER
        ours["decoder.output.bias"] = bias
    _skip_buffers(tensors, kind, decoder, longest)
    tensors.refuse_rest()
    set_weights(network, ours)
    return Bundle(recipe, Vocabularies({"text": tokenizer}), network)


def _begins(folder: ModelFolder) -> bool:
    """Whether the tokenizer of a folder that Heedful has written puts `<s>` before a text."""
    template = folder.read_config("tokenizer.json").values.get("post_processor") or {}
    return any("SpecialToken" in part for part in template.get("single", ()))


def _spellings(kind: Kind) -> Any:
    return lambda name: list(dict.fromkeys((name, name.removeprefix(GPT2_PREFIX)))) if kind is GPT2 else [name]


def _check_sizes(
    folder: ModelFolder, tensors: NamedTensors, kind: Kind, decoder: Mapping[str, Any], tie: bool, size: int
) -> None:
    """Check the embedding and the last block before anything is allocated, and a tied output layer."""
    words, width = words_of(kind), decoder["width"]
    embedding = tensors.take(words, (size, width))
    norm = f"{GPT2_PREFIX}h.{{}}.ln_1.weight" if kind is GPT2 else "model.layers.{}.input_layernorm.weight"
    tensors.take(norm.format(decoder["layers"] - 1), (width,))
    if kind is GPT2:
        tensors.take(f"{GPT2_PREFIX}wpe.weight", (decoder["max_positions"], width))
    if tie and tensors.has(HEAD, size, width) and not torch.equal(tensors.take(HEAD, (size, width)), embedding):
        raise UserError(
            f"{folder.path}: `{HEAD}` and `{words.removeprefix(GPT2_PREFIX)}` differ, but `tie_word_embeddings` is "
            f"true in {folder.config.where}: set it to false there."
        )


def _skip_buffers(tensors: NamedTensors, kind: Kind, decoder: Mapping[str, Any], longest: int) -> None:
    """Leave out what older files store besides weights: causal masks, and the rates of rotation."""
    for layer in range(decoder["layers"]):
        if kind is GPT2:
            tensors.skip(f"{GPT2_PREFIX}h.{layer}.attn.bias", 1, 1, longest, longest)
            tensors.skip(f"{GPT2_PREFIX}h.{layer}.attn.masked_bias")
        else:
            width = decoder.get("key_width") or decoder["width"] // decoder["heads"]
            tensors.skip(f"model.layers.{layer}.self_attn.rotary_emb.inv_freq", width // 2)
