"""Encoders with a head, from a folder of `transformers`: masked models, classifiers, taggers, readers, regressors.

Devlin et al. 2019 (BERT); Liu et al. 2019 (RoBERTa); Conneau et al. 2020 (XLM-RoBERTa); Sanh et al. 2019 (DistilBERT)
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from torch import nn

from heedful.base.errors import UserError
from heedful.config.reading.load import recipe_from_json
from heedful.data.tokenize.vocabularies import Scale, Vocabularies
from heedful.interop.tensors import Shape, by_rows, read_pairs
from heedful.interop.transformers.contents.labels import read_labels
from heedful.interop.transformers.contents.named_tensors import NamedTensors
from heedful.interop.transformers.encoders.kinds import BERT, DISTILBERT, DISTILBERT_EPSILON, ROBERTA, XLM_ROBERTA, Kind
from heedful.interop.transformers.encoders.names import NAMES, pairs_of, spellings_of
from heedful.interop.transformers.encoders.vocabulary import EncoderVocabulary, read_vocabulary
from heedful.interop.transformers.model_folder import ACTIVATIONS, CheckedConfig, ModelFolder
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_network
from heedful.models.weights import set_weights, shapes_of

_FAMILIES: Final[Mapping[str, str]] = {  # by the end of the class that a config names; others are masked models
    "ForSequenceClassification": "classifier",
    "ForTokenClassification": "tagger",
    "ForQuestionAnswering": "reader",
}
_ROWS: Final[Mapping[str, Mapping[str, Any]]] = {  # of the corpus in a recipe, by family, with the folder's name first
    "bert": {"text": ""},
    "classifier": {"tsv": "", "text": 1, "label": 2},
    "regressor": {"tsv": "", "text": 1, "number": 2},
    "tagger": {"conll": ""},
    "reader": {"squad": ""},
}
_SCALE: Final = Scale(0.0, 1.0)  # of numbers that a folder predicts as they are


def _read(kind: Kind, folder: ModelFolder) -> Bundle[nn.Module]:
    """Read a model of a type, or raise a UserError that says why it cannot be read."""
    config = folder.config
    for key, wanted in kind.fixed.items():
        config.must_be(key, wanted, f"Heedful does not support other {kind.title} models")
    family = _family(config, kind)
    names, first = NAMES[kind.model_type], _first_position(config, kind)
    tensors, encoder = NamedTensors(folder, partial(spellings_of, names)), _table(config, kind, first)
    width = encoder["width"]
    # Check the sizes before anything is allocated: a config can claim any.
    tensors.take(names.words, (config.number("vocab_size"), width))
    tensors.take(names.last_block(encoder["layers"]), (width, width))
    vocabulary = read_vocabulary(folder, kind)
    if family == "bert":
        _check_masked_head(kind, folder, tensors, encoder)
    labels = read_labels(config) if family in ("classifier", "tagger") else ()
    described = {
        "data": {
            # The training data is unknown, so the corpus names the folder itself.
            "train": [{"name": "imported"} | {key: said or str(folder.path) for key, said in _ROWS[family].items()}],
            "max_length": encoder["max_positions"],
            "batch_tokens": max(4096, encoder["max_positions"]),
        },
        "tokenizer": {"kind": vocabulary.kind, "size": vocabulary.tokenizer.size},
        "model": _model(config, kind, family, encoder),
    }
    recipe = recipe_from_json(described, str(config.where))
    scale = _SCALE if family == "regressor" else None
    vocabularies = Vocabularies({"text": vocabulary.tokenizer}, labels, scale)
    network = build_network(recipe.model, vocabularies)
    _fill_weights(network, kind, family, tensors, encoder, vocabulary, config.number("vocab_size"), first)
    return Bundle(recipe, vocabularies, network)


read_bert = partial(_read, BERT)
read_roberta = partial(_read, ROBERTA)
read_xlm_roberta = partial(_read, XLM_ROBERTA)
read_distilbert = partial(_read, DISTILBERT)


# --- the recipe -------------------------------------------------------------------------------------------------------


def _family(config: CheckedConfig, kind: Kind) -> str:
    """Return our family of the class that a config names; without a class, a masked model is expected."""
    said = config.values.get("architectures")
    name = str(said[0]) if isinstance(said, list) and said else ""
    family = next((family for end, family in _FAMILIES.items() if name.endswith(end)), "bert")
    if family == "reader" and family not in NAMES[kind.model_type].heads:
        raise UserError(
            f"{config.where}: `architectures` is {name}, but Heedful puts one marker between a question and its text, "
            f"and {kind.title} two: import a BERT or DistilBERT that answers questions."
        )
    if family != "classifier":
        return family
    problem, single = config.values.get("problem_type"), len(config.values.get("id2label") or "12") == 1
    if problem == "regression" and not single:
        raise UserError(f"{config.where}: `problem_type` is regression of several numbers, but Heedful predicts one.")
    return "regressor" if single else family


def _first_position(config: CheckedConfig, kind: Kind) -> int:
    """Return the row of the first position: in RoBERTa's table, those up to the number of `<pad>` are never used."""
    return config.index("pad_token_id", config.number("vocab_size")) + 1 if kind.after_padding else 0


