"""Which type of language model a recipe is written as, and the keys of its config: without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from heedful.config.model.language import LanguageModelTable, TransformerDecoderTable
from heedful.config.recipe import Recipe


@dataclass(frozen=True)
class Kind:
    """A type of language model: how its config calls our keys."""

    model_type: str
    title: str  # in messages
    model_class: str
    keys: Mapping[str, str]


_LLAMA_KEYS: Final = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "key_value_heads": "num_key_value_heads",
    "layers": "num_hidden_layers",
    "inner": "intermediate_size",
    "norm_epsilon": "rms_norm_eps",
    "dropout_attention": "attention_dropout",
}
GPT2: Final = Kind(
    "gpt2",
    "GPT-2",
    "GPT2LMHeadModel",
    {
        "width": "n_embd",
        "heads": "n_head",
        "layers": "n_layer",
        "inner": "n_inner",
        "activation": "activation_function",
        "norm_epsilon": "layer_norm_epsilon",
        "max_positions": "n_positions",
        "dropout": "resid_pdrop",
        "dropout_embedding": "embd_pdrop",
        "dropout_attention": "attn_pdrop",
    },
)
LLAMA: Final = Kind("llama", "Llama", "LlamaForCausalLM", _LLAMA_KEYS)
MISTRAL: Final = Kind("mistral", "Mistral", "MistralForCausalLM", _LLAMA_KEYS)
QWEN2: Final = Kind("qwen2", "Qwen2", "Qwen2ForCausalLM", _LLAMA_KEYS)


def decoder_of(recipe: Recipe) -> Any:
    """Return the table of a language model's decoder."""
    assert isinstance(recipe.model, LanguageModelTable), f"{recipe.model.family} is not a language model"
    return recipe.model.decoder


def kind_of(decoder: TransformerDecoderTable) -> Kind:
    """Return the type that a decoder is written as: with RMS norms or rotary positions, one like Llama.

    Mistral is a Llama with a window, Qwen2 one with biases of queries, keys and values alone.
    """
    if decoder.norm_kind != "rms" and decoder.positions != "rope":
        return GPT2
    if decoder.attention_radius is not None:
        return MISTRAL
    return QWEN2 if decoder.projection_bias and not decoder.bias else LLAMA
