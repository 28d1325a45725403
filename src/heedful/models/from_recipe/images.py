"""From a recipe's [model] table to a network that reads images."""

from collections.abc import Callable
from typing import assert_never

import torch
from torch import nn

from heedful.config.model.encoders import RecurrentEncoderTable, TransformerEncoderTable
from heedful.config.model.images import (
    AnyImageEncoder,
    ImageAnswererModel,
    ImageConvolutionsTable,
    ImageTransformerTable,
)
from heedful.config.model.pooled import ImageClassifierModel, ImageModel
from heedful.models.from_recipe.encoder_only import Kind, build_head, build_pool
from heedful.models.from_recipe.initialization import scale_initial_weights
from heedful.models.from_recipe.recurrent import lone_encoder
from heedful.models.from_recipe.transformer import (
    encoder_blocks,
    final_norm,
    question_blocks,
    text_embedding,
    transformer_encoder,
)
from heedful.models.heads import Pooler
from heedful.models.hierarchical import Pooled
from heedful.models.images import BlindEncoder, ImageAnswerer, ImageEncoder, LookingEncoder
from heedful.models.networks import Classifier
from heedful.nn.attention.pair_pooling import COATTENTIONS
from heedful.nn.initialization import init_normal, init_xavier
from heedful.nn.layers.embedding import make_table
from heedful.nn.layers.images.embedding import ImageEmbedding
from heedful.nn.layers.images.positions import LearnedGrid, SinusoidalGrid
from heedful.nn.layers.images.stems import Convolutions, Patches
from heedful.nn.layers.linear import Linear


def build_image_classifier(config: ImageClassifierModel, classes: int) -> Classifier:
    """Make a classifier of images with new weights, drawn from torch's global generator."""
    return build_pooled_images(config, classes, Classifier)


def build_pooled_images(config: ImageModel, scores: int, network: Callable[..., Kind]) -> Kind:
    """Make a network that reads images and gives each this number of scores, with new weights."""
    table, width = config.encoder, config.encoder.memory_width
    pooled = Pooled(image_encoder(table), build_pool(config.pooled_by, width))
    model = network(pooled, None, config.dropout, *build_head(config, width, scores))
    init_images(model, table)
    scale_initial_weights(model)
    return model


def init_images(model: nn.Module, encoder: AnyImageEncoder) -> None:
    """Initialize the weights of a network with this encoder."""
    match encoder:
        case ImageTransformerTable():
            init_normal(model)
        case ImageConvolutionsTable():
            init_xavier(model)  # convolutions initialize themselves
        case _:
            assert_never(encoder)


def build_image_answerer(config: ImageAnswererModel, vocabulary: int, answers: int) -> ImageAnswerer:
    """Make a network that answers questions about images with new weights, from torch's global generator."""
    width, patch_width = config.question.memory_width, config.encoder.memory_width
    model = ImageAnswerer(
        image_encoder(config.encoder),
        _questions(config, make_table(vocabulary, config.question.embedding_width)),
        COATTENTIONS[config.join](width, patch_width),
        Pooler(width, width + patch_width),
        config.dropout,
        Linear(width, answers),
    )
    init_xavier(model)
    if isinstance(config.encoder, ImageTransformerTable):
        init_normal(model.encoder)
    scale_initial_weights(model)
    return model


def _questions(config: ImageAnswererModel, weight: nn.Parameter) -> LookingEncoder | BlindEncoder:
    match config.question:
        case TransformerEncoderTable() if config.crosses:
            blocks = question_blocks(config.question, config.encoder.memory_width)
            return LookingEncoder(text_embedding(config.question, weight), blocks, final_norm(config.question))
        case TransformerEncoderTable():
            return BlindEncoder(transformer_encoder(config.question, weight))
        case RecurrentEncoderTable():
            return BlindEncoder(lone_encoder(config.question, weight))
        case _:
            assert_never(config.question)


def image_encoder(config: AnyImageEncoder) -> ImageEncoder:
    """Make the encoder of images."""
    match config:
        case ImageTransformerTable():
            dropout = config.dropout if config.dropout_embedding is None else config.dropout_embedding
            token, position = (
                nn.Parameter(torch.zeros(1, config.width)) if wanted else None
                for wanted in (config.class_token, config.class_position)
            )
            embedding = ImageEmbedding(_stem(config), _positions(config), token, dropout, position)
            return ImageEncoder(embedding, encoder_blocks(config), final_norm(config))
        case ImageConvolutionsTable():
            widths = [max(1, config.width >> stage) for stage in reversed(range(config.stages))]
            stem = Convolutions(config.channels, widths, config.depth)
            positions = SinusoidalGrid(config.width) if config.positions == "sinusoidal" else None
            return ImageEncoder(ImageEmbedding(stem, positions, None, config.dropout), [], nn.Identity())
        case _:
            assert_never(config)


def _stem(config: ImageTransformerTable) -> nn.Module:
    match config.stem:
        case "patches":
            return Patches(config.patch, config.channels, config.width)
        case "convolutions":
            stages = config.patch.bit_length() - 1
            widths = [max(1, config.width >> stage) for stage in range(stages, 0, -1)]
            return Convolutions(config.channels, widths, 1, config.width)
        case _:
            assert_never(config.stem)


def _positions(config: ImageTransformerTable) -> nn.Module:
    match config.positions:
        case "learned":
            return LearnedGrid(config.grid, config.grid, config.width)
        case "sinusoidal":
            return SinusoidalGrid(config.width)
        case _:
            assert_never(config.positions)
