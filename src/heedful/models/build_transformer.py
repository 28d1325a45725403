"""From a recipe's [model] table to the encoder and the decoder of a Transformer."""

from collections.abc import Callable, Mapping
from typing import Final

from torch import nn

from heedful.config.models import TransformerModel
from heedful.models.block import DecoderBlock, EncoderBlock
from heedful.models.build_attention import build_alignment, build_distance, build_distribution
from heedful.models.decoder import TransformerDecoder
from heedful.models.encoder import TransformerEncoder
from heedful.nn.aligned_attention import AlignedCrossAttention, AlignedSelfAttention, LinearReading, Reading
from heedful.nn.alignment_kernel import Kernel
from heedful.nn.attention import CrossAttention, SelfAttention
from heedful.nn.backends import Backend, automatic, explicit
from heedful.nn.embedding import Embedding, Output, fresh_table, make_embedding
from heedful.nn.feedforward import FeedForward, SwiGLU
from heedful.nn.linear import LayerNorm
from heedful.nn.positions import Learned, Sinusoidal
from heedful.nn.relative import LinearBias, RelativeVectors, Rotary, Scheme
from heedful.nn.residual import Residual


def transformer_encoder(config: TransformerModel, weight: nn.Parameter) -> TransformerEncoder:
    """An encoder whose embedding has this matrix."""
    return TransformerEncoder(
        _embedding(config, weight),
        [_encoder_block(config, seed=layer) for layer in range(config.layers)],
        _final_norm(config),
    )


def transformer_decoder(
    config: TransformerModel, weight: nn.Parameter, output: nn.Parameter, memory_width: int
) -> TransformerDecoder:
    """A decoder over memories of this width, whose embedding and output layer have these matrices."""
    layers = range(config.decoder_layers or config.layers)
    return TransformerDecoder(
        _embedding(config, weight),
        [_decoder_block(config, memory_width, seed=config.layers + 2 * layer) for layer in layers],
        _final_norm(config),
        Output(output),
    )


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
    more = [fresh_table(*weight.shape) for _ in range(config.embeddings - 1)]
    return make_embedding([weight, *more], positions, dropout)


def _encoder_block(config: TransformerModel, seed: int) -> EncoderBlock:
    attention = _self_attention(config, causal=False, seed=seed)
    return EncoderBlock(attention, _network(config), (_residual(config), _residual(config)))


def _decoder_block(config: TransformerModel, memory_width: int, seed: int) -> DecoderBlock:
    return DecoderBlock(
        _self_attention(config, causal=True, seed=seed),
        _cross_attention(config, memory_width, seed=seed + 1),
        _network(config),
        (_residual(config), _residual(config), _residual(config)),
    )


# --- attention --------------------------------------------------------------------------------------------------------

_BACKENDS: Final[Mapping[str, Backend]] = {"auto": automatic, "fused": automatic, "explicit": explicit}


def _self_attention(config: TransformerModel, causal: bool, seed: int) -> SelfAttention:
    width, heads, dropout, scheme = config.width, config.heads, config.dropout_attention, _scheme(config)
    if _usual(config):
        return SelfAttention(width, heads, causal, dropout, _BACKENDS[config.backend], scheme)
    return AlignedSelfAttention(width, heads, _reading(config, seed), causal, dropout, scheme)


def _cross_attention(config: TransformerModel, memory_width: int, seed: int) -> CrossAttention:
    width, heads, dropout = config.width, config.heads, config.dropout_attention
    if _usual(config):
        return CrossAttention(width, heads, dropout, memory_width, _BACKENDS[config.backend])
    return AlignedCrossAttention(width, heads, _reading(config, seed), dropout, memory_width)


def _usual(config: TransformerModel) -> bool:
    """Whether backends compute it."""
    return (config.alignment, config.distribution, config.choice) == ("scaled_dot", "softmax", "soft")


def _reading(config: TransformerModel, seed: int) -> Reading:
    width, heads = config.width // config.heads, config.heads
    alignment = build_alignment(config, config.alignment, width, width, heads, seed)
    if isinstance(alignment, Kernel):
        return LinearReading(alignment)
    return Reading(alignment, build_distribution(config, width, heads), build_distance(config))


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
