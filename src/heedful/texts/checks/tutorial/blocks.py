"""The tutorial's Transformer: its network, positions, blocks, masks and steps, as prose and as printed classes."""

import math
import warnings
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.transformer import TransformerModel
from heedful.data.batches.pairs import next_token_side
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.linear import LayerNorm
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.layers.residual import Residual
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_TOKENS, _WIDTH, _HEADS, _INNER = 3, 4, 2, 6
_LAYOUT = Layout.of([_TOKENS])


def _written_norm(x: Tensor, norm: nn.Module) -> Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) * w + b."""
    assert isinstance(norm, nn.LayerNorm)
    mean = x.mean(1, keepdim=True)
    variance = (x - mean).square().mean(1, keepdim=True)
    return norm.weight * (x - mean) / (variance + norm.eps).sqrt() + norm.bias


def _post_norm() -> Residual:
    """Return a residual with a norm after the sum, with the epsilon of the text's class."""
    return Residual(nn.Identity(), LayerNorm(_WIDTH, eps=1e-6), 0.0)


def _encoder_block() -> EncoderBlock:
    parts = SelfAttention(_WIDTH, _HEADS), FeedForward(_WIDTH, _INNER)
    return cast(EncoderBlock, randomize(EncoderBlock(*parts, (_post_norm(), _post_norm()))))


# --- the position-wise network ----------------------------------------------------------------------------------------


def network_as_convolution() -> Computed:
    """Two convolutions over time of one token each, with a ReLU between them"""
    with drawn():
        network, x = cast(FeedForward, randomize(FeedForward(_WIDTH, _INNER))), numbers(_TOKENS, _WIDTH)
        y = x.T[None]
        for layer in (network.into, network.out):
            y = nn.functional.conv1d(y, layer.weight.detach()[:, :, None], layer.bias.detach())
            y = y.clamp(min=0) if layer is network.into else y
        return Computed(y[0].T, network(x))


def rows_stay() -> Computed:
    """Attention and the network change the last dimension only: as many items come out as go in"""
    with drawn():
        x = numbers(_TOKENS, _WIDTH)
        attention, network = randomize(SelfAttention(_WIDTH, _HEADS)), randomize(FeedForward(_WIDTH, _INNER))
        return Computed([_TOKENS, _TOKENS], [len(attention(x, _LAYOUT)), len(network(x))])


def network_of_another_width() -> Computed:
    """1 where the width of outputs can be adjusted, as the text says; 0, as the sum x + f(x) needs the width of x"""
    with drawn():
        x, around = numbers(_TOKENS, _WIDTH), _post_norm().double()
        wider = nn.Sequential(nn.Linear(_WIDTH, _INNER), nn.ReLU(), nn.Linear(_INNER, _WIDTH + 1)).double()
        try:
            around(x, wider)
            works = 1.0
        except RuntimeError:
            works = 0.0
        return Computed([1.0], [works], [0.0])


# --- positions --------------------------------------------------------------------------------------------------------


def items_depend_on_others() -> Computed:
    """0 for attention and for the network, which the text calls independent; 1 where another item changes an output"""
    with drawn():
        x = numbers(_TOKENS, _WIDTH)
        other = torch.cat([x[:2], numbers(1, _WIDTH)])
        attention, network = randomize(SelfAttention(_WIDTH, _HEADS)), randomize(FeedForward(_WIDTH, _INNER))
        changes = [attention(x, _LAYOUT) - attention(other, _LAYOUT), network(x) - network(other)]
        return Computed([0.0, 0.0], [float(change[0].abs().max() > 1e-6) for change in changes], [1.0, 0.0])


def order_is_not_seen() -> Computed:
    """Without positions, a block of items in another order gives the same outputs in that order"""
    with drawn():
        block, x, order = _encoder_block(), numbers(_TOKENS, _WIDTH), [2, 0, 1]
        return Computed(block(x, _LAYOUT)[order], block(x[order], _LAYOUT))


