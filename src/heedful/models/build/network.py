"""From a recipe's [model] table to an encoder-decoder: its vocabulary matrices, its encoder and its decoder."""

from typing import assert_never

from torch import nn

from heedful.config.model.mixed import PairModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.models.build.recurrent import recurrent_decoder, recurrent_encoder
from heedful.models.build.transformer import transformer_decoder, transformer_encoder
from heedful.models.networks import EncoderDecoder
from heedful.nn.initialization import init_xavier
from heedful.nn.layers.embedding import make_table


def build_model(config: PairModel, source_size: int, target_size: int) -> EncoderDecoder:
    """Make a network with new weights, drawn from torch's global generator."""
    first, second = config.sides
    if config.tie == "all" and source_size != target_size:
        raise ValueError("one matrix for both embeddings needs one vocabulary")
    source = make_table(source_size, first.embedding_width)
    target = source if config.tie == "all" else make_table(target_size, second.embedding_width)
    output = make_table(target_size, second.width) if config.tie == "none" else target
    model = EncoderDecoder(_encoder(first, source), _decoder(second, target, output, first.memory_width))
    init_xavier(model)
    return model


def _encoder(config: TransformerModel | RecurrentModel, weight: nn.Parameter) -> nn.Module:
    match config:
        case TransformerModel():
            return transformer_encoder(config, weight)
        case RecurrentModel():
            return recurrent_encoder(config, weight)
        case _:
            assert_never(config)


def _decoder(
    config: TransformerModel | RecurrentModel, weight: nn.Parameter, output: nn.Parameter, memory_width: int
) -> nn.Module:
    match config:
        case TransformerModel():
            return transformer_decoder(config, weight, output, memory_width)
        case RecurrentModel():
            return recurrent_decoder(config, weight, output, memory_width)
        case _:
            assert_never(config)
