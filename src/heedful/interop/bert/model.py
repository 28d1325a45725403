"""BERT models: a Transformer encoder that predicts masked tokens and whether one text follows another.

Devlin et al. 2019
"""

from collections.abc import Mapping
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.config.model.bert import BertModel
from heedful.config.reading.load import recipe_from_json
from heedful.config.tables import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.bert.vocabulary import read_vocabulary
from heedful.interop.bert.weights import BertTensors, fill_weights
from heedful.interop.checked_config import CheckedConfig
from heedful.interop.model_folder import ModelFolder
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.models.networks import MaskedModel

_FIXED: Final[Mapping[str, Any]] = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_ACTIVATIONS: Final = {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"}  # in the blocks and in the head
_WORDS: Final = "bert.embeddings.word_embeddings.weight"
_LAST_BLOCK: Final = "bert.encoder.layer.{}.attention.self.query.weight"
_HEAD: Final = "cls.predictions.transform.dense.weight"
_FOLLOWS: Final = "cls.seq_relationship.weight"


def read_bert(folder: ModelFolder) -> Bundle[MaskedModel]:
    """Read a BERT model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    for key, wanted in _FIXED.items():
        config.must_be(key, wanted, "Heedful does not support other BERT models")
    tensors, model = BertTensors(folder), _table(config)
    width = model["width"]
    # Check the sizes before anything is allocated: a config can claim any.
    tensors.take(_WORDS, config.number("vocab_size"), width)
    tensors.take(_LAST_BLOCK.format(model["layers"] - 1), width, width)
    vocabulary = read_vocabulary(folder)
    if not tensors.has(_HEAD, width, width):
        raise UserError(
            f"{folder.path} holds BERT's encoder without its masked-language-model head (`{_HEAD}`), which "
            "`heedful fill` needs: import a BertForMaskedLM or BertForPreTraining folder."
        )
    model["next_sentence"] = tensors.has(_FOLLOWS, 2, width)
    if model["next_sentence"] and model["segments"] < 2:
        raise UserError(
            f"{config.where}: `type_vocab_size` is {model['segments']}, but must be 2, because the model predicts "
            "next sentences."
        )
    recipe = recipe_from_json(_recipe(folder, model, vocabulary.tokenizer.size), str(config.where))
    table = model_of(recipe, BertModel)
    network = build_masked_model(table, vocabulary.tokenizer.size)
    fill_weights(network, table, tensors, vocabulary.rows, config.number("vocab_size"))
    return Bundle(recipe, Vocabularies({"text": vocabulary.tokenizer}), network)


def _recipe(folder: ModelFolder, model: dict[str, Any], size: int) -> dict[str, Any]:
    """Return a recipe for the same model. Its training data is unknown, so its corpus names the folder itself."""
    longest = model["max_positions"]
    data = {"max_length": longest, "batch_tokens": max(4096, longest)}
    return {
        "data": {"train": [{"name": "imported", "text": str(folder.path)}], **data},
        "tokenizer": {"kind": "wordpiece", "size": size},
        "model": model,
    }


def _table(config: CheckedConfig) -> dict[str, Any]:
    return {
        "family": "bert",
        "width": config.number("hidden_size"),
        "heads": config.divisor("num_attention_heads", "hidden_size"),
        "layers": config.number("num_hidden_layers"),
        "inner": config.number("intermediate_size"),
        "activation": config.choice("hidden_act", _ACTIVATIONS),
        "norm_epsilon": config.real("layer_norm_eps", 1e-12),
        "max_positions": config.number("max_position_embeddings"),
        "segments": config.number("type_vocab_size"),
        "dropout": config.fraction("hidden_dropout_prob", 0.1),
        "dropout_attention": config.fraction("attention_probs_dropout_prob", 0.1),
    }
