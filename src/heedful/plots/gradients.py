"""Norms of gradients: by distance in recurrent cells, by layer in the networks of recipes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.base.packed import Packed
from heedful.config.recipe import Recipe
from heedful.lab.gradients import CELLS, gradients_over_time
from heedful.models.networks import EncoderDecoder, LanguageModel
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.pages.charts.lines import Series, line_chart
from heedful.plots.recipes import recipe_network

_ROWS: Final = 4
_LENGTH: Final = 16


def draw_by_distance(width: int, steps: int, seed: int) -> str:
    """Draw how much of a gradient reaches inputs further back, for each kind of cell with initial weights."""
    curves = [Series(cell, range(steps), gradients_over_time(cell, width, steps, seed)) for cell in CELLS]
    return line_chart(
        curves,
        title=f"Gradients over time: cells of width {width:,} with initial weights",
        x_label="distance from the loss in steps",
        y_label="norm, relative to distance 0",
        log_y=True,
    )


def gradients_by_layer(recipe: Recipe, seed: int = 1) -> dict[str, list[float]]:
    """Return the norm of the gradient by the weights of each layer, of a new network: encoder and decoder apart.

    The loss is the cross-entropy of random tokens: it shows the initial weights and the norms, not data.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = recipe_network(recipe, device="cpu").eval()
        _loss(network, recipe).backward()
    found = {side: [_norm(layer) for layer in layers] for side, layers in _layers(network)}
    return {side: norms for side, norms in found.items() if norms}


def draw_by_layer(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Draw the gradients of the layers of recipes, by their names."""
    series = []
    for number, (name, sides) in enumerate(curves.items()):
        for side, norms in sides.items():
            named, colour = (f"{name}, {side}", 2 * number + (side == "decoder")) if len(sides) > 1 else (name, None)
            series.append(Series(named, range(1, len(norms) + 1), norms, colour))
    return line_chart(
        series,
        title="Gradients by layer, before the first update",
        x_label="layer, from the input",
        y_label="norm of the gradient",
        log_y=True,
    )


def _loss(network: nn.Module, recipe: Recipe) -> Tensor:
    match network:
        case EncoderDecoder():
            scores = network(_random(network.encoder), _random(network.decoder))
        case LanguageModel():
            scores = network(_random(network.decoder))
        case _:
            raise UserError(
                f"Gradients by layer are drawn for networks that generate text, but the family of this recipe is "
                f"`{recipe.model.family}`: choose a translator's or a language model's recipe."
            )
    return nn.functional.cross_entropy(scores.float(), torch.randint(scores.shape[1], (len(scores),)))


def _random(part: Any) -> Packed:
    """Return random tokens of the vocabulary that an encoder or a decoder reads."""
    return Packed.of(torch.randint(4, len(part.embedding.weight), (_ROWS, _LENGTH)).tolist())


def _layers(network: nn.Module) -> Iterator[tuple[str, list[nn.Module]]]:
    for side in ("encoder", "decoder"):
        part = getattr(network, side, None)
        if not isinstance(part, nn.Module):
            continue
        blocks: list[nn.Module] = [one for one in part.modules() if isinstance(one, EncoderBlock | DecoderBlock)]
        for stack in (one for one in part.modules() if isinstance(one, RecurrentStack)):
            blocks += list(stack.layers)
        yield side, blocks


def _norm(layer: nn.Module) -> float:
    gradients = [weight.grad for weight in layer.parameters() if weight.grad is not None]
    return float(torch.stack([gradient.norm() for gradient in gradients]).norm()) if gradients else 0.0