def _table(config: CheckedConfig, kind: Kind, first: int) -> dict[str, Any]:
    keys = kind.keys
    longest = config.number(keys["max_positions"]) - first
    if longest < 1:
        raise UserError(
            f"{config.where}: `{keys['max_positions']}` is {longest + first}, but must be more than {first}, as "
            "positions begin after `pad_token_id`."
        )
    return {
        "family": "bert",
        "width": config.number(keys["width"]),
        "heads": config.divisor(keys["heads"], keys["width"]),
        "layers": config.number(keys["layers"]),
        "inner": config.number(keys["inner"]),
        "activation": config.choice(keys["activation"], ACTIVATIONS),
        "norm_epsilon": config.real(keys["norm_epsilon"], 1e-12) if "norm_epsilon" in keys else DISTILBERT_EPSILON,
        "max_positions": longest,
        "segments": config.number(keys["segments"]) if "segments" in keys else 0,
        "next_sentence": False,
        "dropout": config.fraction(keys["dropout"], 0.1),
        "dropout_attention": config.fraction(keys["dropout_attention"], 0.1),
    }


def _model(config: CheckedConfig, kind: Kind, family: str, encoder: dict[str, Any]) -> dict[str, Any]:
    """Return the [model] table: the encoder's own, or one with the encoder in it."""
    if family == "bert":
        return encoder
    table: dict[str, Any] = {"family": family, "encoder": encoder}
    if family == "reader" and kind is not DISTILBERT:
        return table | {"dropout": 0.0}
    table["dropout"] = config.fraction(kind.dropouts[family], encoder["dropout"])
    if family in ("classifier", "regressor"):
        table |= {"head_hidden": encoder["width"]} if kind is DISTILBERT else {"pooler": True}
    if config.values.get("problem_type") == "multi_label_classification":
        table["labels"] = "several"
    return table


def _check_masked_head(kind: Kind, folder: ModelFolder, tensors: NamedTensors, encoder: dict[str, Any]) -> None:
    """Refuse a masked model without its head, and find out whether it predicts next sentences."""
    names, width, config = NAMES[kind.model_type], encoder["width"], folder.config
    (head,) = names.heads["bert"]["head.linear"]
    if not tensors.has(f"{head}.weight", width, width):
        raise UserError(
            f"{folder.path} holds {kind.title}'s encoder without its masked-language-model head (`{head}.weight`), "
            f"which `heedful fill` needs: import a folder of {kind.heads['bert']}, or of a classifier, a tagger or a "
            "reader."
        )
    if kind.after_padding:
        config.must_be(kind.keys["activation"], "gelu", f"the head of {kind.title} has this activation")
    if "follows" not in names.heads["bert"]:
        return
    (follows,) = names.heads["bert"]["follows"]
    encoder["next_sentence"] = tensors.has(f"{follows}.weight", 2, width)
    if encoder["next_sentence"] and encoder["segments"] < 2:
        raise UserError(
            f"{config.where}: `type_vocab_size` is {encoder['segments']}, but must be 2, because the model predicts "
            "next sentences."
        )


# --- weights ----------------------------------------------------------------------------------------------------------


def _fill_weights(
    network: nn.Module,
    kind: Kind,
    family: str,
    tensors: NamedTensors,
    encoder: Mapping[str, Any],
    vocabulary: EncoderVocabulary,
    size: int,
    first: int,
) -> None:
    """Load a folder's weights into our network; wrong shapes and unknown tensors are refused.

    The folder's matrices have `size` rows, one per piece.
    """
    shapes = shapes_of(dict(network.named_parameters()))
    pieces = by_rows(vocabulary.rows, size)
    pairs = [pair for pair in pairs_of(kind, family, encoder["layers"], pieces, first) if pair.ours in shapes]
    ours = read_pairs(pairs, shapes, tensors.take)
    for name, shape in _spare(kind, encoder, first).items():
        tensors.skip(name, *shape)
    tensors.refuse_rest()
    set_weights(network, ours)


def _spare(kind: Kind, encoder: Mapping[str, Any], first: int) -> dict[str, Shape]:
    """Return tensors that our model does not need: position numbers, and a pooler without a head on top."""
    width, prefix = encoder["width"], NAMES[kind.model_type].prefix
    return {
        f"{prefix}embeddings.position_ids": (1, encoder["max_positions"] + first),
        f"{prefix}pooler.dense.weight": (width, width),
        f"{prefix}pooler.dense.bias": (width,),
    }
