"""How far back a recurrent network learns from, at the weights of a moment: the gradient norm by distance."""

from dataclasses import dataclass
from typing import Final, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.recurrent.gradient_norms import gradients_by_distance
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.training.instruments.parts import layer_of

_ROWS, _STEPS, _SEED = 8, 64, 1
DISTANCES: Final = (0, 1, 2, 4, 8, 16, 32, 63)


@dataclass(frozen=True, eq=False)
class DistanceNorms:
    """Norms of the gradient by inputs at `DISTANCES` from the loss, relative to that of the last input."""

    layer: str
    norms: Float[Tensor, "D"]


def gradient_distances(model: nn.Module) -> list[DistanceNorms]:
    """Return the norms of every recurrent stack of a network, over random inputs that are always the same.

    It is the arithmetic of `heedful gradients`, with the weights that the network has now and without dropout. No
    gradients are left in the parameters.
    """
    found = []
    for name, stack in model.named_modules():
        if isinstance(stack, RecurrentStack):
            norms = _norms(stack)
            found.append(DistanceNorms(layer_of(name), norms[list(DISTANCES)] / norms[0]))
    return found


def _norms(stack: RecurrentStack) -> Tensor:
    weight = next(stack.parameters())
    width, training = cast(nn.RNNBase, stack.layers[0]).input_size, stack.training
    cuda = [weight.device] if weight.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), torch.enable_grad():
        torch.manual_seed(_SEED)
        inputs = torch.randn(_ROWS, _STEPS, width).to(weight)
        try:
            stack.eval()
            return gradients_by_distance(stack, inputs)
        finally:
            stack.train(training)