def _written_positions(words: int, width: int) -> Tensor:
    """P_(i,2j) = sin(i / 10000^(2j/d)), P_(i,2j+1) = cos(i / 10000^(2j/d))"""
    rows = torch.zeros(words, width, dtype=torch.float64)
    for i in range(words):
        for j in range((width - 1) // 2 + 1):
            rows[i, 2 * j] = math.sin(i / 10_000 ** (2 * j / width))
            rows[i, 2 * j + 1] = math.cos(i / 10_000 ** (2 * j / width))
    return rows


def position_matrix() -> Computed:
    """P_(i,2j) = sin(i / 10000^(2j/d)), P_(i,2j+1) = cos(i / 10000^(2j/d)), i below l = 4 and j up to (d - 1) / 2"""
    return Computed(_written_positions(4, 6), Sinusoidal(6).table[:4])


def positions_are_added() -> Computed:
    """P + X"""
    with drawn():
        weight = nn.Parameter(numbers(5, _WIDTH))
        module = Embedding(weight, Sinusoidal(_WIDTH), 0.0, scaled=False)
        return Computed(
            weight.detach()[[3, 0, 4]] + _written_positions(3, _WIDTH), module(torch.tensor([3, 0, 4]), _LAYOUT)
        )


def printed_positions() -> Computed:
    """The class PositionalEncoding: X / 10000^(arange(0, 20, 2) / 20), its sines and cosines, over 100 words"""
    table = torch.zeros(100, 20)
    x = torch.arange(0, 100, dtype=torch.float32).reshape(-1, 1)
    x = x / torch.pow(10_000, torch.arange(0, 20, 2, dtype=torch.float32) / 20)
    table[:, 0::2], table[:, 1::2] = torch.sin(x), torch.cos(x)
    return Computed(table, Sinusoidal(20).table[:100], tolerance=1e-5)


def frequencies() -> Computed:
    """Dimensions 4 and 5 of 20 have one frequency, 10000^(-4/20), 6 and 7 a lower one, 10000^(-6/20)"""
    row = Sinusoidal(20).table[1].double().tolist()
    ours = [math.asin(row[4]), math.acos(row[5]), math.asin(row[6]), math.acos(row[7])]
    return Computed([10_000 ** (-4 / 20)] * 2 + [10_000 ** (-6 / 20)] * 2, ours)


# --- the printed classes ----------------------------------------------------------------------------------------------


def printed_embeddings() -> Computed:
    """The class Embeddings: LayerNorm(word + position), epsilon 1e-12, without a factor sqrt(d)"""
    with drawn():
        norm = cast(LayerNorm, randomize(LayerNorm(_WIDTH, eps=1e-12)))
        weight = nn.Parameter(numbers(5, _WIDTH))
        module = Embedding(weight, Sinusoidal(_WIDTH), 0.0, scaled=False, norm=norm)
        summed = weight.detach()[[3, 0, 4]] + _written_positions(3, _WIDTH)
        return Computed(_written_norm(summed, norm), module(torch.tensor([3, 0, 4]), _LAYOUT))


def padding_is_read() -> Computed:
    """A review of two words padded to four in the class, which attends to padding; padding has no part in it"""
    with drawn():
        block, words, pads = _encoder_block(), numbers(2, _WIDTH), numbers(2, _WIDTH)
        padded = block(torch.cat([words, pads]), Layout.of([4]))
        packed = block(torch.cat([words, numbers(4, _WIDTH)]), Layout.of([2, 4]))[:2]
        alone = block(words, Layout.of([2]))
        return Computed(*(part.max(0).values for part in (padded, packed, alone)))


def sublayers_of_the_decoder() -> Computed:
    """Attention, attention to the encoder and, in the text, a positional encoding network; a position-wise network"""
    with drawn():
        attention, cross = SelfAttention(_WIDTH, _HEADS, causal=True), CrossAttention(_WIDTH, _HEADS)
        network, residuals = FeedForward(_WIDTH, _INNER), (_post_norm(), _post_norm(), _post_norm())
        block = cast(DecoderBlock, randomize(DecoderBlock(attention, cross, network, residuals)))
        x, memory = numbers(_TOKENS, _WIDTH), Packed(numbers(2, _WIDTH), Layout.of([2]))
        first = _written_norm(x + attention(x, _LAYOUT), residuals[0].after)
        read = cross(first, _LAYOUT, memory.values, memory.layout)
        second = _written_norm(first + read, residuals[1].after)
        text, right = (
            _written_norm(second + third, residuals[2].after)
            for third in (_written_positions(_TOKENS, _WIDTH), network(second))
        )
        return Computed(text, block(x, _LAYOUT, memory), right)


# --- masks, teacher forcing and steps ---------------------------------------------------------------------------------


def _stepwise(module: SelfAttention, x: Tensor) -> Tensor:
    """Return what each query reads from the pairs that there are when it is predicted."""
    return torch.cat([module(x[: t + 1], Layout.of([t + 1]))[-1:] for t in range(len(x))])


def pairs_seen_in_training() -> Computed:
    """Without a valid length in training all pairs are seen, unlike in prediction, as in the text; one mask for both"""
    with drawn():
        module, x = cast(SelfAttention, randomize(SelfAttention(_WIDTH, _HEADS, causal=True))), numbers(_TOKENS, _WIDTH)
        right = _stepwise(module, x)
        ours = module(x, _LAYOUT)
        module.causal = False
        return Computed(module(x, _LAYOUT), ours, right)


def valid_lengths() -> Computed:
    """A valid length of t for query t: softmax over its first t scores"""
    with drawn():
        module = cast(SelfAttention, randomize(SelfAttention(_WIDTH, 1, causal=True, bias=False)))
        x = numbers(_TOKENS, _WIDTH)
        q, k, v = (x @ w.T for w in module.project.weight.detach().chunk(3))
        rows = []
        for t in range(1, _TOKENS + 1):
            exps = [math.exp(float(q[t - 1] @ key) / math.sqrt(_WIDTH)) for key in k[:t]]
            rows.append(cast(Tensor, sum(exp / sum(exps) * value for exp, value in zip(exps, v[:t], strict=True))))
        return Computed(torch.stack(rows) @ module.output.weight.detach().T, module(x, _LAYOUT))


def _translator(**options: Any) -> EncoderDecoder:
    config = TransformerModel(width=_WIDTH, heads=_HEADS, layers=1, inner=_INNER, dropout=0.0, **options)
    model = cast(EncoderDecoder, randomize(build_model(config, 5, 5)))
    set_precision(model, torch.float64)
    return model


def labels_in_training() -> Computed:
    """With the labels as inputs, all steps at once score what steps one after the other score"""
    with drawn():
        model = _translator()
        memory, words, scores = model.encoder(Packed.of([[2, 3, 1]])), [1, 4, 2], []
        state = model.decoder.start(memory)
        for word in words:
            found, state = model.decoder.step(torch.tensor([word]), state)
            scores.append(found[0])
        return Computed(torch.stack(scores), model.decoder(Packed.of([words]), memory))


def shifted_inputs() -> Computed:
    """The label y_t is the input of step t + 1: after a first marker, all labels but the last"""
    lengths = np.array([4])
    inputs, labels = next_token_side(np.array([7, 8, 9]), lengths, Layout.of([4]))
    return Computed(labels[:-1].double(), inputs.values[1:].double())


# --- torch.nn.Transformer ---------------------------------------------------------------------------------------------


def _library_layer(block: EncoderBlock, **options: Any) -> nn.TransformerEncoderLayer:
    """Return torch's layer with the weights of a block."""
    layer = nn.TransformerEncoderLayer(_WIDTH, _HEADS, _INNER, 0.0, batch_first=True, **options).double().eval()
    attention, network = cast(SelfAttention, block.attention), cast(FeedForward, block.network)
    first, second = (
        one.before if options.get("norm_first") else one.after for one in (block.around_attention, block.around_network)
    )
    ours = (attention.project, attention.output, network.into, network.out, first, second)
    weights = [parameter for module in ours for parameter in module.parameters()]
    with torch.no_grad():
        for theirs, own in zip(layer.parameters(), weights, strict=True):
            theirs.copy_(own)
    return layer


def library_layer() -> Computed:
    """A layer of torch.nn.Transformer with the same weights"""
    with drawn():
        parts = SelfAttention(_WIDTH, _HEADS), FeedForward(_WIDTH, _INNER)
        around = tuple(Residual(nn.Identity(), LayerNorm(_WIDTH), 0.0) for _ in range(2))
        block = cast(EncoderBlock, randomize(EncoderBlock(*parts, cast(tuple[Residual, Residual], around))))
        x = numbers(_TOKENS, _WIDTH)
        return Computed(_library_layer(block)(x[None])[0], block(x, _LAYOUT))


def library_pre_norm_layer() -> Computed:
    """A layer of torch.nn.Transformer with `norm_first=True`, with the same weights"""
    with drawn():
        parts = SelfAttention(_WIDTH, _HEADS), FeedForward(_WIDTH, _INNER, activation="silu")
        around = tuple(Residual(LayerNorm(_WIDTH), nn.Identity(), 0.0) for _ in range(2))
        block = cast(EncoderBlock, randomize(EncoderBlock(*parts, cast(tuple[Residual, Residual], around))))
        x = numbers(_TOKENS, _WIDTH)
        layer = _library_layer(block, norm_first=True, activation=nn.functional.silu)
        return Computed(layer(x[None])[0], block(x, _LAYOUT))


def library_weights() -> Computed:
    """The weights of torch.nn.Transformer as called: 512, 8 heads, 6 + 6 layers, 2048; without embeddings"""
    with torch.device("meta"):
        library = nn.Transformer(512, 8, 6, 6, 2048, 0.1, batch_first=True)
        ours = build_model(TransformerModel(final_norm=True), 1, 1)
    embedding = 512  # one row, shared by the encoder, the decoder and the output
    counts = [sum(weight.numel() for weight in model.parameters()) for model in (library, ours)]
    return Computed([counts[0]], [counts[1] - embedding])


def activation_by_name() -> Computed:
    """1 where torch takes `activation='silu'`, as printed; 0: by name it knows relu and gelu, silu is a function"""
    with drawn():
        taken = []
        for activation in ("silu", nn.functional.silu):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a path that is faster with norms after sublayers
                try:
                    nn.Transformer(
                        4, 2, 1, 1, 6, 0.1, activation=cast(Any, activation), batch_first=True, norm_first=True
                    )
                    taken.append(1.0)
                except RuntimeError:
                    taken.append(0.0)
        return Computed([1.0, 1.0], taken, [0.0, 1.0])
