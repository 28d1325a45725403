"""The blocks of a Transformer around attention: sums, norms, positions, embeddings and the output."""

import math
from typing import cast

import torch
from torch import nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.models.from_recipe.initialization import decoder_scales
from heedful.models.from_recipe.network import build_model
from heedful.models.transformer.blocks import EncoderBlock
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.linear import LayerNorm
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.layers.residual import Residual
from heedful.texts.checks.by_hand import written_norm
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_TOKENS, _WIDTH = 3, 4


def _residual() -> Residual:
    return Residual(nn.Identity(), LayerNorm(_WIDTH), 0.0)


def encoder_block() -> Computed:
    """Norm(f + n), f = FeedForward(n), n = Norm(MHA(X, X, X) + X)"""
    with drawn():
        attention, network = SelfAttention(_WIDTH, 2), FeedForward(_WIDTH, 6)
        block = cast(EncoderBlock, randomize(EncoderBlock(attention, network, (_residual(), _residual()))))
        x, layout = numbers(_TOKENS, _WIDTH), Layout.of([_TOKENS])
        n = written_norm(attention(x, layout) + x, block.around_attention.after)
        return Computed(written_norm(network(n) + n, block.around_network.after), block(x, layout))


def pre_norm() -> Computed:
    """f(Norm(x)) + x"""
    with drawn():
        network, norm = randomize(FeedForward(_WIDTH, 6)), randomize(LayerNorm(_WIDTH))
        x = numbers(_TOKENS, _WIDTH)
        return Computed(network(written_norm(x, norm)) + x, Residual(norm, nn.Identity(), 0.0)(x, network))


def t_fixup_embeddings() -> Computed:
    """Embeddings from N(0, d^(1/2)) in the text; their deviation is d^(-1/2), times the gain of the decoder"""
    with drawn():
        width = 64
        config = TransformerModel(norm="tfixup", layers=2, width=width, heads=2, inner=64)
        model = build_model(config, 4000, 4000)
        weight = next(model.parameters()).detach()
        ours = float(weight.std()) / decoder_scales(config).gain
        return Computed([width**0.5], [ours], [width**-0.5], tolerance=2e-3)


# --- what goes in and out ---------------------------------------------------------------------------------------------


def positions() -> Computed:
    """sin(p / 10000^(2i/d)) in even dimensions, cos of the same in odd ones"""
    width = 6
    text = [
        [(math.sin if j % 2 == 0 else math.cos)(p / 10_000 ** (2 * (j // 2) / width)) for j in range(width)]
        for p in range(4)
    ]
    return Computed(torch.tensor(text), Sinusoidal(width).table[:4])


def positions_in_halves() -> Computed:
    """All sines, then all cosines, as in the image of 20 words with 512 dimensions"""
    width, words = 512, 20
    rates = [10_000 ** (-2 * i / width) for i in range(width // 2)]
    text = [[wave(p * rate) for wave in (math.sin, math.cos) for rate in rates] for p in range(words)]
    return Computed(torch.tensor(text), Sinusoidal(width, halves=True).table[:words])


def wavelengths() -> Computed:
    """From 2 pi to 10000 * 2 pi in the text; the last pair of 512 dimensions has 10000^(510/512) * 2 pi"""
    table = Sinusoidal(512, expected=2).table.double()
    ours = [2 * math.pi / math.asin(float(table[1, 0])), 2 * math.pi / math.asin(float(table[1, 510]))]
    right = [2 * math.pi, 2 * math.pi * 10_000 ** (510 / 512)]
    return Computed([2 * math.pi, 2 * math.pi * 10_000], ours, right, tolerance=1e-2)


def embeddings_without_the_root() -> Computed:
    """Embeddings times d in the text, where the root was lost; times sqrt(d)"""
    return _embedded(float(_WIDTH))


def _embedded(factor: float) -> Computed:
    with drawn():
        weight = nn.Parameter(torch.randn(5, _WIDTH))
        module = Embedding(weight, Sinusoidal(_WIDTH), 0.0)
        packed = Packed.of([[3, 0, 4]])
        ours = module(packed.values, packed.layout)
        table, rows = Sinusoidal(_WIDTH).table[:3], weight.detach()[[3, 0, 4]]
        return Computed(factor * rows + table, ours, math.sqrt(_WIDTH) * rows + table, tolerance=1e-5)


def bert_sizes() -> Computed:
    """110 and 340 million weights of BERT-base and BERT-large"""
    with torch.device("meta"):
        models = [
            build_masked_model(BertModel.model_validate({"family": "bert", "preset": preset}), 30_522)
            for preset in ("base", "large")
        ]
    return Computed([110, 340], [round(sum(p.numel() for p in model.parameters()) / 1e6) for model in models])
