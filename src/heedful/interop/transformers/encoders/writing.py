"""Writes encoders with a head as BERT, RoBERTa, XLM-RoBERTa or DistilBERT, with tokenizer and model card."""

from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save
from torch import Tensor, nn

from heedful.base.files import write_bytes, write_json
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD
from heedful.interop.tensors import Turn, write_pairs
from heedful.interop.transformers.contents.card import write_card
from heedful.interop.transformers.contents.labels import label_entries
from heedful.interop.transformers.encoders.kinds import DISTILBERT, Kind, encoder_of, kind_of
from heedful.interop.transformers.encoders.names import NAMES, ONE_SCORE, pairs_of, scaled
from heedful.interop.transformers.model_folder import CONFIG, WEIGHTS, theirs_of
from heedful.interop.transformers.tokenizers.written import Markers, write_tokenizer
from heedful.models.bundle import Bundle

PIPELINES: Final = {  # with an example, by our families
    "bert": ("fill-mask", '"... <mask> ..."'),
    "classifier": ("text-classification", '"a text"'),
    "regressor": ("text-classification", '"a text", function_to_apply="none"'),
    "tagger": ("token-classification", '"a text"'),
    "reader": ("question-answering", ""),
}
_NEXT_SENTENCE: Final = "BertForPreTraining"


def write(bundle: Bundle[nn.Module], folder: Path) -> None:
    """Write a model that `refusals` accepts."""
    recipe, kind = bundle.recipe, kind_of(bundle.recipe)
    family, encoder = recipe.model.family, encoder_of(recipe)
    weights = dict(bundle.model.named_parameters())
    pairs = pairs_of(kind, family, encoder.layers, first_position=_first(kind), turns=_turns(bundle))
    tensors = write_pairs([pair for pair in pairs if pair.ours in weights], weights)
    if NAMES[kind.model_type].segments and encoder.segments == 0:  # theirs always has one, which adds nothing here
        tensors[f"{NAMES[kind.model_type].prefix}embeddings.token_type_embeddings.weight"] = _nothing(encoder.width)
    named = {pair.ours for pair in pairs}
    assert named >= weights.keys(), f"not written: {sorted(weights.keys() - named)}"
    write_bytes(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))
    architecture = (
        _NEXT_SENTENCE if getattr(encoder, "next_sentence", False) and family == "bert" else kind.heads[family]
    )
    write_json(folder / CONFIG, _config(bundle, kind, architecture))
    markers = Markers(segments=encoder.segments > 1, masks=family == "bert")
    write_tokenizer(folder, bundle.vocabularies["text"], recipe.data, markers, _longest(bundle))
    write_card(folder, bundle, PIPELINES[family][0], architecture, PIPELINES[family][1])


def _first(kind: Kind) -> int:
    """Return the row of the first position."""
    return PAD + 1 if kind.after_padding else 0


def _longest(bundle: Bundle[nn.Module]) -> int:
    return min(encoder_of(bundle.recipe).max_positions, bundle.recipe.data.max_length)


def _nothing(width: int) -> Tensor:
    return torch.zeros(1, width)


def _turns(bundle: Bundle[nn.Module]) -> dict[str, Turn]:
    """Return what is done to the last map, by its names."""
    if getattr(bundle.recipe.model, "one_score", False):
        return {"output.weight": ONE_SCORE, "output.bias": ONE_SCORE}
    scale = bundle.vocabularies.scale
    if scale is not None:
        return {"output.weight": scaled(scale.deviation), "output.bias": scaled(scale.deviation, scale.mean)}
    return {}


def _config(bundle: Bundle[nn.Module], kind: Kind, architecture: str) -> dict[str, Any]:
    model: Any = bundle.recipe.model
    encoder = encoder_of(bundle.recipe)
    values = {key: getattr(encoder, key) for key in kind.keys}
    values["activation"] = theirs_of(encoder.activation)
    values["max_positions"] += _first(kind)
    if "segments" in values:
        values["segments"] = max(1, encoder.segments)
    config = {
        "architectures": [architecture],
        "model_type": kind.model_type,
        "vocab_size": bundle.vocabularies["text"].size,
        **{kind.keys[key]: value for key, value in values.items()},
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    family = model.family
    if family in kind.dropouts and kind.dropouts[family] not in config:
        config[kind.dropouts[family]] = model.dropout
    if family == "regressor":
        config |= {"problem_type": "regression", **label_entries(["LABEL_0"])}
    elif family in ("classifier", "tagger"):
        config |= label_entries(bundle.vocabularies.labels)
    if family == "classifier":
        several = getattr(model, "labels", "one") == "several"
        config["problem_type"] = f"{'multi' if several else 'single'}_label_classification"
    if kind is DISTILBERT:
        config["sinusoidal_pos_embds"] = False
    return config
