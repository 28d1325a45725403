"""MarianMT models such as OPUS-MT: a post-norm Transformer, one vocabulary, and two SentencePiece models.

Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020
"""

from collections.abc import Mapping
from typing import Any, Final

from heedful.base.files import read_bytes
from heedful.config.reading.load import recipe_from_json
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.checked_config import CheckedConfig
from heedful.interop.marian.vocabulary import Ids, MarianVocabulary, read_ids
from heedful.interop.marian.weights import fill_weights
from heedful.interop.model_folder import ModelFolder
from heedful.interop.sentencepiece.model_file import SentencePieceModel, read_sentencepiece
from heedful.interop.sentencepiece.tokenizer import build_tokenizer
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.weights import refuse_larger_model

_ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
_FIXED: Final[Mapping[str, bool]] = {  # what every MarianMT model has in common
    "normalize_before": False,
    "add_final_layer_norm": False,
    "layernorm_embedding": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
}
_SEARCH: Final = {"num_beams": "beam", "max_length": "max_extra", "no_repeat_ngram_size": "no_repeat"}


def read_marian(folder: ModelFolder) -> Bundle[EncoderDecoder]:
    """Read a MarianMT model, or raise a UserError that says why it cannot be read."""
    for key, wanted in _FIXED.items():
        folder.config.must_be(key, wanted, "Heedful does not support other Marian models")
    models = (_model(folder, "source.spm"), _model(folder, "target.spm"))
    ids = _ids(folder)
    sides = _vocabularies(ids, models)
    source, target = (
        build_tokenizer(model, side.pieces, side.languages) for model, side in zip(models, sides, strict=True)
    )
    recipe = recipe_from_json(
        _recipe(folder, models[0].algorithm, len(sides[1].rows), sides[0].languages), str(folder.config.where)
    )
    refuse_larger_model(recipe.model, folder.path.glob("*.safetensors"), folder.config.where)
    network = build_model(recipe.pair_model, source.size, target.size)
    fill_weights(network, folder, (len(ids[0]), len(ids[1])), sides)
    return Bundle(recipe, Vocabularies({"source": source, "target": target}), network)


def _model(folder: ModelFolder, name: str) -> SentencePieceModel:
    return read_sentencepiece(read_bytes(folder.require(name)), str(folder.path / name))


# --- vocabularies -----------------------------------------------------------------------------------------------------


def _ids(folder: ModelFolder) -> tuple[Ids, Ids]:
    """Read the piece ids of both sides; the same object twice if they share a vocabulary."""
    config = folder.config
    source = read_ids(folder.require("vocab.json"), config.number("vocab_size"))
    target = source
    if folder.read_config("tokenizer_config.json").flag("separate_vocabs", False):
        target = read_ids(folder.require("target_vocab.json"), config.number("decoder_vocab_size"))
    for ids in (source, target):
        why = "this is its id in vocab.json"
        config.must_be("eos_token_id", ids["</s>"], why)
        config.must_be("pad_token_id", ids["<pad>"], why)
    config.must_be("decoder_start_token_id", target["<pad>"], "Marian starts translations with `<pad>`")
    return source, target


def _vocabularies(
    ids: tuple[Ids, Ids], models: tuple[SentencePieceModel, SentencePieceModel]
) -> tuple[MarianVocabulary, MarianVocabulary]:
    if ids[0] is ids[1]:
        joint = MarianVocabulary.of(ids[0], models)
        return joint, joint
    return MarianVocabulary.of(ids[0], models[:1]), MarianVocabulary.of(ids[1], models[1:])


# --- the recipe -------------------------------------------------------------------------------------------------------


def _recipe(folder: ModelFolder, kind: str, size: int, languages: tuple[str, ...]) -> dict[str, Any]:
    """Return a recipe for the same model. Its training data is unknown, so its corpus names the folder itself.

    The sides split text differently, so there are two tokenizers, and no recipe ties the embeddings of two
    tokenizers. The source embedding is therefore a copy; only the target embedding and the output layer are tied.
    """
    corpus = {"name": "imported", "source": str(folder.path), "target": str(folder.path)}
    return {
        "data": {"train": [corpus | ({"to": languages[0]} if languages else {})]},
        "tokenizer": {"kind": kind, "size": size, "joint": False},
        "model": _table(folder.config),
        "decode": _decode(folder),
    }


def _table(config: CheckedConfig) -> dict[str, Any]:
    for decoder, encoder in (
        ("decoder_attention_heads", "encoder_attention_heads"),
        ("decoder_ffn_dim", "encoder_ffn_dim"),
    ):
        config.must_be(decoder, config.number(encoder), f"Heedful uses the value of `{encoder}` on both sides")
    return {
        "family": "transformer",
        "width": config.number("d_model"),
        "heads": config.divisor("encoder_attention_heads", "d_model"),
        "layers": config.number("encoder_layers"),
        "decoder_layers": config.number("decoder_layers"),
        "inner": config.number("encoder_ffn_dim"),
        "activation": config.choice("activation_function", _ACTIVATIONS),
        "positions": "sinusoidal_halves",
        "embedding_scale": config.flag("scale_embedding", False),
        "tie": "decoder" if config.flag("tie_word_embeddings", True) else "none",
        "output_bias": True,
        "dropout": config.fraction("dropout", 0.0),
        "dropout_attention": config.fraction("attention_dropout", 0.0),
        "dropout_inner": config.fraction("activation_dropout", 0.0),
    }


def _decode(folder: ModelFolder) -> dict[str, Any]:
    """Translate the search options of `transformers` as closely as possible; older folders keep them in config.json.

    There log P is divided by n^a, here by (1 + n)^a. There `max_length` bounds a translation regardless of its
    source; here a translation may have that many pieces more than its source.
    """
    values = {**folder.config.values, **folder.read_config("generation_config.json").values}
    said = CheckedConfig(folder.path / "generation_config.json", values)
    whole = {ours: said.number(theirs) for theirs, ours in _SEARCH.items() if values.get(theirs) is not None}
    return {**whole, "length_penalty": said.real("length_penalty", 1.0), "length_penalty_kind": "shifted"}
