"""From a recipe's [model] table to the encoder and the decoder of a Transformer."""

from collections.abc import Mapping
from typing import Final, assert_never

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from heedful.config.model.language import TransformerDecoderTable
from heedful.config.model.transformer import TransformerBlocks, TransformerModel, TransformerStack
from heedful.models.from_recipe.attention import build_alignment, build_distance, build_distribution
from heedful.models.from_recipe.initialization import Scales, decoder_scales, encoder_scales
from heedful.models.images import QuestionBlock
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.alignments.random_features import Kernel
from heedful.nn.attention.any_alignment import (
    AlignedCrossAttention,
    AlignedSelfAttention,
    HeadAttention,
    LinearHeadAttention,
)
from heedful.nn.attention.backends import Backend, automatic, explicit
from heedful.nn.attention.multi_head import CrossAttention, Projections, SelfAttention
from heedful.nn.attention.relative_positions import SCHEMES, PositionScheme
from heedful.nn.attention.restricted import Restricted
from heedful.nn.layers.convolutions.centred import Convolution, SeparableConvolution
from heedful.nn.layers.embedding import Embedding, Output, make_embedding, make_table
from heedful.nn.layers.feedforward import FeedForward, SwiGLU
from heedful.nn.layers.linear import LayerNorm, RMSNorm
from heedful.nn.layers.positions import ADDED, WordPositions
from heedful.nn.layers.residual import Residual


def transformer_encoder(
    config: TransformerStack, weight: nn.Parameter, segments: int = 0, ends_V: Bool[Tensor, "V"] | None = None
) -> TransformerEncoder:
    """Make an encoder whose embedding has this matrix, and vectors for this number of segments.

    `ends_V` says which tokens end a word, if words are counted.
    """
    vectors = make_table(segments, config.width) if segments else None
    return TransformerEncoder(
        _embedding(config, weight, vectors, config.dropout_words, ends_V=ends_V),
        encoder_blocks(config),
        final_norm(config),
    )


def encoder_blocks(config: TransformerBlocks) -> list[EncoderBlock]:
    """Make the blocks of an encoder."""
    return [_encoder_block(config, layer) for layer in range(config.layers)]


def question_blocks(config: TransformerStack, memory_width: int) -> list[QuestionBlock]:
    """Make the blocks of an encoder of questions that attend to memories of this width, such as patches."""
    scales = decoder_scales(config)
    return [
        QuestionBlock(
            _self_attention(config, causal=False, seed=2 * layer),
            _cross_attention(config, memory_width, seed=2 * layer + 1),
            _network(config),
            [_residual(config, scales) for _ in range(3)],
            config.dropout_layers,
        )
        for layer in range(config.layers)
    ]


def text_embedding(config: TransformerStack, weight: nn.Parameter) -> Embedding:
    """Make the embedding of texts, with this matrix."""
    return _embedding(config, weight, dropout_words=config.dropout_words)


def transformer_decoder(
    config: TransformerModel | TransformerDecoderTable,
    weight: nn.Parameter,
    output: nn.Parameter,
    memory_width: int | None,
    ends_V: Bool[Tensor, "V"] | None = None,
    dropout_words: float = 0.0,
) -> TransformerDecoder:
    """Make a decoder over memories of this width, or over none; its embedding and output layer have these matrices.

    `dropout_words` is that of its own words where the key of the table drops those of an encoder of texts.
    """
    layers = range(getattr(config, "decoder_layers", None) or config.layers)
    biased = isinstance(config, TransformerModel) and config.output_bias
    return TransformerDecoder(
        # A translator's key drops words of its source only; a language model reads nothing but its own text.
        _embedding(
            config,
            weight,
            dropout_words=dropout_words if isinstance(config, TransformerModel) else config.dropout_words,
            causal=True,
            ends_V=ends_V,
        ),
        [_decoder_block(config, memory_width, seed=config.layers + 2 * layer) for layer in layers],
        final_norm(config),
        Output(output, nn.Parameter(torch.zeros(output.shape[0])) if biased else None),
    )


