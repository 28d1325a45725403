"""Recipes of the tutorial's programs: their weights and updates, counted from what it prints."""

import math
from collections.abc import Callable

import torch
from torch import nn

from heedful.config.model.encoder_only import BertModel
from heedful.config.model.pooled import ClassifierModel, ImageClassifierModel
from heedful.config.reading.load import load_recipe
from heedful.config.train.schedules import Constant
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.from_recipe.images import build_image_classifier
from heedful.texts.checks.computed import Computed


def _linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def _counted(build: Callable[[], nn.Module]) -> list[float]:
    with torch.device("meta"):
        return [float(sum(weight.numel() for weight in build().parameters()))]


def weights_of_the_classifier() -> Computed:
    """TransformerClassifier(1, 32, 2, 128, 50002, 2), module by module; recipe tutorial-transformer-classifier"""
    words, width, inner, classes = 50_002, 32, 128, 2
    attention = 3 * _linear(width, width, bias=False) + _linear(width, width)
    network, norm = _linear(width, inner) + _linear(inner, width), 2 * width
    text = words * width + norm + attention + network + 2 * norm + _linear(width, classes)
    config = load_recipe("tutorial-transformer-classifier").model
    assert isinstance(config, ClassifierModel)
    return Computed([text], _counted(lambda: build_classifier(config, words, classes)))


def weights_of_the_tweet_classifier() -> Computed:
    """TweetClassifier with 50,002 words, hidden_dim 128 and two layers, module by module; recipe tweets-lstm"""
    words, width, layers = 50_002, 128, 2
    text = words * width + layers * (4 * 2 * width * width + 8 * width) + _linear(width, 257) + _linear(257, 1)
    config = load_recipe("tweets-lstm").model
    assert isinstance(config, ClassifierModel)
    return Computed([text], _counted(lambda: build_classifier(config, words, 2)))


def weights_of_the_vision_transformer() -> Computed:
    """VisionTransformer(256, 512, 1, 8, 6, 10, 4, 49) as printed, with pre-norm blocks; recipe mnist-vit-linear"""
    width, inner, channels, layers, classes, patch, patches = 256, 512, 1, 6, 10, 4, 49
    block = 4 * _linear(width, width) + _linear(width, inner) + _linear(inner, width) + 2 * 2 * width
    text = _linear(channels * patch**2, width) + layers * block + 2 * width + _linear(width, classes)
    text += width + (1 + patches) * width  # cls_token and pos_embedding
    config = load_recipe("mnist-vit-linear").model
    assert isinstance(config, ImageClassifierModel)
    return Computed([text], _counted(lambda: build_image_classifier(config, classes)))


def updates_of_ten_epochs() -> Computed:
    """Ten epochs of 22,500 reviews in batches of 128, and a rate of 0.001; recipe tutorial-transformer-classifier"""
    train = load_recipe("tutorial-transformer-classifier").train
    assert isinstance(train.schedule, Constant)
    text = [10.0 * math.ceil(22_500 / 128), 0.001]
    return Computed(text, [float(train.steps or 0), train.schedule.lr])


def bert_shapes() -> Computed:
    """Layers, width and heads of BERT-base, 12, 768 and 12, and of BERT-large, 24, 1024 and 16"""
    configs = [BertModel.model_validate({"family": "bert", "preset": preset}) for preset in ("base", "large")]
    sizes = [float(size) for config in configs for size in (config.layers, config.width, config.heads)]
    return Computed([12, 768, 12, 24, 1024, 16], sizes)
