"""GPT-2 models: a pre-norm Transformer decoder with learned positions and a byte-level vocabulary

Radford et al. 2019
"""

from collections.abc import Mapping
from typing import Any, Final

from heedful.config.model.language import LanguageModelTable
from heedful.config.tables import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.byte_level import read_byte_level
from heedful.interop.checked_config import CheckedConfig
from heedful.interop.gpt2.weights import read_weights
from heedful.interop.language_recipe import language_recipe
from heedful.interop.model_folder import ModelFolder
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel
from heedful.models.weights import set_weights

_FIXED: Final[Mapping[str, bool]] = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_ACTIVATIONS: Final = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def read_gpt2(folder: ModelFolder) -> Bundle[LanguageModel]:
    """Read a GPT-2 model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    for key, wanted in _FIXED.items():
        config.must_be(key, wanted, "Heedful does not support other GPT-2 models")
    decoder, tie = _table(config), config.flag("tie_word_embeddings", True)
    vocabulary = read_byte_level(folder)
    weights = read_weights(folder, decoder, tie, vocabulary)  # first: a config can claim any size
    recipe = language_recipe(folder, decoder, tie, vocabulary, decoder["max_positions"])
    network = build_language_model(model_of(recipe, LanguageModelTable), vocabulary.tokenizer.size)
    set_weights(network, weights)
    return Bundle(recipe, Vocabularies({"text": vocabulary.tokenizer}), network)


def _table(config: CheckedConfig) -> dict[str, Any]:
    width = config.number("n_embd")
    return {
        "family": "transformer",
        "width": width,
        "heads": config.divisor("n_head", "n_embd"),
        "layers": config.number("n_layer"),
        "inner": config.number("n_inner", 4 * width),
        "activation": config.choice("activation_function", _ACTIVATIONS),
        "norm_epsilon": config.real("layer_norm_epsilon", 1e-5),
        "max_positions": config.number("n_positions"),
        "dropout": config.fraction("resid_pdrop", 0.1),
        "dropout_embedding": config.fraction("embd_pdrop", 0.1),
        "dropout_attention": config.fraction("attn_pdrop", 0.1),
    }
