"""From a recipe's [model] table to a network that reads pictures."""

from typing import assert_never

import torch
from torch import nn

from heedful.config.model.pictures import (
    AnyPictureEncoder,
    PictureClassifierModel,
    PictureConvolutionsTable,
    PictureTransformerTable,
)
from heedful.models.build.depth import scale_initial_weights
from heedful.models.build.encoder_only import build_pool
from heedful.models.build.transformer import encoder_blocks, final_norm
from heedful.models.hierarchical import Pooled
from heedful.models.networks import Classifier
from heedful.models.pictures import PictureEncoder
from heedful.nn.initialization import init_normal, init_xavier
from heedful.nn.layers.linear import Linear
from heedful.nn.layers.pictures.embedding import PictureEmbedding
from heedful.nn.layers.pictures.positions import LearnedGrid, SinusoidalGrid
from heedful.nn.layers.pictures.stems import Convolutions, Patches


def build_picture_classifier(config: PictureClassifierModel, classes: int) -> Classifier:
    """Make a classifier of pictures with new weights, drawn from torch's global generator."""
    width = config.encoder.memory_width
    pooled = Pooled(picture_encoder(config.encoder), build_pool(config.pooled_by, width))
    model = Classifier(pooled, None, config.dropout, Linear(width, classes))
    init_pictures(model, config.encoder)
    scale_initial_weights(model)
    return model


def init_pictures(model: nn.Module, encoder: AnyPictureEncoder) -> None:
    """Initialize the weights of a network with this encoder."""
    match encoder:
        case PictureTransformerTable():
            init_normal(model)
        case PictureConvolutionsTable():
            init_xavier(model)  # convolutions initialize themselves
        case _:
            assert_never(encoder)


def picture_encoder(config: AnyPictureEncoder) -> PictureEncoder:
    """Make the encoder of pictures."""
    match config:
        case PictureTransformerTable():
            return PictureEncoder(_embedding(config), encoder_blocks(config), final_norm(config))
        case PictureConvolutionsTable():
            widths = [max(1, config.width >> stage) for stage in reversed(range(config.stages))]
            stem = Convolutions(config.channels, widths, config.depth)
            positions = SinusoidalGrid(config.width) if config.positions == "sinusoidal" else None
            return PictureEncoder(PictureEmbedding(stem, positions, None, config.dropout), [], nn.Identity())
        case _:
            assert_never(config)


def _embedding(config: PictureTransformerTable) -> PictureEmbedding:
    dropout = config.dropout if config.dropout_embedding is None else config.dropout_embedding
    token = nn.Parameter(torch.zeros(1, config.width)) if config.class_token else None
    return PictureEmbedding(_stem(config), _positions(config), token, dropout)


def _stem(config: PictureTransformerTable) -> nn.Module:
    match config.stem:
        case "patches":
            return Patches(config.patch, config.channels, config.width)
        case "convolutions":
            stages = config.patch.bit_length() - 1
            widths = [max(1, config.width >> stage) for stage in range(stages, 0, -1)]
            return Convolutions(config.channels, widths, 1, config.width)
        case _:
            assert_never(config.stem)


def _positions(config: PictureTransformerTable) -> nn.Module:
    match config.positions:
        case "learned":
            return LearnedGrid(config.grid, config.grid, config.width)
        case "sinusoidal":
            return SinusoidalGrid(config.width)
        case _:
            assert_never(config.positions)
