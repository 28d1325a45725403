"""Optimizers by name, with PyTorch's fused kernels where it has them."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, assert_never

import torch
from torch import nn

from heedful.base.errors import UserError, counted
from heedful.config.train.optimizers import Adagrad, Adam, AdamW, AnyOptimizer, Muon, RAdam, RmsProp, Sgd
from heedful.models.networks import LanguageModel, reader_of
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.layers.embedding import outer_parameters
from heedful.training.optimizers.moving_average import AVERAGE
from heedful.training.optimizers.muon import MuonWithAdamW

Scales = Mapping[nn.Parameter, float]  # factors of the schedule's learning rate; 1 for parameters that are not in it


def build_optimizer(
    config: AnyOptimizer, model: nn.Module, scales: Scales | None = None, average: float | None = None
) -> torch.optim.Optimizer:
    """Build the optimizer of a model. The trainer sets the learning rate before every update.

    Each group of parameters has its factor of that rate as `rate_scale`, and the decay of a moving average of its
    weights as `average`, if there is one: see `MovingAverage`.
    """
    optimizer = _build(config, model, scales or {})
    for group in optimizer.param_groups if average is not None else ():
        group[AVERAGE] = average
    return optimizer


def _build(config: AnyOptimizer, model: nn.Module, rates: Scales) -> torch.optim.Optimizer:
    everything = _groups(list(model.parameters()), rates)
    match config:
        case Adam():
            return torch.optim.Adam(everything, lr=0.0, **_adam(config), fused=True)
        case AdamW():
            groups = _decaying(model, rates, config.weight_decay, config.decay_embeddings)
            return torch.optim.AdamW(groups, lr=0.0, **_adam(config), fused=True)
        case RAdam():
            groups = _decaying(model, rates, config.weight_decay, config.decay_embeddings)
            return torch.optim.RAdam(groups, lr=0.0, **_adam(config), decoupled_weight_decay=True)
        case Sgd():
            groups = _decaying(model, rates, config.weight_decay, config.decay_embeddings)
            return torch.optim.SGD(groups, lr=0.0, momentum=config.momentum, nesterov=config.nesterov, fused=True)
        case Adagrad():
            return torch.optim.Adagrad(everything, lr=0.0, initial_accumulator_value=config.initial, eps=config.epsilon)
        case RmsProp():
            return torch.optim.RMSprop(
                everything, lr=0.0, alpha=config.decay, momentum=config.momentum, eps=config.epsilon
            )
        case Muon():
            return _muon(config, model, rates)
        case _:
            assert_never(config)


def scales_gradients(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the step itself divides by `grad_scale` and skips the update if `found_inf` is 1, on the device."""
    return bool(optimizer.defaults.get("fused"))


def _adam(config: Adam | AdamW | RAdam | Muon) -> dict[str, Any]:
    return {"betas": (config.beta1, config.beta2), "eps": config.epsilon}


def _muon(config: Muon, model: nn.Module, scales: Scales) -> MuonWithAdamW:
    outer = outer_parameters(model)
    hidden = [p for p in model.parameters() if p.ndim == 2 and p not in outer]
    others = _without(model.parameters(), hidden)
    if not hidden:
        raise UserError('`train.optimizer` is "muon", but this model has no hidden matrices: use "adamw".')
    return MuonWithAdamW(
        torch.optim.Muon(
            _groups(hidden, scales, weight_decay=config.weight_decay),
            lr=0.0,
            momentum=config.momentum,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(_groups(others, scales), lr=0.0, **_adam(config), weight_decay=0.0, fused=True),
    )


def _decaying(model: nn.Module, scales: Scales, decay: float, embeddings: bool) -> list[dict[str, Any]]:
    """Return the groups of what decays, matrices with or without embeddings, and then of what does not."""
    outer = set() if embeddings else outer_parameters(model)
    matrices = [p for p in model.parameters() if p.ndim > 1 and p not in outer]
    rest = _without(model.parameters(), matrices)
    return [*_groups(matrices, scales, weight_decay=decay), *_groups(rest, scales, weight_decay=0.0)]


def _without(parameters: Iterable[nn.Parameter], others: list[nn.Parameter]) -> list[nn.Parameter]:
    left_out = set(others)
    return [parameter for parameter in parameters if parameter not in left_out]


def _groups(parameters: list[nn.Parameter], scales: Scales, **options: float) -> list[dict[str, Any]]:
    """Return one group per factor of the learning rate, the largest first."""
    shares = sorted({scales.get(parameter, 1.0) for parameter in parameters}, reverse=True) or [1.0]
    return [
        {"params": [p for p in parameters if scales.get(p, 1.0) == share], "rate_scale": share, **options}
        for share in shares
    ]


# --- which layers of an encoder are trained, and how fast: freezing, and learning rates that decay from the top -------


def layer_scales(model: nn.Module, decay: float) -> Scales:
    """Return rates by which a layer learns `decay` times as fast as the layer above it      Howard and Ruder 2018, 3.2

    A head on top of the encoder has the full rate, the last block `decay` times that rate, the embedding the lowest.
    """
    if decay == 1:
        return {}
    depths = _by_depth(_encoder(model, "train.layer_decay"))
    return {parameter: decay**height for height, part in enumerate(reversed(depths), start=1) for parameter in part}


def freeze(model: nn.Module, what: Literal["encoder"] | int | None) -> None:
    """Exclude weights from training: the whole encoder, or its embedding and its first `what` blocks."""
    if what is None:
        return
    depths = _by_depth(_encoder(model, "train.freeze"))
    if what != "encoder" and what >= len(depths):
        raise UserError(
            f"`train.freeze` is {what}, but the encoder has {counted(len(depths) - 1, 'layer')}: use a smaller "
            'number, or "encoder" for all of it.'
        )
    for part in depths if what == "encoder" else depths[: what + 1]:
        for parameter in part:
            parameter.requires_grad_(False)


def _encoder(model: nn.Module, key: str) -> TransformerEncoder | TransformerDecoder:
    encoder = None if isinstance(model, LanguageModel) else reader_of(model)
    if not isinstance(encoder, TransformerEncoder | TransformerDecoder):
        raise UserError(f"`{key}` needs a Transformer encoder, which this model does not have: leave it out.")
    return encoder


def _by_depth(encoder: TransformerEncoder | TransformerDecoder) -> list[list[nn.Parameter]]:
    """Return the parameters of the embedding, then of each block; a final norm belongs to the last block.

    Markers of the embedding are new, as a head is.
    """
    embedding = [weight for weight in encoder.embedding.parameters() if weight is not encoder.embedding.markers]
    parts = [embedding, *(list(block.parameters()) for block in encoder.blocks)]
    parts[-1] += encoder.final.parameters()
    return parts
