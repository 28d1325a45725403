"""Vision Transformers: a pre-norm Transformer encoder over the patches of an image, with a class token

Dosovitskiy et al. 2021
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.pooled import ImageClassifierModel
from heedful.config.reading.load import recipe_from_json
from heedful.config.task_rules import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.transformers.model_folder import ACTIVATIONS, CheckedConfig, CheckedWeights, ModelFolder
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.images import build_image_classifier
from heedful.models.networks import Classifier
from heedful.models.weights import set_weights

_PREPROCESSOR: Final = "preprocessor_config.json"
_USUAL: Final = 0.5  # mean and deviation of pixels, where the folder does not say


def read_vit(folder: ModelFolder) -> Bundle[Classifier]:
    """Read a classifier of images, or raise a UserError that says why it cannot be read."""
    config, images = folder.config, folder.read_config(_PREPROCESSOR)
    labels, table, size = _labels(config), _table(config), config.number("image_size", 224)
    images.must_be("do_normalize", True, "Heedful's model reads pixels from -1 to 1")
    channels: int = table["channels"]
    mean, deviation = _pixels(images, "image_mean", channels), _pixels(images, "image_std", channels)
    described = {
        "data": {
            # The training data is unknown, so the corpus names the folder itself.
            "train": [{"name": "imported", "images": str(folder.path)}],
            "images": {"height": size, "width": size},
            "batch_tokens": max(4096, (size // table["patch"]) ** 2 + 1),
        },
        "model": {"family": "image_classifier", "encoder": table},
    }
    recipe = recipe_from_json(described, str(config.where))
    encoder, tensors = model_of(recipe, ImageClassifierModel).encoder, folder.weights()
    assert isinstance(encoder, ImageTransformerTable)
    weights = vit_weights(tensors, encoder, len(labels), mean, deviation, config.flag("qkv_bias", True))
    tensors.refuse_rest()
    network = build_image_classifier(model_of(recipe, ImageClassifierModel), len(labels))
    set_weights(network, weights)
    return Bundle(recipe, Vocabularies({}, labels), network)


def _table(config: CheckedConfig) -> dict[str, Any]:
    size, patch = config.number("image_size", 224), config.number("patch_size", 16)
    if size % patch:
        raise UserError(f"{config.where}: `image_size` is {size}, but must be a multiple of `patch_size` ({patch}).")
    channels = config.number("num_channels", 3)
    if channels not in (1, 3):
        raise UserError(f"{config.where}: `num_channels` is {channels}, but must be 1 (gray) or 3 (colour).")
    return {
        "family": "vit",
        "width": config.number("hidden_size"),
        "heads": config.divisor("num_attention_heads", "hidden_size"),
        "layers": config.number("num_hidden_layers"),
        "inner": config.number("intermediate_size"),
        "activation": config.choice("hidden_act", ACTIVATIONS),
        "norm_epsilon": config.real("layer_norm_eps", 1e-12),
        "channels": channels,
        "patch": patch,
        "grid": size // patch,
        "dropout": config.fraction("hidden_dropout_prob", 0.0),
        "dropout_attention": config.fraction("attention_probs_dropout_prob", 0.0),
    }


def _labels(config: CheckedConfig) -> tuple[str, ...]:
    """Return the names of the classes, by their numbers."""
    names = config.values.get("id2label")
    if names is None:
        return ("LABEL_0", "LABEL_1")  # what `transformers` takes where a config does not name its classes
    numbers = [str(number) for number in range(len(names))] if isinstance(names, dict) else []
    if len(numbers) < 2 or sorted(names) != sorted(numbers) or not all(isinstance(names[n], str) for n in numbers):
        raise UserError(f"{config.where}: `id2label` must name at least two classes by their numbers from 0 on.")
    labels = tuple(names[number] for number in numbers)
    if len(set(labels)) < len(labels):
        raise UserError(f"{config.where}: `id2label` names two classes alike, but each needs a name of its own.")
    return labels


def _pixels(config: CheckedConfig, key: str, channels: int) -> list[float]:
    """Return one number for each channel."""
    said = config.values.get(key)
    values = [_USUAL] * channels if said is None else said
    sound = isinstance(values, list) and all(type(value) in (int, float) for value in values)
    if not sound or len(values) != channels or (key == "image_std" and min(values) <= 0):
        raise UserError(f"{config.where}: `{key}` must be a list of {channels} numbers, one for each channel.")
    return [float(value) for value in values]


# Our modules of a block, and their modules whose tensors are concatenated into ours, each with its older name first.
_IN_BLOCK: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "attention.project": (
        ("attention.attention.query", "attention.q_proj"),
        ("attention.attention.key", "attention.k_proj"),
        ("attention.attention.value", "attention.v_proj"),
    ),
    "attention.output": (("attention.output.dense", "attention.o_proj"),),
    "around_attention.before": (("layernorm_before",),),
    "around_network.before": (("layernorm_after",),),
    "network.into": (("intermediate.dense", "mlp.fc1"),),
    "network.out": (("output.dense", "mlp.fc2"),),
}
_BLOCKS: Final = ("vit.encoder.layer", "vit.layers")
_ENCODER: Final = "pooled.encoder"


def vit_weights(
    tensors: CheckedWeights,
    table: ImageTransformerTable,
    classes: int,
    mean: Sequence[float],
    deviation: Sequence[float],
    biased: bool = True,
) -> dict[str, Tensor]:
    """Return all parameters of our classifier.

    Theirs reads (pixel / 255 - mean) / deviation for each channel, ours pixel / 127.5 - 1: the map of patches is
    changed to make up for it. Without `biased`, queries, keys and values have no biases.
    """
    width, inner = table.width, table.inner
    weights = {
        "output.weight": tensors.take("classifier.weight", classes, width),
        "output.bias": tensors.take("classifier.bias", classes),
        **_embedding(tensors, table, mean, deviation),
    }
    for kind in ("weight", "bias"):
        weights[f"{_ENCODER}.final.{kind}"] = tensors.take(f"vit.layernorm.{kind}", width)
    sizes = {"network.into": (inner, width), "network.out": (width, inner)}
    for layer in range(table.layers):
        for ours, theirs in _IN_BLOCK.items():
            rows, columns = sizes.get(ours, (width, width))
            for kind in ("weight", "bias"):
                shape = (rows,) if kind == "bias" or ours.startswith("around") else (rows, columns)
                optional = kind == "bias" and ours == "attention.project" and not biased
                parts = [
                    torch.zeros(shape)
                    if optional
                    else tensors.take_one(
                        [f"{block}.{layer}.{name}.{kind}" for name in part for block in _BLOCKS], *shape
                    )
                    for part in theirs
                ]
                weights[f"{_ENCODER}.blocks.{layer}.{ours}.{kind}"] = torch.cat(parts)
    return weights


def _embedding(
    tensors: CheckedWeights, table: ImageTransformerTable, mean: Sequence[float], deviation: Sequence[float]
) -> dict[str, Tensor]:
    width, side = table.width, table.patch
    projection = "vit.embeddings.patch_embeddings.projection"
    theirs = tensors.take_one([f"{projection}.weight"], width, table.channels, side, side).permute(0, 2, 3, 1)
    scale, middle = torch.tensor(deviation), (0.5 - torch.tensor(mean)) / torch.tensor(deviation)
    positions = tensors.take_one(["vit.embeddings.position_embeddings"], 1, table.grid**2 + 1, width)[0]
    token = tensors.take_one(["vit.embeddings.cls_token"], 1, 1, width)[0]
    tensors.take_or(torch.empty(1, 1, width), "vit.embeddings.mask_token")  # of pre-training only
    bias = tensors.take_one([f"{projection}.bias"], width)
    return {
        f"{_ENCODER}.embedding.stem.project.weight": (theirs / (2 * scale)).reshape(width, -1),
        f"{_ENCODER}.embedding.stem.project.bias": bias + (theirs * middle).sum(dim=(1, 2, 3)),
        f"{_ENCODER}.embedding.positions.weight": positions[1:],
        f"{_ENCODER}.embedding.class_token": token + positions[:1],
    }
