"""From a recipe's [model] table to a network that reads pictures."""

from typing import assert_never

import torch
from torch import nn

from heedful.config.model.encoders import RecurrentEncoderTable, TransformerEncoderTable
from heedful.config.model.pictures import (
    AnyPictureEncoder,
    PictureAnswererModel,
    PictureClassifierModel,
    PictureConvolutionsTable,
    PictureTransformerTable,
)
from heedful.models.build.depth import scale_initial_weights
from heedful.models.build.encoder_only import build_head, build_pool
from heedful.models.build.recurrent import lone_encoder
from heedful.models.build.transformer import (
    encoder_blocks,
    final_norm,
    question_blocks,
    text_embedding,
    transformer_encoder,
)
from heedful.models.heads import Pooler
from heedful.models.hierarchical import Pooled
from heedful.models.networks import Classifier
from heedful.models.pictures import BlindEncoder, LookingEncoder, PictureAnswerer, PictureEncoder
from heedful.nn.attention.pair_pooling import COATTENTIONS
from heedful.nn.initialization import init_normal, init_xavier
from heedful.nn.layers.embedding import make_table
from heedful.nn.layers.linear import Linear
from heedful.nn.layers.pictures.embedding import PictureEmbedding
from heedful.nn.layers.pictures.positions import LearnedGrid, SinusoidalGrid
from heedful.nn.layers.pictures.stems import Convolutions, Patches


def build_picture_classifier(config: PictureClassifierModel, classes: int) -> Classifier:
    """Make a classifier of pictures with new weights, drawn from torch's global generator."""
    width = config.encoder.memory_width
    pooled = Pooled(picture_encoder(config.encoder), build_pool(config.pooled_by, width))
    model = Classifier(pooled, None, config.dropout, *build_head(config, width, classes))
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


def build_picture_answerer(config: PictureAnswererModel, vocabulary: int, answers: int) -> PictureAnswerer:
    """Make a network that answers questions about pictures with new weights, from torch's global generator."""
    width, patch_width = config.question.memory_width, config.encoder.memory_width
    model = PictureAnswerer(
        picture_encoder(config.encoder),
        _questions(config, make_table(vocabulary, config.question.embedding_width)),
        COATTENTIONS[config.join](width, patch_width),
        Pooler(width, width + patch_width),
        config.dropout,
        Linear(width, answers),
    )
    init_xavier(model)
    if isinstance(config.encoder, PictureTransformerTable):
        init_normal(model.encoder)
    scale_initial_weights(model)
    return model


def _questions(config: PictureAnswererModel, weight: nn.Parameter) -> LookingEncoder | BlindEncoder:
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
