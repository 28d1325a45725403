"""Learning rates, warm-ups, norms and T-Fixup: section 2.2.4."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from heedful.config.model.transformer import TransformerModel
from heedful.config.train.optimizers import Adam
from heedful.config.train.schedules import (
    Constant,
    ExponentialWarmup,
    LinearWarmup,
    Noam,
    UntunedExponentialWarmup,
    UntunedLinearWarmup,
)
from heedful.models.from_recipe.initialization import initialize, scale_embeddings, scale_initial_weights
from heedful.models.from_recipe.network import build_model
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.initialization import init_linear
from heedful.nn.layers.feedforward import FeedForward
from heedful.nn.layers.linear import LayerNorm
from heedful.nn.layers.residual import Residual
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize
from heedful.training.optimizers.build import build_optimizer
from heedful.training.schedules import build_learning_rate, build_run_rate, build_warmup

_BETA2 = 0.999
_ADAM = Adam(beta2=_BETA2)
_STEPS = (1, 10, 100, 1000, 5000)


def noam_rises_and_falls() -> Computed:
    """Linear in the first 4,000 steps, then as step^-0.5: rates over that of step 4,000"""
    rate = build_learning_rate(Noam(kind="noam", warmup=4000), 512, 100_000)
    rising, falling = (1, 1000, 2500), (5000, 16_000, 100_000)
    text = [step / 4000 for step in rising] + [math.sqrt(4000 / step) for step in falling]
    return Computed(text, [rate(step) / rate(4000) for step in (*rising, *falling)], tolerance=1e-12)


def warmup_as_a_factor() -> Computed:
    """alpha_t = alpha omega_t, here with alpha = 0.002 and a linear omega over 400 steps"""
    rate = build_run_rate(Constant(kind="constant", lr=0.002), LinearWarmup(kind="linear", steps=400), _ADAM, 8, 5000)
    return Computed([0.002 * min(1.0, t / 400) for t in _STEPS], [rate(t) for t in _STEPS], tolerance=1e-12)


def largest_rate() -> Computed:
    """The largest alpha_t over alpha: slightly above 1 in the text, here 1.1; 1, as omega is at most 1"""
    rate = build_run_rate(Constant(kind="constant", lr=0.002), LinearWarmup(kind="linear", steps=400), _ADAM, 8, 5000)
    return Computed([1.1], [max(rate(t) for t in range(1, 5001)) / 0.002], [1.0], tolerance=1e-12)


def untuned_times() -> Computed:
    """2.31 is 2.30 with tau = 1 / (1 - beta2), and 2.32 is 2.29 with tau = 2 / (1 - beta2)"""
    tau = round(1 / (1 - _BETA2))
    tuned = (ExponentialWarmup(kind="exponential", steps=tau), LinearWarmup(kind="linear", steps=2 * tau))
    untuned = (UntunedExponentialWarmup(kind="untuned_exponential"), UntunedLinearWarmup(kind="untuned_linear"))
    rows: list[list[float]] = []
    for warmups in (tuned, untuned):
        factors = [build_warmup(warmup, _ADAM) for warmup in warmups]
        rows.append([factor(step) for factor in factors for step in _STEPS])
    return Computed(rows[0], rows[1], tolerance=1e-12)


def close_to_the_bias_correction() -> Computed:
    """1 - exp(-(1 - beta2) t) next to Adam's 1 - beta2^t: closer than 0.0005 at every step of beta2 = 0.999"""
    factor = build_warmup(UntunedExponentialWarmup(kind="untuned_exponential"), _ADAM)
    return Computed([1 - _BETA2**t for t in _STEPS], [factor(t) for t in _STEPS], tolerance=5e-4)


def slowed_down_alike() -> Computed:
    """Steps lost to the exponential and to the linear untuned warm-up, sum_t (1 - omega_t): the same, to 0.001"""
    exponential = build_warmup(UntunedExponentialWarmup(kind="untuned_exponential"), _ADAM)
    linear = build_warmup(UntunedLinearWarmup(kind="untuned_linear"), _ADAM)
    lost = [sum(1 - factor(t) for t in range(1, 40_000)) for factor in (exponential, linear)]
    return Computed([lost[0]], [lost[1]], tolerance=1e-3)


def second_moment_of_the_first_step() -> Computed:
    """The mean of Adam's second moment v / (1 - beta2) after one update: infinite in the text; the mean of g^2"""
    with drawn():
        gradients = numbers(1, 64)
        layer = nn.Linear(64, 1, bias=False).double()
        optimizer = build_optimizer(_ADAM, layer)
        layer.weight.grad = gradients
        optimizer.step()
        moments = cast(Tensor, optimizer.state[layer.weight]["exp_avg_sq"]) / (1 - _BETA2)
        return Computed([math.inf], [float(moments.mean())], [sum(g * g for g in gradients[0].tolist()) / 64])


# --- norms ------------------------------------------------------------------------------------------------------------


