"""Llama-shaped models: RMS norms, gated networks, rotary positions, shared heads of keys and values, few biases

Touvron et al. 2023
"""

from typing import Any, Final

from heedful.config.model.language import LanguageModelTable
from heedful.config.tables import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.byte_level import read_byte_level
from heedful.interop.checked_config import CheckedConfig
from heedful.interop.language_recipe import language_recipe
from heedful.interop.llama.weights import read_weights
from heedful.interop.model_folder import ModelFolder
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel
from heedful.models.weights import set_weights

_ACTIVATIONS: Final = {"silu": "swiglu", "swish": "swiglu"}


def read_llama(folder: ModelFolder) -> Bundle[LanguageModel]:
    """Read a Llama-shaped model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    config.must_be("mlp_bias", False, "Heedful's gated networks have no biases")
    config.must_be("sliding_window", None, "Heedful's attention has no window")
    decoder, tie = _table(config), config.flag("tie_word_embeddings", False)
    vocabulary = read_byte_level(folder)
    weights = read_weights(folder, decoder, tie, vocabulary)  # first: a config can claim any size
    recipe = language_recipe(folder, decoder, tie, vocabulary, config.number("max_position_embeddings", 2048))
    network = build_language_model(model_of(recipe, LanguageModelTable), vocabulary.tokenizer.size)
    set_weights(network, weights)
    return Bundle(recipe, Vocabularies({"text": vocabulary.tokenizer}), network)


def _table(config: CheckedConfig) -> dict[str, Any]:
    width, heads = config.number("hidden_size"), config.divisor("num_attention_heads", "hidden_size")
    config.must_be("head_dim", width // heads, "Heedful's heads divide `hidden_size`")
    shared = config.divisor("num_key_value_heads", "num_attention_heads") if _given(config) else heads
    return {
        "family": "transformer",
        "width": width,
        "heads": heads,
        "key_value_heads": shared,
        "layers": config.number("num_hidden_layers"),
        "inner": config.number("intermediate_size"),
        "activation": config.choice("hidden_act", _ACTIVATIONS),
        "norm_kind": "rms",
        "norm_epsilon": config.real("rms_norm_eps", 1e-6),
        "positions": "rope",
        "rope_base": _rope_base(config),
        "bias": config.flag("attention_bias", False),
        "dropout": 0.0,
        "dropout_attention": config.fraction("attention_dropout", 0.0),
    }


def _given(config: CheckedConfig) -> bool:
    return config.values.get("num_key_value_heads") is not None


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
