"""Networks as arrays of CTranslate2, by the names that it gives them."""

from collections.abc import Iterator
from typing import Final, cast

import torch
from torch import Tensor, nn

from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.attention.heads import Heads
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.attention.relative_positions import PositionScheme, RelativeVectors, Rotary
from heedful.nn.layers.embedding import Embedding, MixedEmbedding
from heedful.nn.layers.feedforward import FeedForward, SwiGLU
from heedful.nn.layers.linear import LayerNorm, Linear, RMSNorm
from heedful.nn.layers.positions import Learned
from heedful.nn.layers.residual import Residual

LONGEST: Final = 1024  # positions of tables of sinusoids, which have no limit of their own
_ACTIVATIONS: Final = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3}  # the numbers of CTranslate2
_CONCATENATE: Final = 0  # how it joins several embeddings of a token, of which there is one here

Arrays = Iterator[tuple[str, Tensor]]


def arrays_of(network: nn.Module) -> dict[str, Tensor]:
    """Return the arrays of a translator or a language model."""
    match network:
        case EncoderDecoder(encoder=TransformerEncoder() as encoder, decoder=TransformerDecoder() as decoder):
            return dict([*_under("encoder", _encoder(encoder)), *_under("decoder", _decoder(decoder))])
        case LanguageModel(decoder=TransformerDecoder() as decoder):
            return dict(_under("decoder", _decoder(decoder)))
        case _:
            raise ValueError(f"{type(network).__name__} is refused before")


def epsilon_of(network: nn.Module) -> float:
    """Return the epsilon of all norms."""
    return next(float(norm.eps or 0.0) for norm in network.modules() if isinstance(norm, LayerNorm | RMSNorm))


def longest_of(network: nn.Module) -> int:
    """Return the maximum number of tokens of a text, its markers included."""
    learned = [module.limit for module in network.modules() if isinstance(module, Learned)]
    return min([*learned, LONGEST]) if learned else LONGEST


def _encoder(encoder: TransformerEncoder) -> Arrays:
    blocks = [cast(EncoderBlock, block) for block in encoder.blocks]
    yield from _settings(blocks)
    yield "embeddings_merge", _number(_CONCATENATE, torch.int8)
    yield from _embedding(encoder.embedding, cast(SelfAttention, blocks[0].attention), "embeddings_0")
    for number, block in enumerate(blocks):
        yield from _under(f"layer_{number}/self_attention", _self_attention(cast(SelfAttention, block.attention)))
        yield from _under(f"layer_{number}/self_attention/layer_norm", _norm(block.around_attention))
        yield from _network(f"layer_{number}/ffn", block.network, block.around_network)
    yield from _final(encoder.final)


def _decoder(decoder: TransformerDecoder) -> Arrays:
    blocks = [cast(DecoderBlock, block) for block in decoder.blocks]
    yield from _settings(blocks)
    yield "alignment_layer", _number(-1, torch.int16)
    yield "alignment_heads", _number(1, torch.int16)
    yield from _embedding(decoder.embedding, blocks[0].attention, "embeddings")
    for number, block in enumerate(blocks):
        yield from _under(f"layer_{number}/self_attention", _self_attention(block.attention))
        yield from _under(f"layer_{number}/self_attention/layer_norm", _norm(block.around_attention))
        if block.cross is not None and block.around_cross is not None:
            yield from _under(f"layer_{number}/attention", _cross_attention(block.cross))
            yield from _under(f"layer_{number}/attention/layer_norm", _norm(block.around_cross))
        yield from _network(f"layer_{number}/ffn", block.network, block.around_network)
    yield from _final(decoder.final)
    yield "projection/weight", decoder.output.weight
    if decoder.output.bias is not None:
        yield "projection/bias", decoder.output.bias


def _settings(blocks: list[EncoderBlock] | list[DecoderBlock]) -> Arrays:
    first = blocks[0]
    name = "silu" if isinstance(first.network, SwiGLU) else cast(FeedForward, first.network).name
    yield "num_heads", _number(cast(SelfAttention, first.attention).heads, torch.int16)
    yield "pre_norm", _number(not isinstance(first.around_network.before, nn.Identity), torch.int8)
    yield "activation", _number(_ACTIVATIONS[name], torch.int8)


