"""config.json and generation_config.json of encoder-decoders next to our [model] and [decode], in both directions.

What Heedful alone needs to read its own folder again, such as the order of sinusoids, is the table `heedful` in
config.json, which `transformers` ignores.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from heedful.config.decode import Decode
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN
from heedful.interop.transformers.model_folder import ACTIVATIONS, CheckedConfig, ModelFolder
from heedful.interop.transformers.pairs.layouts import Layout

OWN: Final = "heedful"  # the table of what only Heedful reads
_POSITIONS: Final = 1024  # tokens that a sentence may have there, at least: here the number is not limited
_THEIRS: Final = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())} | {"gelu_tanh": "gelu_pytorch_tanh"}
_SIZES: Final = {  # keys with one value each; the second is that of the decoder
    "heads": ("encoder_attention_heads", "decoder_attention_heads"),
    "inner": ("encoder_ffn_dim", "decoder_ffn_dim"),
}
_DROPOUTS: Final = {
    "dropout": "dropout",
    "dropout_attention": "attention_dropout",
    "dropout_inner": "activation_dropout",
}
MARKERS: Final = {  # in folders that Heedful writes
    "pad_token_id": PAD,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "decoder_start_token_id": BEGIN,
}
_SEARCH: Final = {"beam": "num_beams", "max_extra": "max_length", "no_repeat": "no_repeat_ngram_size"}


# --- theirs to ours ---------------------------------------------------------------------------------------------------


def model_table(config: CheckedConfig, layout: Layout) -> dict[str, Any]:
    """Return the [model] table of a folder, but for its positions and what depends on its vocabularies."""
    for key, wanted in layout.fixed.items():
        config.must_be(key, wanted, f"Heedful does not support other {layout.name} models")
    for encoder, decoder in _SIZES.values():
        config.must_be(decoder, config.number(encoder), f"Heedful uses the value of `{encoder}` on both sides")
    return {
        "family": "transformer",
        "norm": layout.norm,
        "width": config.number("d_model"),
        "heads": config.divisor("encoder_attention_heads", "d_model"),
        "layers": config.number("encoder_layers"),
        "decoder_layers": config.number("decoder_layers"),
        "inner": config.number("encoder_ffn_dim"),
        "activation": config.choice("activation_function", ACTIVATIONS),
        "embedding_scale": config.flag("scale_embedding", False),
        "output_bias": True,
        **{ours: config.fraction(theirs, 0.0) for ours, theirs in _DROPOUTS.items()},
    }


def decode_table(folder: ModelFolder) -> dict[str, Any]:
    """Translate the search options of `transformers` as closely as possible; older folders keep them in config.json.

    There log P is divided by n^a, here by (1 + n)^a. There `max_length` bounds a translation regardless of its
    source; here a translation may have that many pieces more than its source.
    """
    values = {**folder.config.values, **folder.read_config("generation_config.json").values}
    said = CheckedConfig(folder.path / "generation_config.json", values)
    whole = {ours: said.number(theirs) for ours, theirs in _SEARCH.items() if values.get(theirs)}
    alpha = 0.0 if values.get("length_penalty") == 0 else said.real("length_penalty", 1.0)
    return {**whole, "length_penalty": alpha, "length_penalty_kind": "shifted"}


# --- ours to theirs ---------------------------------------------------------------------------------------------------


def written_config(
    recipe: Recipe, model: TransformerModel, layout: Layout, sizes: tuple[int, int], own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the config.json of a model with vocabularies of these sizes; `own` is what only Heedful reads."""
    return {
        "architectures": [layout.architecture],
        "model_type": layout.model_type,
        "is_encoder_decoder": True,
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
        "share_encoder_decoder_embeddings": model.tie == "all",
        "tie_word_embeddings": model.tie != "none",
        "d_model": model.width,
        "encoder_layers": model.layers,
        "decoder_layers": model.decoder_layers or model.layers,
        **{key: getattr(model, ours) for ours, keys in _SIZES.items() for key in keys},
        "activation_function": _THEIRS[model.activation],
        "scale_embedding": model.embedding_scale,
        "max_position_embeddings": longest(recipe),
        **{theirs: getattr(model, ours) for ours, theirs in _DROPOUTS.items()},
        "encoder_layerdrop": model.dropout_layers,
        "decoder_layerdrop": model.dropout_layers,
        **MARKERS,
        "forced_eos_token_id": None,  # the default of Marian is the piece 0
        "use_cache": True,
        "dtype": "float32",
        OWN: dict(own),
    }


def generation_config(recipe: Recipe, tags: Sequence[int]) -> dict[str, Any]:
    """Return the generation_config.json: every default of `generate` that would change what is found.

    `tags` are the ids of target languages: like markers and `<unk>` they are never written.
    """
    decode: Decode = recipe.decode
    return {
        **MARKERS,
        "forced_bos_token_id": None,
        "forced_eos_token_id": None,
        "suppress_tokens": [PAD, BEGIN, UNKNOWN, *tags],
        "begin_suppress_tokens": None,
        "bad_words_ids": None,
        "do_sample": False,
        "num_beams": decode.beam,
        "num_return_sequences": 1,
        "early_stopping": False,
        "length_penalty": decode.length_penalty,
        "no_repeat_ngram_size": decode.no_repeat,
        "repetition_penalty": 1.0,
        "min_length": decode.min_length + 1 if decode.min_length else 0,  # the start counts there
        "max_length": min(recipe.data.max_length + decode.max_extra + 1, longest(recipe)),
        "use_cache": True,
    }


def longest(recipe: Recipe) -> int:
    """Return how many tokens a side may have there: sinusoids are a table of fixed size."""
    return max(_POSITIONS, recipe.data.max_length + recipe.decode.max_extra + 1)
