"""Language models with byte-level vocabularies: GPT-2 and Llama-shaped models

GPT-2 is a pre-norm Transformer decoder with learned positions      Radford et al. 2019
Llama has RMS norms, gated networks, rotary positions, shared heads of keys and values, few biases
                                                                    Touvron et al. 2023
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.config.model.language import LanguageModelTable
from heedful.config.reading.load import recipe_from_json
from heedful.config.task_rules import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.transformers.model_folder import ACTIVATIONS, CheckedConfig, CheckedWeights, ModelFolder
from heedful.interop.transformers.tokenizers.byte_level import read_byte_level
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel
from heedful.models.weights import set_weights

_HEAD: Final = "lm_head.weight"
_GPT2_FIXED: Final[Mapping[str, bool]] = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_LLAMA_ACTIVATIONS: Final = {"silu": "swiglu", "swish": "swiglu"}

# Our modules in a block, and their modules that are concatenated into each.
_GPT2_BLOCK: Final[Mapping[str, str]] = {
    "attention.project": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "network.into": "mlp.c_fc",
    "network.out": "mlp.c_proj",
    "around_attention.before": "ln_1",
    "around_network.before": "ln_2",
}
_LLAMA_BLOCK: Final[Mapping[str, tuple[str, ...]]] = {
    "attention.project": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.o_proj",),
    "network.into": ("mlp.gate_proj", "mlp.up_proj"),
    "network.out": ("mlp.down_proj",),
    "around_attention.before": ("input_layernorm",),
    "around_network.before": ("post_attention_layernorm",),
}


def read_gpt2(folder: ModelFolder) -> Bundle[LanguageModel]:
    """Read a GPT-2 model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    for key, wanted in _GPT2_FIXED.items():
        config.must_be(key, wanted, "Heedful does not support other GPT-2 models")
    width, longest = config.number("n_embd"), config.number("n_positions")
    decoder = {
        "family": "transformer",
        "width": width,
        "heads": config.divisor("n_head", "n_embd"),
        "layers": config.number("n_layer"),
        "inner": config.number("n_inner", 4 * width),
        "activation": config.choice("activation_function", ACTIVATIONS),
        "norm_epsilon": config.real("layer_norm_epsilon", 1e-5),
        "max_positions": longest,
        "dropout": config.fraction("resid_pdrop", 0.1),
        "dropout_embedding": config.fraction("embd_pdrop", 0.1),
        "dropout_attention": config.fraction("attn_pdrop", 0.1),
    }
    tie = config.flag("tie_word_embeddings", True)
    # Files of the whole model have a prefix.
    words = ("transformer.wte.weight", "wte.weight")
    return _read(folder, decoder, tie, longest, words, _gpt2_weights)


