"""The Transformer as a whole: its sublayers, what it shares, and what each output depends on."""

from typing import Final, cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.convolutions.centred import Convolution, SeparableConvolution
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.linear import LayerNorm
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.layers.residual import Residual
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.texts.checks.by_hand import written_norm
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_WIDTH, _VOCABULARY = 8, 9
_SOURCE, _TARGET = (4, 5, 6, 7, 2), (1, 7, 5, 8)
_BASE: Final = TransformerModel.model_validate({"family": "transformer", "preset": "base"})


def _small(**changes: object) -> EncoderDecoder:
    table = {"family": "transformer", "width": _WIDTH, "heads": 2, "layers": 2, "inner": 12, **changes}
    model = randomize(build_model(TransformerModel.model_validate(table), _VOCABULARY, _VOCABULARY))
    set_precision(model, torch.float64)
    return cast(EncoderDecoder, model)


def _of_base() -> EncoderDecoder:
    """Return the published base model without values."""
    with torch.device("meta"):
        return build_model(_BASE, 37_000, 37_000)


def _kinds(model: nn.Module, *kinds: type[nn.Module]) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, kinds)]


# --- what it is made of -----------------------------------------------------------------------------------------------


def attention_alone() -> Computed:
    """Numbers of recurrent layers and of convolutions in the base model: none"""
    model = _of_base()
    recurrent = _kinds(model, RecurrentStack, nn.RNNBase, nn.RNNCellBase)
    return Computed([0, 0], [len(recurrent), len(_kinds(model, Convolution, SeparableConvolution, nn.Conv1d))])


def base_sizes() -> Computed:
    """N = 6 and 6 layers, d_model = 512, h = 8, d_k = d_v = 64, d_ff = 2048, as in the matrices of the built model"""
    model = _of_base()
    blocks, attention = _kinds(model, EncoderBlock, DecoderBlock), cast(SelfAttention, _kinds(model, SelfAttention)[0])
    network, embedding = cast(FeedForward, _kinds(model, FeedForward)[0]), cast(Embedding, _kinds(model, Embedding)[0])
    encoders = sum(isinstance(block, EncoderBlock) for block in blocks)
    head = attention.shape
    sizes = [encoders, len(blocks) - encoders, embedding.weight.shape[1], attention.heads]
    return Computed(
        [6, 6, 512, 8, 64, 64, 2048], [*sizes, head.key_width, head.value_width, network.into.weight.shape[0]]
    )


