"""From a recipe's [model] table to a language model."""

from typing import assert_never

import torch
from torch import nn

from heedful.config.model.language import (
    ConvolutionalDecoderTable,
    LanguageModelTable,
    RecurrentDecoderTable,
    TransformerDecoderTable,
)
from heedful.models.build.recurrent import recurrent_language_model
from heedful.models.build.transformer import transformer_decoder
from heedful.models.convolutional import ConvolutionalLanguageModel
from heedful.models.networks import LanguageModel
from heedful.nn.initialization import init_scaled, init_xavier
from heedful.nn.layers.causal_convolution import ConvolutionBlock
from heedful.nn.layers.embedding import Embedding, Output, make_table


def build_language_model(config: LanguageModelTable, vocabulary: int) -> LanguageModel:
    """Make a language model with new weights, drawn from torch's global generator."""
    table = config.decoder
    weight = make_table(vocabulary, table.embedding_width)
    model = LanguageModel(_decoder(table, weight, weight if config.tie else make_table(vocabulary, table.output_width)))
    if config.output_bias:
        model.output.bias = nn.Parameter(torch.zeros(vocabulary))
    match table:
        case TransformerDecoderTable():
            init_scaled(model, table.layers)
        case RecurrentDecoderTable() | ConvolutionalDecoderTable():
            init_xavier(model)
        case _:
            assert_never(table)
    return model


def _decoder(
    table: TransformerDecoderTable | RecurrentDecoderTable | ConvolutionalDecoderTable,
    weight: nn.Parameter,
    output: nn.Parameter,
) -> nn.Module:
    match table:
        case TransformerDecoderTable():
            return transformer_decoder(table, weight, output, None)
        case RecurrentDecoderTable():
            return recurrent_language_model(table, weight, output)
        case ConvolutionalDecoderTable():
            return _convolutional(table, weight, output)
        case _:
            assert_never(table)


def _convolutional(
    table: ConvolutionalDecoderTable, weight: nn.Parameter, output: nn.Parameter
) -> ConvolutionalLanguageModel:
    embedding = Embedding(weight, None, table.dropout, scaled=False, dropout_words=table.dropout_words)
    blocks = [ConvolutionBlock(table.width, table.kernel, table.activation, table.dropout) for _ in range(table.layers)]
    return ConvolutionalLanguageModel(embedding, blocks, Output(output), table.dropout)
