"""From a recipe's [model] table to the encoder and the decoder of a recurrent model."""

from collections.abc import Mapping
from typing import Final, assert_never

import torch
from torch import nn

from heedful.config.model.encoders import RecurrentEncoderTable, RecurrentLettersTable
from heedful.config.model.language import RecurrentDecoderTable
from heedful.config.model.recurrent import RecurrentModel
from heedful.models.from_recipe.attention import build_alignment, build_distance, build_distribution
from heedful.models.recurrent.decoder import EachSentence, EachToken, RecurrentDecoder
from heedful.models.recurrent.encoder import RecurrentEncoder
from heedful.models.recurrent.initial_state import Bridge, Bridged, Handed, InitialState
from heedful.models.recurrent.language_model import RecurrentLanguageModel
from heedful.models.recurrent.wirings import Bahdanau, Cho, Luong, Repeated, Sutskever, Unfed, Wiring
from heedful.nn.attention.windows import GlobalView, MonotoneView, PredictedView
from heedful.nn.layers.embedding import Embedding, Output, make_embedding, make_table
from heedful.nn.layers.linear import Linear
from heedful.nn.recurrent.attention import RecurrentAttention
from heedful.nn.recurrent.cells import StackShares
from heedful.nn.recurrent.deep_output import DeepOutput
from heedful.nn.recurrent.output_feedback import OutputFeedbackStack
from heedful.nn.recurrent.stack import CellKind, RecurrentStack

_KINDS: Final[Mapping[str, CellKind]] = {
    "gru": "gru",
    "gru_paper": "gru_paper",
    "lstm": "lstm",
    "tanh": "rnn_tanh",
    "relu": "rnn_relu",
}


def recurrent_encoder(config: RecurrentModel, weight: nn.Parameter) -> RecurrentEncoder:
    """Make the encoder of an encoder-decoder, whose embedding has this matrix."""
    own = RecurrentEncoderTable(
        family="recurrent",
        cell=config.cell,
        width=config.encoder_width or config.width,
        layers=config.layers,
        bidirectional=config.bidirectional,
        embedding=config.embedding_width,
        embeddings=config.embeddings,
        dropout=config.dropout,
        dropout_words=config.dropout_words,
        variational=config.variational,
    )
    return lone_encoder(own, weight, config.reverse_source)


def lone_encoder(config: RecurrentEncoderTable, weight: nn.Parameter, reverse: bool = False) -> RecurrentEncoder:
    """Make an encoder whose embedding has this matrix."""
    embedding = _embedding(config, weight, config.dropout_words)
    return RecurrentEncoder(embedding, encoder_stack(config, config.embedding_width), reverse)


def encoder_stack(config: RecurrentEncoderTable, input_width: int) -> RecurrentStack:
    """Make the stack of an encoder, over vectors of this width."""
    return RecurrentStack(
        _KINDS[config.cell],
        input_width,
        config.width,
        config.layers,
        config.bidirectional,
        config.dropout,
        config.variational,
    )


