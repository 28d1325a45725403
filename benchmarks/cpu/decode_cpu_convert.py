"""Writes Transformers of ours as models of CTranslate2 and of transformers: the same weights, so the same function.

What has no counterpart there is refused. Pieces are the words of a vocabulary of numbers: piece 17 is called "17".
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from benchmarks.cpu.decode_cpu_peers import NAMED
from torch import Tensor, nn

from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.linear import LayerNorm, Linear
from heedful.nn.layers.positions import Learned
from heedful.nn.layers.residual import Residual
from heedful.tasks.translate.lexicon import Lexicon

MOST_POSITIONS = 1024  # of sinusoidal positions, which have no limit of their own
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}


def write_translator(
    network: EncoderDecoder, folder: Path, quantization: str | None, lexicon: Lexicon | None = None
) -> None:
    """Write a translator as a model of CTranslate2; `quantization` is "int8" or None, a lexicon its vocabulary map."""
    from ctranslate2.specs import common_spec, transformer_spec

    encoder, decoder = network.encoder, network.decoder
    if not (isinstance(encoder, TransformerEncoder) and isinstance(decoder, TransformerDecoder)):
        raise ValueError("only Transformers are converted")
    own = [cast(EncoderBlock, block) for block in encoder.blocks]
    other = [cast(DecoderBlock, block) for block in decoder.blocks]
    attention = cast(SelfAttention, own[0].attention)
    activation = getattr(common_spec.Activation, _ACTIVATIONS[_network(own[0].network).name])
    pre = _is_pre_norm(own[0].around_network)
    spec = transformer_spec.TransformerSpec.from_config(
        (len(own), len(other)), attention.heads, pre_norm=pre, activation=activation
    )
    _put_embedding(encoder.embedding, spec.encoder, spec.encoder.embeddings[0])
    for block, target in zip(own, spec.encoder.layer, strict=True):
        _put_self_attention(block.attention, block.around_attention, target.self_attention)
        _put_network(block.network, block.around_network, target.ffn)
    _put_final(encoder.final, spec.encoder, pre)
    _put_decoder(decoder, other, spec.decoder, pre)
    spec.config.layer_norm_epsilon = _norm(own[0].around_network).eps
    spec.register_source_vocabulary(_pieces(len(encoder.embedding.weight)))
    spec.register_target_vocabulary(_pieces(len(decoder.embedding.weight)))
    with TemporaryDirectory() as place:
        if lexicon is not None:
            path = Path(place) / "map.txt"
            path.write_text("".join(f"{line}\n" for line in _map_of(lexicon)), encoding="utf-8")
            spec.register_vocabulary_mapping(str(path))
        _save(spec, folder, quantization)


def write_language_model(network: LanguageModel, folder: Path, quantization: str | None) -> None:
    """Write a language model as a model of CTranslate2."""
    from ctranslate2.specs import common_spec, transformer_spec

    decoder = network.decoder
    if not isinstance(decoder, TransformerDecoder):
        raise ValueError("only Transformers are converted")
    blocks = [cast(DecoderBlock, block) for block in decoder.blocks]
    activation = getattr(common_spec.Activation, _ACTIVATIONS[_network(blocks[0].network).name])
    pre = _is_pre_norm(blocks[0].around_network)
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        len(blocks), blocks[0].attention.heads, pre_norm=pre, activation=activation
    )
    _put_decoder(decoder, blocks, spec.decoder, pre)
    spec.config.layer_norm_epsilon = _norm(blocks[0].around_network).eps
    spec.register_vocabulary(_pieces(len(decoder.embedding.weight)))
    _save(spec, folder, quantization)


def put_gpt2(network: LanguageModel, model: nn.Module) -> None:
    """Put the weights of a language model into a GPT2LMHeadModel of the same shape."""
    decoder = network.decoder
    assert isinstance(decoder, TransformerDecoder)
    positions = decoder.embedding.positions
    assert isinstance(positions, Learned)
    transformer: Any = model.get_submodule("transformer")
    pairs: list[tuple[nn.Module, nn.Module]] = [(decoder.final, transformer.ln_f)]
    for ours, theirs in zip(decoder.blocks, transformer.h, strict=True):
        block = cast(DecoderBlock, ours)
        network_of = _network(block.network)
        pairs += [
            (block.around_attention.before, theirs.ln_1),
            (block.attention.project, theirs.attn.c_attn),
            (block.attention.output, theirs.attn.c_proj),
            (block.around_network.before, theirs.ln_2),
            (network_of.into, theirs.mlp.c_fc),
            (network_of.out, theirs.mlp.c_proj),
        ]
    with torch.no_grad():
        transformer.wte.weight.copy_(decoder.embedding.weight)
        transformer.wpe.weight.copy_(positions.weight)
        for source, target in pairs:
            weight = cast(Tensor, source.weight)
            cast(Tensor, target.weight).copy_(weight.T if isinstance(source, Linear) else weight)
            cast(Tensor, target.bias).copy_(cast(Tensor, source.bias))


# --- parts ------------------------------------------------------------------------------------------------------------


def _put_decoder(decoder: TransformerDecoder, blocks: Sequence[DecoderBlock], target: Any, pre: bool) -> None:
    _put_embedding(decoder.embedding, target, target.embeddings)
    for block, layer in zip(blocks, target.layer, strict=True):
        _put_self_attention(block.attention, block.around_attention, layer.self_attention)
        if block.cross is not None and block.around_cross is not None:
            _put_cross_attention(block.cross, block.around_cross, layer.attention)
        _put_network(block.network, block.around_network, layer.ffn)
    _put_final(decoder.final, target, pre)
    target.projection.weight = _array(decoder.output.weight)
    if decoder.output.bias is not None:
        target.projection.bias = _array(decoder.output.bias)


def _put_embedding(embedding: Embedding, target: Any, table: Any) -> None:
    if type(embedding) is not Embedding or embedding.positions is None or embedding.words is not None:
        raise ValueError("only embeddings with positions that are added to them are converted")
    if embedding.segments is not None or not isinstance(embedding.norm, nn.Identity):
        raise ValueError("embeddings with segments or a norm are not converted")
    limit = embedding.positions.limit if isinstance(embedding.positions, Learned) else MOST_POSITIONS
    table.weight = _array(embedding.weight)
    target.scale_embeddings = embedding.scale != 1
    target.position_encodings.encodings = _array(embedding.positions(torch.arange(limit), limit))


def _put_self_attention(attention: nn.Module, around: Residual, target: Any) -> None:
    """Queries, keys and values are in one matrix on both sides, in this order."""
    if not isinstance(attention, SelfAttention) or attention.shape.groups != attention.heads:
        raise ValueError("only attention with keys of its own in every head is converted")
    if type(attention.positions).__name__ != "PositionScheme" or attention.radius is not None:
        raise ValueError("only attention that neither knows positions nor has a radius is converted")
    _put_linear(attention.project, target.linear[0])
    _put_linear(attention.output, target.linear[1])
    _put_norm(_norm(around), target.layer_norm)


def _put_cross_attention(cross: CrossAttention, around: Residual, target: Any) -> None:
    for source, linear in zip((cross.project_query, cross.project_memory, cross.output), target.linear, strict=True):
        _put_linear(source, linear)
    _put_norm(_norm(around), target.layer_norm)


def _put_network(network: nn.Module, around: Residual, target: Any) -> None:
    _put_linear(_network(network).into, target.linear_0)
    _put_linear(_network(network).out, target.linear_1)
    _put_norm(_norm(around), target.layer_norm)


def _put_final(final: nn.Module, target: Any, pre: bool) -> None:
    if isinstance(final, LayerNorm) != pre:
        raise ValueError("a final norm belongs to norms before sublayers")
    if isinstance(final, LayerNorm):
        _put_norm(final, target.layer_norm)


def _put_linear(linear: Linear, target: Any) -> None:
    target.weight = _array(linear.weight)
    if linear.bias is not None:
        target.bias = _array(linear.bias)


def _put_norm(norm: LayerNorm, target: Any) -> None:
    target.gamma = _array(norm.weight)
    target.beta = _array(torch.zeros_like(norm.weight) if norm.bias is None else norm.bias)


def _is_pre_norm(around: Residual) -> bool:
    return isinstance(around.before, LayerNorm)


def _norm(around: Residual) -> LayerNorm:
    if around.skip != 1 or around.weight is not None:
        raise ValueError("only sublayers whose sums are not weighted are converted")
    norms = [norm for norm in (around.before, around.after) if isinstance(norm, LayerNorm)]
    if len(norms) != 1:
        raise ValueError("only sublayers with one layer norm are converted")
    return norms[0]


def _network(network: nn.Module) -> FeedForward:
    if type(network) is not FeedForward:
        raise ValueError("only networks without gates are converted")
    return network


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()


def _pieces(size: int) -> list[str]:
    """The names of pieces: numbers, but for those that CTranslate2 must know."""
    return [NAMED.get(number, str(number)) for number in range(size)]


def _map_of(lexicon: Lexicon) -> Iterator[str]:
    """The lines of a vocabulary map: a source piece and its target pieces; without one, those of every sentence."""
    pieces = _pieces(1 + max(int(lexicon.tokens.max(initial=0)), int(lexicon.frequent.max(initial=0))))
    yield "\t" + " ".join(pieces[token] for token in lexicon.frequent)
    for source, piece in enumerate(_pieces(len(lexicon.ends))):
        if len(lexicon.of(source)):
            yield f"{piece}\t" + " ".join(pieces[token] for token in lexicon.of(source))


def _save(spec: Any, folder: Path, quantization: str | None) -> None:
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True)
    spec.save(str(folder))
