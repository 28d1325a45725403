"""Vision Transformers: a pre-norm Transformer encoder over the patches of an image, with a class token

Dosovitskiy et al. 2021
"""

from typing import Any, Final

import torch

from heedful.base.errors import UserError
from heedful.config.model.images import ImageTransformerTable
from heedful.config.model.pooled import ImageClassifierModel
from heedful.config.reading.load import recipe_from_json
from heedful.config.task_rules import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.tensors import read_pairs
from heedful.interop.transformers.contents.labels import read_labels
from heedful.interop.transformers.contents.named_tensors import NamedTensors
from heedful.interop.transformers.images.names import ENCODER, POSITIONS, PROJECTION, pairs_of, spellings_of
from heedful.interop.transformers.model_folder import ACTIVATIONS, CheckedConfig, ModelFolder
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.images import build_image_classifier
from heedful.models.networks import Classifier
from heedful.models.weights import set_weights, shapes_of

PREPROCESSOR: Final = "preprocessor_config.json"
_USUAL: Final = 0.5  # mean and deviation of pixels, where the folder does not say


def read_vit(folder: ModelFolder) -> Bundle[Classifier]:
    """Read a classifier of images, or raise a UserError that says why it cannot be read.

    Theirs reads (pixel / 255 - mean) / deviation for each channel, ours pixel / 127.5 - 1: the map of patches is
    changed to make up for it.
    """
    config, images = folder.config, folder.read_config(PREPROCESSOR)
    labels, table, size = read_labels(config), _table(config), config.number("image_size", 224)
    images.must_be("do_normalize", True, "Heedful's model reads pixels from -1 to 1")
    channels, width = table["channels"], table["width"]
    mean, deviation = _pixels(images, "image_mean", channels), _pixels(images, "image_std", channels)
    tensors = NamedTensors(folder, spellings_of)
    # Check the sizes before anything is allocated: a config can claim any.
    positions = tensors.take(POSITIONS, (1, table["grid"] ** 2 + 1, width))
    tensors.take(f"vit.encoder.layer.{table['layers'] - 1}.layernorm_after.weight", (width,))
    several = config.values.get("problem_type") == "multi_label_classification"
    described = {
        "data": {
            # The training data is unknown, so the corpus names the folder itself.
            "train": [{"name": "imported", "images": str(folder.path)}],
            "images": {"height": size, "width": size},
            "batch_tokens": max(4096, table["grid"] ** 2 + 1),
        },
        "model": {
            "family": "image_classifier",
            "encoder": table | {"class_position": bool(positions[0, 0].any())},
            "labels": "several" if several else "one",
        },
    }
    recipe = recipe_from_json(described, str(config.where))
    model = model_of(recipe, ImageClassifierModel)
    assert isinstance(model.encoder, ImageTransformerTable)
    network = build_image_classifier(model, len(labels))
    shapes = shapes_of(dict(network.named_parameters()))
    pairs = pairs_of(model.encoder, [2 * each for each in deviation])
    ours = read_pairs([pair for pair in pairs if pair.ours in shapes], shapes, tensors.take)
    middle = (0.5 - torch.tensor(mean)) / torch.tensor(deviation)
    patches = tensors.take(f"{PROJECTION}.weight", (width, channels, table["patch"], table["patch"]))
    ours[f"{ENCODER}.embedding.stem.project.bias"] += (patches * middle[:, None, None]).sum(dim=(1, 2, 3))
    if model.encoder.class_position:
        ours[f"{ENCODER}.embedding.class_position"] = positions[:, 0]
    tensors.skip("vit.embeddings.mask_token", 1, 1, width)  # of pre-training only
    tensors.refuse_rest()
    set_weights(network, ours)
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
        "projection_bias": None if config.flag("qkv_bias", True) else False,
    }


def _pixels(config: CheckedConfig, key: str, channels: int) -> list[float]:
    """Return one number for each channel."""
    said = config.values.get(key)
    values = [_USUAL] * channels if said is None else said
    sound = isinstance(values, list) and all(type(value) in (int, float) for value in values)
    if not sound or len(values) != channels or (key == "image_std" and min(values) <= 0):
        raise UserError(f"{config.where}: `{key}` must be a list of {channels} numbers, one for each channel.")
    return [float(value) for value in values]