def letters_stack(config: RecurrentLettersTable) -> RecurrentStack:
    """Make the layer that reads the letters of words in both directions."""
    return RecurrentStack(_KINDS[config.cell], config.embedding, config.width // 2, bidirectional=True)


def recurrent_decoder(
    config: RecurrentModel,
    weight: nn.Parameter,
    output: nn.Parameter,
    memory_width: int,
    dropout_words: float = 0.0,
) -> RecurrentDecoder:
    """Make a decoder over memories of this width, whose embedding and output layer have these matrices.

    `dropout_words` is that of its own words: the key of the table drops those of an encoder of texts.
    """
    drop = (EachSentence if config.variational else EachToken)(config.dropout)
    return RecurrentDecoder(
        _embedding(config, weight, dropout_words), _wiring(config, memory_width), drop, Output(output)
    )


def recurrent_language_model(
    config: RecurrentDecoderTable, weight: nn.Parameter, output: nn.Parameter
) -> RecurrentLanguageModel:
    """Make a decoder without memory, whose embedding and output layer have these matrices."""
    shares = StackShares(
        between=config.share("hidden"),
        inputs=config.share("input"),
        states=config.dropout_state,
        weights=config.dropout_weights,
    )
    embedding = make_embedding(
        [weight],
        None,
        0.0 if config.variational else shares.inputs,  # variational masks already drop inputs of the first layer
        scaled=False,
        dropout_words=config.dropout_words,
        drops_types=config.variational,
    )
    bias = nn.Parameter(torch.zeros(output.shape[0]))
    return RecurrentLanguageModel(
        embedding, _language_stack(config, shares), Output(output, bias), config.share("output"), config.variational
    )


def _language_stack(config: RecurrentDecoderTable, shares: StackShares) -> RecurrentStack | OutputFeedbackStack:
    match config.feedback:
        case "hidden":
            return RecurrentStack(
                _KINDS[config.cell],
                config.embedding_width,
                config.width,
                config.layers,
                dropout=shares,
                variational=config.variational,
                last_width=config.last_width,
            )
        case "output":
            activation = torch.tanh if config.cell == "tanh" else torch.relu
            return OutputFeedbackStack(config.embedding_width, config.width, config.output_width, activation)
        case _:
            assert_never(config.feedback)


def _embedding(
    config: RecurrentModel | RecurrentEncoderTable, weight: nn.Parameter, dropout_words: float = 0.0
) -> Embedding:
    # Variational masks already drop inputs of the first layer.
    more = [make_table(*weight.shape) for _ in range(config.embeddings - 1)]
    dropout = 0.0 if config.variational else config.dropout
    return make_embedding([weight, *more], None, dropout, dropout_words=dropout_words)


def _wiring(config: RecurrentModel, memory_width: int) -> Wiring:
    width, word = config.width, config.embedding_width
    match config.wiring:
        case "sutskever":
            return Sutskever(_stack(config, word), _start(config, memory_width))
        case "vector":
            return Repeated(_stack(config, word + memory_width))
        case "cho":
            output = DeepOutput(width, word, width, width)
            return Cho(_stack(config, word + width), Linear(memory_width, width), _bridge(config, width), output)
        case "bahdanau":
            first, output = Bridged(_bridge(config, memory_width)), DeepOutput(width, word, memory_width, width)
            return Bahdanau(_stack(config, word + memory_width), first, _attention(config, memory_width), output)
        case "luong":
            fed = width if config.input_feeding else 0
            wiring = Luong if config.input_feeding else Unfed
            first = Bridged(_bridge(config, memory_width))
            return wiring(_stack(config, word + fed), first, _attention(config, memory_width), memory_width)
        case _:
            assert_never(config.wiring)


def _layers(config: RecurrentModel) -> int:
    return config.decoder_layers or config.layers


def _stack(config: RecurrentModel, input_width: int) -> RecurrentStack:
    return RecurrentStack(
        _KINDS[config.cell],
        input_width,
        config.width,
        _layers(config),
        dropout=config.dropout,
        variational=config.variational,
    )


def _start(config: RecurrentModel, memory_width: int) -> InitialState:
    """Return how the decoder starts: from the encoder's last state as it is, if both have one shape."""
    if not config.bidirectional and memory_width == config.width and _layers(config) == config.layers:
        return Handed(config.width, config.layers, cell=config.cell == "lstm")
    return Bridged(_bridge(config, memory_width))


def _bridge(config: RecurrentModel, input_width: int) -> Bridge:
    return Bridge(input_width, config.width, _layers(config), cell=config.cell == "lstm")


def _attention(config: RecurrentModel, memory_width: int) -> RecurrentAttention:
    alignment = build_alignment(config, config.aligned_by, config.width, memory_width)
    match config.window:
        case "global":
            view = GlobalView()
        case "monotone":
            view = MonotoneView(config.half_width)
        case "predicted":
            view = PredictedView(config.width, config.half_width)
        case _:
            assert_never(config.window)
    return RecurrentAttention(alignment, build_distribution(config, memory_width), view, build_distance(config))
