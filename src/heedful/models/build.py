"""From a recipe's [model] table to modules: the only place that knows both."""

from collections.abc import Callable

import torch
from torch import nn

from heedful.config.schema import TransformerModel
from heedful.models.block import DecoderBlock, EncoderBlock
from heedful.models.decoder import TransformerDecoder
from heedful.models.encoder import TransformerEncoder
from heedful.models.families import EncoderDecoder
from heedful.nn.attention import CrossAttention, SelfAttention
from heedful.nn.embedding import Embedding, Output
from heedful.nn.feedforward import FeedForward, SwiGLU
from heedful.nn.init import xavier
from heedful.nn.linear import LayerNorm
from heedful.nn.positions import Learned, Sinusoidal
from heedful.nn.relative import LinearBias, RelativeVectors, Rotary, Scheme
from heedful.nn.residual import Residual


def build_model(config: TransformerModel, source_size: int, target_size: int) -> EncoderDecoder:
    """Make a model with fresh weights, drawn from torch's global generator."""
    source_weight, target_weight, output_weight = _vocabulary_matrices(config, source_size, target_size)
    encoder = TransformerEncoder(
        _embedding(config, source_weight),
        [_encoder_block(config) for _ in range(config.layers)],
        _final_norm(config),
    )
    decoder = TransformerDecoder(
        _embedding(config, target_weight),
        [_decoder_block(config) for _ in range(config.decoder_layers or config.layers)],
        _final_norm(config),
        Output(output_weight),
    )
    model = EncoderDecoder(encoder, decoder)
    xavier(model)
    return model


def _vocabulary_matrices(
    config: TransformerModel, source_size: int, target_size: int
) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    """The source embedding, the target embedding and the output matrix: three names for one, two or three matrices."""
    if config.tie == "all" and source_size != target_size:
        raise ValueError("one matrix for both embeddings needs one vocabulary")

    def fresh(size: int) -> nn.Parameter:
        return nn.Parameter(torch.randn(size, config.width) * config.width**-0.5)

    source = fresh(source_size)
    target = source if config.tie == "all" else fresh(target_size)
    output = fresh(target_size) if config.tie == "none" else target
    return source, target, output


def _embedding(config: TransformerModel, weight: nn.Parameter) -> Embedding:
    dropout = config.dropout if config.dropout_embedding is None else config.dropout_embedding
    positions: nn.Module | None
    match config.positions:
        case "sinusoidal":
            positions = Sinusoidal(config.width)
        case "sinusoidal_halves":
            positions = Sinusoidal(config.width, halves=True)
        case "learned":
            positions = Learned(config.width, config.max_positions)
        case "rope" | "alibi" | "relative":
            positions = None
    return Embedding(weight, positions, dropout)


def _encoder_block(config: TransformerModel) -> EncoderBlock:
    return EncoderBlock(_self_attention(config, causal=False), _network(config), (_residual(config), _residual(config)))


def _decoder_block(config: TransformerModel) -> DecoderBlock:
    return DecoderBlock(
        _self_attention(config, causal=True),
        CrossAttention(config.width, config.heads, config.dropout_attention),
        _network(config),
        (_residual(config), _residual(config), _residual(config)),
    )


def _self_attention(config: TransformerModel, causal: bool) -> SelfAttention:
    return SelfAttention(config.width, config.heads, causal, config.dropout_attention, positions=_scheme(config))


def _scheme(config: TransformerModel) -> Scheme:
    head_width = config.width // config.heads
    match config.positions:
        case "rope":
            return Rotary(head_width)
        case "alibi":
            return LinearBias(config.heads)
        case "relative":
            return RelativeVectors(head_width, config.max_distance)
        case "sinusoidal" | "sinusoidal_halves" | "learned":
            return Scheme()


def _network(config: TransformerModel) -> nn.Module:
    match config.activation:
        case "swiglu":
            return SwiGLU(config.width, config.inner, config.dropout_inner)
        case activation:
            return FeedForward(config.width, config.inner, activation, config.dropout_inner)


_PLACEMENTS: dict[str, tuple[Callable[[int], nn.Module], Callable[[int], nn.Module]]] = {
    "post": (lambda width: nn.Identity(), LayerNorm),
    "pre": (LayerNorm, lambda width: nn.Identity()),
}


def _residual(config: TransformerModel) -> Residual:
    before, after = _PLACEMENTS[config.norm]
    return Residual(before(config.width), after(config.width), config.dropout)


def _final_norm(config: TransformerModel) -> nn.Module:
    wanted = config.norm == "pre" if config.final_norm is None else config.final_norm
    return LayerNorm(config.width) if wanted else nn.Identity()