def norms_after_and_before() -> Computed:
    """Post-LN Norm(x + f(x)), and Pre-LN x + f(Norm(x))"""
    with drawn():
        network, norm = randomize(FeedForward(4, 6)), cast(LayerNorm, randomize(LayerNorm(4)))
        x = numbers(3, 4)

        def normed(y: Tensor) -> Tensor:
            mean = y.mean(1, keepdim=True)
            variance = (y - mean).square().mean(1, keepdim=True)
            return norm.weight * (y - mean) / (variance + norm.eps).sqrt() + norm.bias

        text = [normed(x + network(x)), x + network(normed(x))]
        around = (Residual(nn.Identity(), norm, 0.0), Residual(norm, nn.Identity(), 0.0))
        return Computed(torch.cat(text), torch.cat([residual(x, network) for residual in around]))


# --- T-Fixup ----------------------------------------------------------------------------------------------------------

_LAYERS = 6
_FIXED = TransformerModel(norm="tfixup", layers=_LAYERS, width=32, heads=2, inner=64)


def t_fixup_xavier() -> Computed:
    """Xavier for all matrices: the largest of each over sqrt(6 / (inputs + outputs)), T-Fixup's factors divided out"""
    with drawn():
        model = build_model(_FIXED.model_copy(update={"layers": 1, "width": 64, "inner": 128}), 50, 50)
        initialize(model, "plain_xavier")
        ours = []
        for kind in (EncoderBlock, DecoderBlock):
            matrices, gain = _first_block(model, kind)
            factors = _decoder(gain) if kind is DecoderBlock else _encoder(gain)
            ours += [_largest(matrix) / factor for matrix, factor in zip(matrices, factors, strict=True)]
        return Computed([1.0] * len(ours), ours, tolerance=0.01)


def _largest(matrix: Tensor) -> float:
    return float(matrix.detach().abs().max()) / math.sqrt(6 / sum(matrix.shape))


def _first_block(model: nn.Module, kind: type[EncoderBlock] | type[DecoderBlock]) -> tuple[list[Tensor], float]:
    """Return the matrices of a first block, q, k, v, W^O (of cross-attention too) and network, and T-Fixup's factor."""
    block = next(module for module in model.modules() if isinstance(module, kind))
    matrices = [*_matrices(cast(nn.Module, block.attention))]
    if isinstance(block, DecoderBlock) and block.cross is not None:
        matrices += _matrices(cast(nn.Module, block.cross))
    network = cast(FeedForward, block.network)
    return [*matrices, network.into.weight, network.out.weight], block.around_network.gain


def _factors(kind: type[EncoderBlock] | type[DecoderBlock]) -> list[float]:
    """Return what T-Fixup multiplies the matrices of a first block by."""
    with drawn():
        model = build_model(_FIXED, 8, 8)
    init_linear(model, lambda matrix, gain: nn.init.ones_(matrix))
    scale_initial_weights(model)
    return [float(matrix.detach().mean()) for matrix in _first_block(model, kind)[0]]


def _matrices(attention: nn.Module) -> list[Tensor]:
    """Return W^Q, W^K, W^V and W^O."""
    output = cast(nn.Linear, attention.output).weight
    if hasattr(attention, "project"):
        return [*cast(nn.Linear, attention.project).weight.chunk(3), output]
    return [
        cast(nn.Linear, attention.project_query).weight,
        *cast(nn.Linear, attention.project_memory).weight.chunk(2),
        output,
    ]


def t_fixup_decoder() -> Computed:
    """Both embeddings, W^V, W^O and the network times 9 N^(-1/4) in the text, (9 N)^(-1/4) in Huang et al. 2020

    The two embeddings come first, then W^Q, W^K, W^V and W^O of both attentions, where W^Q and W^K stay as they are.
    """
    text, right = 9 * _LAYERS**-0.25, (9 * _LAYERS) ** -0.25
    source, target = (nn.Parameter(torch.ones(2, 2, dtype=torch.float64)) for _ in range(2))
    scale_embeddings(_FIXED, source, target)
    embeddings = [float(table.detach().mean()) for table in (source, target)]
    return Computed(
        [text, text, *_decoder(text)], [*embeddings, *_factors(DecoderBlock)], [right, right, *_decoder(right)]
    )


def _decoder(gain: float) -> list[float]:
    return [1.0, 1.0, gain, gain, 1.0, 1.0, gain, gain, gain, gain]


def t_fixup_encoder() -> Computed:
    """W^V, W^O and the network times 0.67 N^(-1/4); W^Q and W^K as they are"""
    return Computed(_encoder(0.67 * _LAYERS**-0.25), _factors(EncoderBlock))


def _encoder(gain: float) -> list[float]:
    return [1.0, 1.0, gain, gain, gain, gain]


def t_fixup_without_norms() -> Computed:
    """Layer norms in a Transformer of 6 + 6 blocks with T-Fixup, and with norms after the sublayers"""
    with drawn():
        models = [build_model(_FIXED.model_copy(update={"norm": norm}), 8, 8) for norm in ("tfixup", "post")]
    counts = [sum(isinstance(one, LayerNorm) for one in model.modules()) for model in models]
    return Computed([0, 2 * _LAYERS + 3 * _LAYERS], counts)
