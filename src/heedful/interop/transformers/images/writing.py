"""Writes classifiers of images as ViT, with the processor of their images and a model card."""

from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save
from torch import nn

from heedful.base.files import write_bytes, write_json
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.pooled import ImageClassifierModel
from heedful.config.task_rules import model_of
from heedful.interop.tensors import write_pairs
from heedful.interop.transformers.contents.card import write_card
from heedful.interop.transformers.contents.labels import label_entries
from heedful.interop.transformers.images.names import ENCODER, POSITIONS, PROJECTION, pairs_of
from heedful.interop.transformers.images.reading import PREPROCESSOR
from heedful.interop.transformers.model_folder import CONFIG, WEIGHTS, theirs_of
from heedful.models.bundle import Bundle

_CLASS: Final = "ViTForImageClassification"
_LUMA: Final = (0.299, 0.587, 0.114)  # of red, green and blue, as images are made gray (ITU-R 601)
_BILINEAR: Final = 2  # number of the way to resize, which is ours


def write(bundle: Bundle[nn.Module], folder: Path) -> None:
    """Write a model that `refusals` accepts.

    Pixels are read from -1 to 1 as ours. A model of gray images is given the three channels of every image that is
    loaded by `transformers`, and makes them gray.
    """
    table = model_of(bundle.recipe, ImageClassifierModel).encoder
    assert isinstance(table, ImageTransformerTable), "refused before"
    weights = dict(bundle.model.named_parameters())
    pairs = pairs_of(table, [1.0] * table.channels)
    tensors = write_pairs([pair for pair in pairs if pair.ours in weights], weights)
    named = {pair.ours for pair in pairs} | {f"{ENCODER}.embedding.class_position"}
    assert named >= weights.keys(), f"not written: {sorted(weights.keys() - named)}"
    if table.class_position:
        tensors[POSITIONS][0, 0] = weights[f"{ENCODER}.embedding.class_position"].detach()[0]
    if table.channels == 1:
        tensors[f"{PROJECTION}.weight"] = tensors[f"{PROJECTION}.weight"] * torch.tensor(_LUMA)[:, None, None]
    write_bytes(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))
    write_json(folder / CONFIG, _config(bundle, table))
    size = table.grid * table.patch
    write_json(
        folder / PREPROCESSOR,
        {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": size, "width": size},
            "resample": _BILINEAR,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "do_convert_rgb": True,
        },
    )
    write_card(folder, bundle, "image-classification", _CLASS, '"photo.jpg"')


def _config(bundle: Bundle[nn.Module], table: ImageTransformerTable) -> dict[str, Any]:
    several = model_of(bundle.recipe, ImageClassifierModel).labels == "several"
    return {
        "architectures": [_CLASS],
        "model_type": "vit",
        "hidden_size": table.width,
        "num_hidden_layers": table.layers,
        "num_attention_heads": table.heads,
        "intermediate_size": table.inner,
        "hidden_act": theirs_of(table.activation),
        "layer_norm_eps": table.norm_epsilon,
        "hidden_dropout_prob": table.dropout,
        "attention_probs_dropout_prob": table.dropout_attention,
        "image_size": table.grid * table.patch,
        "patch_size": table.patch,
        "num_channels": 3,
        "qkv_bias": table.projection_bias is not False,
        "problem_type": f"{'multi' if several else 'single'}_label_classification",
        "dtype": "float32",
        **label_entries(bundle.vocabularies.labels),
    }
