"""The Transformer: sections 2.2 to 2.2.3. Its heads are checked without biases, as the text prints them."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.transformer import TransformerModel
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.query import Query
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.transformer.blocks import DecoderBlock
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.initialization import init_xavier
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.linear import LayerNorm
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.layers.residual import Residual
from heedful.texts.checks.by_hand import written_norm
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_TOKENS, _WIDTH, _HEADS = 3, 4, 2
_LAYOUT = Layout.of([_TOKENS])


def _attention() -> tuple[SelfAttention, Tensor]:
    return cast(SelfAttention, randomize(SelfAttention(_WIDTH, _HEADS, bias=False))), numbers(_TOKENS, _WIDTH)


def _projected(module: SelfAttention, x: Tensor) -> list[list[Tensor]]:
    """Return Q_i, K_i and V_i of every head, by products with the matrices of the head."""
    width = _WIDTH // _HEADS
    return [
        [x @ weight.detach()[head * width : (head + 1) * width].T for weight in module.project.weight.chunk(3)]
        for head in range(_HEADS)
    ]


def _head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax(Q K^T / sqrt(d_k)) V by loops over queries."""
    rows = []
    for one in q:
        exps = [math.exp(float(one @ key) / math.sqrt(q.shape[1])) for key in k]
        rows.append(sum((exp / sum(exps) * value for exp, value in zip(exps, v, strict=True)), torch.zeros_like(v[0])))
    return torch.stack(rows)


def projections() -> Computed:
    """Q_i = E_Q W_i^Q, K_i = E_K W_i^K, V_i = E_V W_i^V, without biases"""
    with drawn():
        module, x = _attention()
        text = torch.stack([torch.stack(head) for head in _projected(module, x)])  # [head, q k v, token, width]
        ours = torch.stack([part.transpose(0, 1) for part in module.split.split_all(module.project(x))], dim=1)
        return Computed(text, ours)


def one_head() -> Computed:
    """head_i = softmax(Q_i K_i^T / sqrt(d_k)) V_i; Heedful's with the identity as W^O"""
    with drawn():
        module, x = _attention()
        with torch.no_grad():
            module.output.weight.copy_(torch.eye(_WIDTH))
        text = [_head(*head) for head in _projected(module, x)]
        return Computed(torch.cat(text, dim=1), module(x, _LAYOUT))


def joined_heads() -> Computed:
    """mha(Q, K, V) = Concat(head_1 .. head_h) W^O, without biases"""
    with drawn():
        module, x = _attention()
        heads = torch.cat([_head(*head) for head in _projected(module, x)], dim=1)
        return Computed(heads @ module.output.weight.detach().T, module(x, _LAYOUT))


