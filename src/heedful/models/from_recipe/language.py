"""From a recipe's [model] table to a language model."""

from typing import assert_never, cast

import torch
from torch import nn

from heedful.config.model.language import (
    ConvolutionalDecoderTable,
    LanguageModelTable,
    RecurrentDecoderTable,
    TransformerDecoderTable,
)
from heedful.models.convolutional import ConvolutionalLanguageModel
from heedful.models.from_recipe.initialization import scale_initial_weights
from heedful.models.from_recipe.recurrent import recurrent_language_model
from heedful.models.from_recipe.transformer import transformer_decoder
from heedful.models.networks import LanguageModel
from heedful.models.protocols import Decoder
from heedful.nn.initialization import init_scaled, init_xavier
from heedful.nn.layers.convolutions.causal import ConvolutionBlock
from heedful.nn.layers.embedding import Embedding, Output, make_table


def build_language_model(config: LanguageModelTable, vocabulary: int) -> LanguageModel:
    """Make a language model with new weights, drawn from torch's global generator."""
    model = LanguageModel(language_decoder(config, make_table(vocabulary, config.embedding_width)))
    init_language(model, config)
    return model


def language_decoder(config: LanguageModelTable, weight: nn.Parameter) -> nn.Module:
    """Make a decoder without memory whose embedding has this matrix."""
    table, vocabulary = config.decoder, len(weight)
    output = weight if config.tie else make_table(vocabulary, table.output_width)
    decoder: nn.Module
    match table:
        case TransformerDecoderTable():
            decoder = transformer_decoder(table, weight, output, None)
        case RecurrentDecoderTable():
            decoder = recurrent_language_model(table, weight, output)
        case ConvolutionalDecoderTable():
            embedding = Embedding(weight, None, table.dropout, scaled=False, dropout_words=table.dropout_words)
            sizes = table.width, table.kernel, table.activation, table.dropout
            blocks = [ConvolutionBlock(*sizes) for _ in range(table.layers)]
            decoder = ConvolutionalLanguageModel(embedding, blocks, Output(output), table.dropout)
        case _:
            assert_never(table)
    if config.output_bias:
        cast(Decoder, decoder).output.bias = nn.Parameter(torch.zeros(vocabulary))
    return decoder


def init_language(model: nn.Module, config: LanguageModelTable) -> None:
    """Initialize the weights of a language model, or of a network around one."""
    match config.decoder:
        case TransformerDecoderTable() as table:
            if table.norm == "deepnorm":  # whose gains are those of Xavier's weights
                init_xavier(model)
            else:
                init_scaled(model, table.layers)
            scale_initial_weights(model)
        case RecurrentDecoderTable() | ConvolutionalDecoderTable():
            init_xavier(model)
        case _:
            assert_never(config.decoder)