def projection_sizes() -> Computed:
    """W_i^Q, W_i^K: d_model x d_k; W_i^V: d_model x d_v; W^O: h d_v x d_model, with h = 8 and d_model = 512"""
    attention = cast(SelfAttention, _kinds(_of_base(), SelfAttention)[0])
    heads = [(rows // 8, attention.project.weight.shape[1]) for rows in attention.rows]
    ours = [size for rows, columns in heads for size in (columns, rows)] + [*reversed(attention.output.weight.shape)]
    return Computed([512, 64, 512, 64, 512, 64, 8 * 64, 512], ours)


def sublayers_in_order() -> Computed:
    """Encoder: attention, norm, network, norm; decoder: attention, norm, cross-attention, norm, network, norm

    Each sublayer is recorded when it runs: 1 self-attention, 2 attention over the encoder, 3 network, 4 sum and norm.
    """
    with drawn():
        model, order = _small(layers=1), list[int]()
        kinds = ((SelfAttention, 1), (CrossAttention, 2), (FeedForward, 3), (LayerNorm, 4))
        for module in model.modules():
            for kind, number in kinds:
                if isinstance(module, kind):
                    module.register_forward_hook(lambda *_, number=number: order.append(number))
        model(Packed.of([_SOURCE]), Packed.of([_TARGET]))
        return Computed([1, 4, 3, 4, 1, 4, 2, 4, 3, 4], order)


def output_of_the_layer_below() -> Computed:
    """What goes into the second encoder: R, the output of the first; into the first go the embeddings X"""
    with drawn():
        model, given, made = _small(), list[Tensor](), list[Tensor]()
        for block in _kinds(model, EncoderBlock):
            block.register_forward_pre_hook(lambda _, x: given.append(x[0].detach()))
            block.register_forward_hook(lambda _, x, y: made.append(y.detach()))
        source = Packed.of([_SOURCE])
        model.encoder(source)
        x = cast(Embedding, _kinds(model, Embedding)[0])(source.values, source.layout).detach()
        return Computed(torch.cat([x, made[0]]), torch.cat(given))


def layers_of_equal_form() -> Computed:
    """The six encoders have weights of the same shapes, and no weight is shared between them"""
    blocks = _kinds(_of_base(), EncoderBlock)
    shapes = {tuple(tuple(weight.shape) for weight in block.parameters()) for block in blocks}
    weights = [id(weight) for block in blocks for weight in block.parameters()]
    each = sum(1 for _ in blocks[0].parameters())
    return Computed([6, 1, 6 * each], [len(blocks), len(shapes), len(set(weights))])


def networks_of_layers() -> Computed:
    """A position-wise network is the same for all positions, in any order, and each of 12 layers has its own"""
    with drawn():
        model, order = _small(), torch.tensor([2, 0, 1])
        network, x = _kinds(model, FeedForward)[0], numbers(3, _WIDTH)
        own = {id(cast(FeedForward, one).into.weight) for one in _kinds(_of_base(), FeedForward)}
        text = torch.stack([network(x[[place]])[0] for place in order.tolist()])
        return Computed([*text.flatten().tolist(), 12], [*network(x[order]).flatten().tolist(), len(own)])


def sizes_of_networks() -> Computed:
    """Networks of the base model: one in each of 12 layers, all with 512 inputs, d_ff = 2048 and 512 outputs"""
    networks = [cast(FeedForward, one) for one in _kinds(_of_base(), FeedForward)]
    sizes = [(*network.into.weight.T.shape, network.out.weight.shape[0]) for network in networks]
    return Computed([12, 12], [len(networks), sizes.count((512, 2048, 512))])


def shared_matrix() -> Computed:
    """One matrix for both embeddings and for the linear map before the softmax"""
    model = _of_base()
    used = [cast(Embedding | Output, module).weight for module in _kinds(model, Embedding, Output)]
    return Computed([3, 1], [len(used), len({id(weight) for weight in used})])


def output_softmax() -> Computed:
    """P(next token) = softmax(W decoder(encoder(x))), W the matrix of the embeddings"""
    return _probabilities(bias=False)


def output_with_bias() -> Computed:
    """p = softmax(W decoder(encoder(x)) + b): `output_bias = true`"""
    return _probabilities(bias=True)


def _probabilities(bias: bool) -> Computed:
    with drawn():
        model = _small(output_bias=bias)
        source, target = Packed.of([_SOURCE]), Packed.of([_TARGET])
        output = model.output
        scores = model.decoder.states(target, model.encoder(source)) @ output.weight.T
        exps = (scores if output.bias is None else scores + output.bias).exp()
        assert (output.bias is not None) == bias
        return Computed(exps / exps.sum(1, keepdim=True), model(source, target).softmax(-1))


def decoder_sublayers() -> Computed:
    """LayerNorm(x + Sublayer(x)) around each of the three sublayers of a decoder"""
    with drawn():
        attention, cross = SelfAttention(_WIDTH, 2, causal=True), CrossAttention(_WIDTH, 2)
        network, residuals = FeedForward(_WIDTH, 12), [Residual(nn.Identity(), LayerNorm(_WIDTH), 0.0) for _ in "123"]
        block = cast(DecoderBlock, randomize(DecoderBlock(attention, cross, network, residuals)))
        x, layout = numbers(3, _WIDTH), Layout.of([3])
        memory = Packed(numbers(2, _WIDTH), Layout.of([2]))
        y = written_norm(x + attention(x, layout), residuals[0].after)
        y = written_norm(y + cross(y, layout, memory.values, memory.layout), residuals[1].after)
        return Computed(written_norm(y + network(y), residuals[2].after), block(x, layout, memory))


def residual_dropout() -> Computed:
    """Dropout on the output of a sublayer, before it is added to the input and normalised, and on x sqrt(d) + PE"""
    with drawn():
        residual = Residual(nn.Identity(), LayerNorm(_WIDTH), 0.1)
        network = cast(FeedForward, randomize(FeedForward(_WIDTH, 12)))
        embedding = Embedding(nn.Parameter(torch.randn(5, _WIDTH)), Sinusoidal(_WIDTH), 0.1)
        randomize(residual)
        residual.train()
        embedding.train()
        x, packed = numbers(40, _WIDTH), Packed.of([[3, 0, 4]])
        torch.manual_seed(3)
        text = [written_norm(x + residual.drop(network(x)), residual.after)]
        text.append(embedding.drop(embedding.weight[[3, 0, 4]] * _WIDTH**0.5 + Sinusoidal(_WIDTH).table[:3]))
        torch.manual_seed(3)
        ours = [residual(x, network), embedding(packed.values, packed.layout)]
        return Computed(torch.cat([part.double() for part in text]), torch.cat([part.double() for part in ours]))


def free_of_parameters() -> Computed:
    """Number of learned weights of the positions of the base model"""
    positions = _kinds(_of_base(), Sinusoidal)
    return Computed([0], [sum(weight.numel() for module in positions for weight in module.parameters())])


# --- from sequences to sequences --------------------------------------------------------------------------------------


def one_vector_per_symbol() -> Computed:
    """The encoder maps x_1 .. x_n to z_1 .. z_n: sentences of 1, 3 and 5 symbols"""
    with drawn():
        model, lengths = _small(), (1, 3, 5)
        memory = model.encoder(Packed.of([_SOURCE[:length] for length in lengths]))
        return Computed(lengths, memory.layout.lengths.tolist())


def longest_of_a_batch() -> Computed:
    """Vectors of sentences of 1, 3 and 5 words in one batch: as the longest has in the text; as each has words"""
    with drawn():
        memory = _small().encoder(Packed.of([_SOURCE[:length] for length in (1, 3, 5)]))
        return Computed([5, 5, 5], [len(vectors) for vectors in memory.split()])


def one_symbol_at_a_time() -> Computed:
    """P(y_t | y_1 .. y_(t-1), z): each prefix read anew, and step by step, consuming the symbol before"""
    with drawn():
        model = _small()
        memory = model.encoder(Packed.of([_SOURCE]))
        text = [model.decoder(Packed.of([_TARGET[: end + 1]]), memory)[-1] for end in range(len(_TARGET))]
        rows, ours = model.decoder.start(memory), []
        for token in _TARGET:
            scores, rows = model.decoder.step(torch.tensor([token]), rows)
            ours.append(scores[0])
        return Computed(torch.stack(text), torch.stack(ours))


def every_position_at_once() -> Computed:
    """What one forward pass gives for all target positions, position by position in passes of their own"""
    with drawn():
        model = _small()
        source = Packed.of([_SOURCE])
        text = [model(source, Packed.of([_TARGET[: end + 1]]))[-1] for end in range(len(_TARGET))]
        return Computed(torch.stack(text), model(source, Packed.of([_TARGET])))


def parallel_flow() -> Computed:
    """Each position flows through the network of an encoder by itself: one by one, and all at once"""
    with drawn():
        network, x = _kinds(_small(), FeedForward)[0], numbers(4, _WIDTH)
        return Computed(torch.cat([network(row[None]) for row in x]), network(x))


def _seen(module: SelfAttention, length: int) -> list[int]:
    """Return how many inputs each output of a layer depends on."""
    x = numbers(length, _WIDTH)
    jacobian = torch.autograd.functional.jacobian(lambda y: module(y, Layout.of([length])), x)
    return cast(list[int], (jacobian.abs().sum(dim=(1, 3)) > 0).sum(1).tolist())


def every_position_in_one_layer() -> Computed:
    """Each of 6 outputs of one self-attention layer of the encoder depends on all 6 inputs"""
    with drawn():
        return Computed([6] * 6, _seen(cast(SelfAttention, randomize(SelfAttention(_WIDTH, 2))), 6))


def up_to_its_own_position() -> Computed:
    """Output i of a self-attention layer of the decoder depends on inputs 1 to i"""
    with drawn():
        layer = cast(SelfAttention, randomize(SelfAttention(_WIDTH, 2, causal=True)))
        return Computed([1, 2, 3, 4, 5, 6], _seen(layer, 6))


def any_distance() -> Computed:
    """What a query reads from a key is the same at a distance of 1, 10 and 50"""
    with drawn():
        layer = cast(CrossAttention, randomize(CrossAttention(_WIDTH, 2)))
        x, others = numbers(1, _WIDTH), numbers(51, _WIDTH)
        key, places = numbers(1, _WIDTH), (1, 10, 50)
        read = [
            layer(x, Layout.of([1]), torch.cat([others[:place], key, others[place:]]), Layout.of([52]))
            for place in places
        ]
        return Computed(read[0].repeat(3, 1), torch.cat(read))


def self_attention_of_one_sequence() -> Computed:
    """Self-attention: queries, keys and values of the same sequence, here by attention over another that is the same"""
    with drawn():
        own, cross = SelfAttention(_WIDTH, 2), CrossAttention(_WIDTH, 2)
        randomize(own)
        with torch.no_grad():
            for name in ("weight", "bias"):
                parts = getattr(own.project, name).split([_WIDTH, 2 * _WIDTH])
                for linear, part in zip((cross.project_query, cross.project_memory), parts, strict=True):
                    setattr(linear, name, nn.Parameter(part.clone()))
            cross.output = own.output
        x, layout = numbers(4, _WIDTH), Layout.of([4])
        return Computed(cross(x, layout, x, layout), own(x, layout))