def widths_of_heads() -> Computed:
    """Sizes of E_V, W^V, W_i^V and W^O with 8 heads: E_V has d_v = 64 columns in the text, but W_i^V d_m = 512 rows"""
    with drawn():
        module = SelfAttention(512, 8, bias=False)
    w_v = module.project.weight.chunk(3)[2]
    ours = [module.project.in_features, *w_v.T.shape, w_v.shape[0] // 8, *module.output.weight.T.shape]
    text = [64, 512, 8 * 64, 64, 8 * 64, 512]
    return Computed(text, [float(one) for one in ours], [512, 512, 512, 64, 512, 512])


# --- blocks -----------------------------------------------------------------------------------------------------------


def decoder_as_printed() -> Computed:
    """Norm(MHA(enc, enc, norm_1) + X) in the text, MHA(Q, K, V) by 2.24; Norm(MHA(norm_1, enc, enc) + norm_1)"""
    with drawn():
        attention, cross = (
            SelfAttention(_WIDTH, _HEADS, causal=True, bias=False),
            CrossAttention(_WIDTH, _HEADS, bias=False),
        )
        residuals = tuple(Residual(nn.Identity(), LayerNorm(_WIDTH), 0.0) for _ in range(3))
        network = FeedForward(_WIDTH, 6)
        block = cast(DecoderBlock, randomize(DecoderBlock(attention, cross, network, residuals)))
        x, memory = numbers(_TOKENS, _WIDTH), numbers(_TOKENS, _WIDTH)
        first = written_norm(attention(x, _LAYOUT) + x, residuals[0].after)
        w_q, (w_k, w_v) = cross.project_query.weight.detach(), cross.project_memory.weight.detach().chunk(2)

        def mha(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            width, heads = _WIDTH // _HEADS, []
            for head in range(_HEADS):
                rows = slice(head * width, (head + 1) * width)
                heads.append(_head(q @ w_q[rows].T, k @ w_k[rows].T, v @ w_v[rows].T))
            return torch.cat(heads, dim=1) @ cross.output.weight.detach().T

        def rest(read: Tensor, added: Tensor) -> Tensor:
            second = written_norm(read + added, residuals[1].after)
            return written_norm(network(second) + second, residuals[2].after)

        ours = block(x, _LAYOUT, Packed(memory, _LAYOUT))
        return Computed(rest(mha(memory, memory, first), x), ours, rest(mha(first, memory, memory), first))


def _transformer(vocabulary: int = 5, **options: object) -> EncoderDecoder:
    table = {"width": _WIDTH, "heads": _HEADS, "layers": 2, "inner": 6, **options}
    model = cast(EncoderDecoder, randomize(build_model(TransformerModel.model_validate(table), vocabulary, vocabulary)))
    set_precision(model, torch.float64)
    return model


def stacked_blocks() -> Computed:
    """Z = Encoder_N(.. Encoder_1(X)): blocks on top of each other, each with the output of the one before"""
    with drawn():
        model = _transformer()
        encoder = cast(nn.Module, model.encoder)
        source = Packed.of([[2, 3, 4]])
        z = encoder.embedding(source.values, source.layout)  # type: ignore[operator]
        for block in encoder.blocks:  # type: ignore[union-attr]
            n = written_norm(block.attention(z, _LAYOUT) + z, block.around_attention.after)
            z = written_norm(block.network(n) + n, block.around_network.after)
        return Computed(z, model.encoder(source).values)


# --- training and use -------------------------------------------------------------------------------------------------

_SOURCE, _TARGET = [2, 3, 4], [3, 0, 4]


def all_at_once_and_one_by_one() -> Computed:
    """Scores of all targets at once, from <s> y_1 .. y_(m-1), as in training, and one after the other, as in use"""
    with drawn():
        model = _transformer()
        source = Packed.of([_SOURCE])
        rows, text = model.decoder.start(model.encoder(source)), []
        for token in (1, *_TARGET[:-1]):
            scores, rows = model.decoder.step(torch.tensor([token]), rows)
            text.append(scores[0])
        return Computed(torch.stack(text), model(source, Packed.of([[1, *_TARGET[:-1]]])))


def only_the_output_before() -> Computed:
    """p(y_3) from y_2 alone in the text; the decoder reads y_1 and y_2"""
    with drawn():
        model = _transformer()
        source = Packed.of([_SOURCE])
        alone = model(source, Packed.of([[_TARGET[1]]]))[-1].softmax(-1)
        ours = model(source, Packed.of([[1, *_TARGET[:2]]]))[-1].softmax(-1)
        rows = model.decoder.start(model.encoder(source))
        for token in (1, *_TARGET[:2]):
            scores, rows = model.decoder.step(torch.tensor([token]), rows)
        return Computed(alone, ours, scores[0].softmax(-1))


def one_representation_per_token() -> Computed:
    """Vectors z_1 .. z_n for inputs x_1 .. x_n, of n = 1, 3 and 7"""
    with drawn():
        model = _transformer()
        counts = [len(model.encoder(Packed.of([[2] * length])).values) for length in (1, 3, 7)]
        return Computed([1, 3, 7], [float(count) for count in counts])


def ends_at_the_end_token() -> Computed:
    """What a greedy search writes: the likeliest token of each step until <end> is the likeliest"""
    with drawn(6):  # a seed with which the model writes some tokens before it ends
        model = _transformer(8, output_bias=True)
        with torch.no_grad():  # a search never writes <pad>, <s> and <unk>
            model.output.bias.copy_(torch.tensor([-9.0, -9.0, 0.0, -9.0, 0.0, 0.0, 0.0, 0.0]))  # type: ignore[union-attr]
        source, written = Packed.of([_SOURCE]), [BEGIN]
        while len(written) < 12:
            written.append(int(model(source, Packed.of([written]))[-1].argmax()))
            if written[-1] == END:
                break
        found = search(model, [Query(_SOURCE, 11)], SearchSettings(beam=1), 100)[0][0]
        ours = [BEGIN, *found.tokens, *([END] if found.complete else [])]
        return Computed([float(token) for token in written], [float(token) for token in ours])


def every_output_from_every_input() -> Computed:
    """How many of 3 inputs each of 3 vectors of the encoder depends on: all of them"""
    with drawn():
        module, x = _attention()
        x.requires_grad_()
        counts = []
        for row in module(x, _LAYOUT):
            gradient = torch.autograd.grad(row.sum(), x, retain_graph=True)[0]
            counts.append(float((gradient.abs().sum(1) > 0).sum()))
        return Computed([3.0, 3.0, 3.0], counts)


# --- positions --------------------------------------------------------------------------------------------------------


def order_without_positions() -> Computed:
    """Without positions a Transformer knows no order: tokens 4, 2, 3 have the vectors of 2, 3, 4, in another order"""
    with drawn():
        model = _transformer()
        cast(nn.Module, model.encoder).embedding.positions = None  # type: ignore[union-attr]
        first, second = (model.encoder(Packed.of([order])).values for order in ([2, 3, 4], [4, 2, 3]))
        return Computed(first[[2, 0, 1]], second)


def positions_added() -> Computed:
    """What is added to the embeddings of three tokens: PE(pos, 2i) and PE(pos, 2i + 1)"""
    with drawn():
        model = _transformer()
        embedding = cast(nn.Module, model.encoder).embedding
        source = Packed.of([_SOURCE])
        vectors = embedding(source.values, source.layout)  # type: ignore[operator]
        own = math.sqrt(_WIDTH) * cast(Tensor, embedding.weight).detach()[_SOURCE]  # type: ignore[union-attr]
        text = [
            [(math.sin if j % 2 == 0 else math.cos)(p / 10_000 ** (2 * (j // 2) / _WIDTH)) for j in range(_WIDTH)]
            for p in range(_TOKENS)
        ]
        return Computed(torch.tensor(text), vectors - own)


def distances_of_positions() -> Computed:
    """PE(p) . PE(q) depends on the distance alone: sum_i cos((p - q) / 10000^(2i/d)), for pairs 3 and 40 apart"""
    width = 16
    table = Sinusoidal(width, expected=200).table.double()
    pairs = [(0, 3), (50, 53), (120, 123), (0, 40), (100, 140)]
    text = [sum(math.cos((p - q) / 10_000 ** (2 * i / width)) for i in range(width // 2)) for p, q in pairs]
    return Computed(text, [float(table[p] @ table[q]) for p, q in pairs], tolerance=1e-4)


def gradients_at_a_distance() -> Computed:
    """Gradients of the last vector of self-attention by inputs 100 and 1 tokens before it: of one order, when new"""
    with drawn():
        module = SelfAttention(100, 4, bias=False)
        init_xavier(module)
        x = torch.randn(101, 100, requires_grad=True)
        sizes = torch.zeros(101)
        for output in module(x, Layout.of([101]))[-1][:20]:
            sizes += torch.autograd.grad(output, x, retain_graph=True)[0].square().sum(1)
        ratio = float((sizes[0] / sizes[-2]).sqrt())  # of a vanilla cell: 1e-20
        return Computed([1.0], [float(0.1 < ratio < 10)])