def read_llama(folder: ModelFolder) -> Bundle[LanguageModel]:
    """Read a Llama-shaped model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    config.must_be("mlp_bias", False, "Heedful's gated networks have no biases")
    config.must_be("sliding_window", None, "Heedful's attention has no window")
    width, heads = config.number("hidden_size"), config.divisor("num_attention_heads", "hidden_size")
    config.must_be("head_dim", width // heads, "Heedful's heads divide `hidden_size`")
    shared = config.values.get("num_key_value_heads") is not None
    decoder = {
        "family": "transformer",
        "width": width,
        "heads": heads,
        "key_value_heads": config.divisor("num_key_value_heads", "num_attention_heads") if shared else heads,
        "layers": config.number("num_hidden_layers"),
        "inner": config.number("intermediate_size"),
        "activation": config.choice("hidden_act", _LLAMA_ACTIVATIONS),
        "norm_kind": "rms",
        "norm_epsilon": config.real("rms_norm_eps", 1e-6),
        "positions": "rope",
        "rope_base": _rope_base(config),
        "bias": config.flag("attention_bias", False),
        "dropout": 0.0,
        "dropout_attention": config.fraction("attention_dropout", 0.0),
    }
    tie, longest = config.flag("tie_word_embeddings", False), config.number("max_position_embeddings", 2048)
    return _read(folder, decoder, tie, longest, ["model.embed_tokens.weight"], _llama_weights)


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
    folder: ModelFolder,
    decoder: Mapping[str, Any],
    tie: bool,
    longest: int,
    words: Sequence[str],
    parameters: Callable[[CheckedWeights, Mapping[str, Any]], dict[str, Tensor]],
) -> Bundle[LanguageModel]:
    """Read the vocabulary and the weights of a model with this decoder; `words` are the names of its embedding.

    Its training data is unknown, so the corpus of its recipe names the folder itself. Texts have closed borders where
    the folder's tokenizer puts a marker before them. Otherwise borders are open: a prompt is continued as it is.
    """
    vocabulary = read_byte_level(folder)
    # The weights come before the network: a config can claim any size.
    weights, shape = folder.weights(), (folder.config.number("vocab_size"), decoder["width"])
    embedding = weights.take_one(words, *shape)
    output = weights.take_or(embedding, _HEAD) if tie else weights.take(_HEAD, *shape)
    if tie and not torch.equal(output, embedding):
        raise UserError(
            f"{folder.path}: `{_HEAD}` and `{words[-1]}` differ, but `tie_word_embeddings` is true in "
            f"{folder.config.where}: set it to false there."
        )
    ours = parameters(weights, decoder)
    weights.refuse_rest()
    data = {
        "train": [{"name": "imported", "text": str(folder.path)}],
        "max_length": longest,
        "batch_tokens": max(4096, longest),
        "borders": "closed" if vocabulary.begins else "open",
    }
    table = {
        "data": data,
        "tokenizer": {"kind": "byte_bpe", "size": vocabulary.tokenizer.size},
        "model": {"family": "language", "decoder": decoder, "tie": tie, "output_bias": True},
    }
    recipe = recipe_from_json(table, str(folder.config.where))
    network = build_language_model(model_of(recipe, LanguageModelTable), vocabulary.tokenizer.size)
    set_weights(network, ours | vocabulary.matrices(embedding, output))
    return Bundle(recipe, Vocabularies({"text": vocabulary.tokenizer}), network)


# --- weights ----------------------------------------------------------------------------------------------------------


def _gpt2_weights(weights: CheckedWeights, decoder: Mapping[str, Any]) -> dict[str, Tensor]:
    """Map GPT-2's tensors to our parameters: its linear maps store x W, so their matrices are transposed."""
    width, inner, longest = (decoder[key] for key in ("width", "inner", "max_positions"))

    def take(name: str, *shape: int) -> Tensor:
        return weights.take_one([f"transformer.{name}", name], *shape)

    ours = {"decoder.embedding.positions.weight": take("wpe.weight", longest, width)}
    ours |= {f"decoder.final.{kind}": take(f"ln_f.{kind}", width) for kind in ("weight", "bias")}
    sizes = {  # the widths of input and output
        "attention.project": (width, 3 * width),
        "attention.output": (width, width),
        "network.into": (width, inner),
        "network.out": (inner, width),
    }
    for layer in range(decoder["layers"]):
        for name, theirs in _GPT2_BLOCK.items():
            shape = sizes.get(name, (width,))
            matrix = take(f"h.{layer}.{theirs}.weight", *shape)
            ours[f"decoder.blocks.{layer}.{name}.weight"] = matrix.T if name in sizes else matrix
            ours[f"decoder.blocks.{layer}.{name}.bias"] = take(f"h.{layer}.{theirs}.bias", shape[-1])
        for prefix in ("transformer.", ""):  # older files store the causal mask
            weights.take_or(torch.empty(1, 1, longest, longest, device="meta"), f"{prefix}h.{layer}.attn.bias")
            weights.take_or(torch.empty((), device="meta"), f"{prefix}h.{layer}.attn.masked_bias")
    return ours


def _llama_weights(weights: CheckedWeights, decoder: Mapping[str, Any]) -> dict[str, Tensor]:
    """Map Llama's tensors to our parameters.

    Llama rotates columns c and c + D/2 of a head as a plane, Heedful columns 2c and 2c + 1 (see `Rotary`). Scores are
    the same when the rows that make these columns, of W_q and of W_k, are put into our order.
    """
    width, heads, shared, inner = (decoder[key] for key in ("width", "heads", "key_value_heads", "inner"))
    head = width // heads
    shapes = {
        "self_attn.q_proj": (width, width),
        "self_attn.k_proj": (shared * head, width),
        "self_attn.v_proj": (shared * head, width),
        "self_attn.o_proj": (width, width),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    ours = {"decoder.final.weight": weights.take("model.norm.weight", width)}
    for layer in range(decoder["layers"]):
        block = f"model.layers.{layer}"
        for name, theirs in _LLAMA_BLOCK.items():
            biased = decoder["bias"] and name.startswith("attention")
            for kind in ("weight", "bias") if biased else ("weight",):
                parts = []
                for part in theirs:
                    shape = shapes.get(part, (width,))[: 2 if kind == "weight" else 1]
                    rows = weights.take(f"{block}.{part}.{kind}", *shape)
                    parts.append(pair_columns(rows, head) if part.endswith(("q_proj", "k_proj")) else rows)
                ours[f"decoder.blocks.{layer}.{name}.{kind}"] = torch.cat(parts)
        # Older files store the rates of rotation.
        weights.take_or(torch.empty(head // 2, device="meta"), f"{block}.self_attn.rotary_emb.inv_freq")
    return ours


def pair_columns(rows: Tensor, head_width: int) -> Tensor:
    """Put rows c and c + D/2 of each head next to each other."""
    halves = rows.unflatten(0, (-1, 2, head_width // 2))
    return halves.transpose(1, 2).flatten(0, 2)