def _embedding(
    config: TransformerStack,
    weight: nn.Parameter,
    segments: nn.Parameter | None = None,
    dropout_words: float = 0.0,
    causal: bool = False,
    ends_V: Bool[Tensor, "V"] | None = None,
) -> Embedding:
    share = 1 if ends_V is None else 2  # of the width, for the positions of tokens
    dropout = config.dropout if config.dropout_embedding is None else config.dropout_embedding
    build = ADDED.get(config.positions)
    positions = None if build is None else build(config.width // share, config.max_positions)
    more = [make_table(*weight.shape) for _ in range(config.embeddings - 1)]
    norm = build_norm(config) if config.embedding_norm else None
    words_width = config.width if positions is None else config.width // 2
    words = None if ends_V is None else WordPositions(ends_V, words_width, counts_itself=causal)
    return make_embedding(
        [weight, *more],
        positions,
        dropout,
        scaled=config.embedding_scale,
        words=words,
        segments=segments,
        norm=norm,
        dropout_words=dropout_words,
        keeps_first=causal and positions is None and words is None,
    )


def _encoder_block(config: TransformerBlocks, layer: int) -> EncoderBlock:
    attention = _encoder_layer(config, layer)
    scales = encoder_scales(config)
    return EncoderBlock(
        attention, _network(config), (_residual(config, scales), _residual(config, scales)), config.dropout_layers
    )


def _decoder_block(config: TransformerBlocks, memory_width: int | None, seed: int) -> DecoderBlock:
    attention = _self_attention(config, causal=True, seed=seed)
    cross = None if memory_width is None else _cross_attention(config, memory_width, seed=seed + 1)
    scales = decoder_scales(config)
    residuals = [_residual(config, scales) for _ in range(2 if cross is None else 3)]
    return DecoderBlock(attention, cross, _network(config), residuals, config.dropout_layers)


def _encoder_layer(config: TransformerBlocks, layer: int) -> SelfAttention | Convolution | SeparableConvolution:
    """Make what connects the tokens of a source in a layer."""
    if not isinstance(config, TransformerModel) or config.encoder_layer == "attention":
        return _self_attention(config, causal=False, seed=layer)
    kind = Convolution if config.encoder_layer == "convolution" else SeparableConvolution
    return kind(config.width, config.kernel, config.bias, config.dilation**layer)


# --- attention --------------------------------------------------------------------------------------------------------

_BACKENDS: Final[Mapping[str, Backend]] = {"auto": automatic, "fused": automatic, "explicit": explicit}


def _self_backend(config: TransformerBlocks) -> Backend:
    """Return the backend of self-attention; only that can be restricted to a radius."""
    radius = config.attention_radius if isinstance(config, TransformerStack) else None
    if radius is None:
        return _BACKENDS[config.backend]
    return Restricted(radius, as_written=config.backend == "explicit")


def _self_attention(model: TransformerBlocks, causal: bool, seed: int) -> SelfAttention:
    config = model.at("decoder" if causal else "encoder")
    width, heads, dropout, scheme = config.width, config.heads, config.dropout_attention, _scheme(config)
    parts = _projections(config)
    if config.plain:
        return SelfAttention(width, heads, causal, dropout, _self_backend(config), scheme, **parts)
    return AlignedSelfAttention(width, heads, _head_attention(config, seed), causal, dropout, scheme, **parts)


def _cross_attention(model: TransformerBlocks, memory_width: int, seed: int) -> CrossAttention:
    config = model.at("cross")
    width, heads, dropout = config.width, config.heads, config.dropout_attention
    parts = _projections(config)
    if config.plain:
        return CrossAttention(width, heads, dropout, memory_width, _BACKENDS[config.backend], **parts)
    return AlignedCrossAttention(width, heads, _head_attention(config, seed), dropout, memory_width, **parts)


def _projections(config: TransformerBlocks) -> Projections:
    return {
        "key_value_heads": config.key_value_heads,
        "key_width": config.key_width,
        "value_width": config.value_width,
        "bias": config.bias,
        "projection_bias": config.projection_bias,
    }


def _head_attention(config: TransformerBlocks, seed: int) -> HeadAttention:
    width, heads = config.head_widths[0], config.heads
    alignment = build_alignment(config, config.alignment, width, width, heads, seed)
    if isinstance(alignment, Kernel):
        return LinearHeadAttention(alignment)
    return HeadAttention(alignment, build_distribution(config, width, heads), build_distance(config))


def _scheme(config: TransformerBlocks) -> PositionScheme:
    if not isinstance(config, TransformerStack) or config.positions not in SCHEMES:
        return PositionScheme()  # positions are added to embeddings or patches
    return SCHEMES[config.positions](config)


def _network(config: TransformerBlocks) -> nn.Module:
    match config.activation:
        case "swiglu":
            return SwiGLU(config.width, config.inner, config.dropout_inner)
        case activation:
            return FeedForward(config.width, config.inner, activation, config.dropout_inner, config.bias)


def _residual(config: TransformerBlocks, scales: Scales) -> Residual:
    match config.norm:
        case "post" | "deepnorm":
            return Residual(nn.Identity(), build_norm(config), config.dropout, scales.skip, gain=scales.gain)
        case "pre":
            return Residual(build_norm(config), nn.Identity(), config.dropout)
        case "rezero" | "tfixup":
            learned = config.norm == "rezero"
            return Residual(nn.Identity(), nn.Identity(), config.dropout, learned=learned, gain=scales.gain)
        case _:
            assert_never(config.norm)


def final_norm(config: TransformerBlocks) -> nn.Module:
    """Make the norm after the last block, or nothing where its output is normalised already."""
    wanted = config.norm == "pre" if config.final_norm is None else config.final_norm
    return build_norm(config) if wanted else nn.Identity()


def build_norm(config: TransformerBlocks) -> nn.Module:
    """Make a norm of the model's states."""
    match config.norm_kind:
        case "layer":
            return LayerNorm(config.width, eps=config.norm_epsilon, bias=config.bias)
        case "rms":
            return RMSNorm(config.width, eps=config.norm_epsilon)
        case _:
            assert_never(config.norm_kind)