def _embedding(embedding: Embedding, attention: SelfAttention, name: str) -> Arrays:
    size, width = embedding.weight.shape
    mixed = isinstance(embedding, MixedEmbedding)  # a mix depends on the token alone
    yield f"{name}/weight", embedding.rows(torch.arange(size)) if mixed else embedding.weight
    yield "scale_embeddings", _number(embedding.scale != 1, torch.int8)
    positions = embedding.positions
    if positions is not None:
        limit = positions.limit if isinstance(positions, Learned) else LONGEST
        yield "position_encodings/encodings", positions(torch.arange(limit), limit)
    elif type(attention.positions) is PositionScheme:  # without a table, CTranslate2 would add sinusoids
        yield "position_encodings/encodings", torch.zeros(LONGEST, width)
    if not isinstance(embedding.norm, nn.Identity):
        yield from _under("layernorm_embedding", _weights_of_norm(embedding.norm))


def _self_attention(attention: SelfAttention) -> Arrays:
    """Queries, keys and values are in one matrix on both sides, in this order."""
    yield from _linear("linear_0", attention.project)
    yield from _linear("linear_1", attention.output)
    yield from _heads(attention.shape)
    match attention.positions:
        case Rotary(waves=waves):
            yield "rotary_dim", _number(0, torch.int32)  # all columns
            yield "rotary_interleave", _number(1, torch.int8)  # columns 2c and 2c + 1 are a plane
            yield "rotary_base", torch.tensor(waves.base, dtype=torch.float32)
        case RelativeVectors(keys=keys, values=values):
            yield "relative_position_keys", keys
            yield "relative_position_values", values
        case _:
            pass


def _cross_attention(cross: CrossAttention) -> Arrays:
    yield from _linear("linear_0", cross.project_query)
    yield from _linear("linear_1", cross.project_memory, cross.shape)
    yield from _linear("linear_2", cross.output)
    yield from _heads(Heads(cross.shape.heads, cross.shape.heads, cross.shape.key_width, cross.shape.value_width))


def _heads(shape: Heads) -> Arrays:
    yield "head_dim", _number(shape.key_width, torch.int32)
    if shape.groups != shape.heads:
        yield "num_heads_kv", _number(shape.groups, torch.int32)


def _network(name: str, network: nn.Module, around: Residual) -> Arrays:
    yield from _under(f"{name}/layer_norm", _norm(around))
    match network:
        case SwiGLU(into=into, out=out):
            gate, value = into.weight.chunk(2)
            yield f"{name}/linear_0/weight", gate
            yield f"{name}/linear_0_noact/weight", value
            yield from _linear(f"{name}/linear_1", out)
        case FeedForward(into=into, out=out):
            yield from _linear(f"{name}/linear_0", into)
            yield from _linear(f"{name}/linear_1", out)
        case _:
            raise ValueError(f"{type(network).__name__} is refused before")


def _linear(name: str, linear: Linear, shared: Heads | None = None) -> Arrays:
    """Yield a linear map; rows of keys and values that several heads share are repeated for each of them."""
    for kind, tensor in (("weight", linear.weight), ("bias", cast(Tensor | None, linear.bias))):
        if tensor is not None:
            yield f"{name}/{kind}", tensor if shared is None else _repeated(tensor, shared)


def _repeated(rows: Tensor, shape: Heads) -> Tensor:
    if shape.groups == shape.heads:
        return rows
    by_group = rows.unflatten(0, (2, shape.groups, shape.key_width))
    return by_group.repeat_interleave(shape.heads // shape.groups, dim=1).flatten(0, 2)


def _norm(around: Residual) -> Arrays:
    return _weights_of_norm(around.after if isinstance(around.before, nn.Identity) else around.before)


def _final(norm: nn.Module) -> Arrays:
    if not isinstance(norm, nn.Identity):
        yield from _under("layer_norm", _weights_of_norm(norm))


def _weights_of_norm(norm: nn.Module) -> Arrays:
    """Yield the weights of a norm: one of the root mean square has no `beta`."""
    assert isinstance(norm, LayerNorm | RMSNorm)
    yield "gamma", norm.weight
    if isinstance(norm, LayerNorm):
        bias = cast(Tensor | None, norm.bias)
        yield "beta", torch.zeros_like(norm.weight) if bias is None else bias


def _under(scope: str, arrays: Arrays) -> Arrays:
    return ((f"{scope}/{name}", array) for name, array in arrays)


def _number(value: float, kind: torch.dtype) -> Tensor:
    return torch.tensor(value, dtype=kind)
