"""What an adapter adds to the matrices of a network, in training and afterwards.

    W' = W + s B A,   A [r, K] random, B [N, r] zero, s = alpha / r      Hu et al. 2022, 4.1

The network itself does not change. In training, W' takes the place of W for one forward pass: x W'^T is
x W^T + s (x A^T) B^T, and gradients reach A and B through W'. So an adapter fits every way in which a layer uses its
matrix: stacked projections, loops of recurrent cells, alignments, tied embeddings, kernels of a GPU. A product with W'
costs what it costs without an adapter; what an adapter saves is the state of the optimizer, and what is stored.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.config.train.adapters import Lora
from heedful.nn.layers.dropout import Dropout


class LowRank(nn.Module):
    """s B A D: what is added to one matrix, or to a batch of matrices [H, N, K]

    D drops inputs: whole columns of A, the same for all tokens of a micro-batch, so that W' stays one matrix.
    """

    def __init__(self, weight: Float[Tensor, "*heads N K"], settings: Lora, generator: torch.Generator) -> None:
        super().__init__()
        *heads, rows, columns = weight.shape
        bound = 1 / math.sqrt(columns)
        down = torch.empty(*heads, settings.rank, columns).uniform_(-bound, bound, generator=generator)
        self.down = nn.Parameter(down.to(weight))
        self.up = nn.Parameter(torch.zeros(*heads, rows, settings.rank).to(weight))
        self.scale, self.drop = settings.scale, Dropout(settings.dropout)

    def forward(self) -> Float[Tensor, "*heads N K"]:
        """Return what is added."""
        down = self.down
        if self.training and self.drop.share:
            down = down * self.drop(down.new_ones(down.shape[-1]))
        return self.scale * (self.up @ down)


class Adapter(nn.Module):
    """What is trained in place of the weights of a network: a `LowRank` for each of some matrices, and new parts.

    Its parameters are named after those of the network: `decoder.blocks.0.cross.output.weight.down` and `.up`, and
    `output.weight` of a part that is new and trained as a whole, such as a classifier's head on a language model.
    """

    def __init__(
        self, network: nn.Module, names: Sequence[str], new: Sequence[str], settings: Lora, seed: int = 0
    ) -> None:
        super().__init__()
        weights, generator = dict(network.named_parameters()), torch.Generator("cpu").manual_seed(seed)
        self._network = (network,)  # in a tuple: it is not a part of the adapter
        self._added = list[tuple[nn.Parameter, LowRank]]()
        self._places: Mapping[nn.Parameter, list[tuple[nn.Module, str]]] = _places(network)
        network.requires_grad_(False)
        for name in names:
            part = LowRank(weights[name], settings, generator)
            self._put(name, part)
            self._added.append((weights[name], part))
        for name in new:
            weights[name].requires_grad_(True)
            self._put(name, weights[name])

    def _put(self, name: str, part: nn.Module | nn.Parameter) -> None:
        """Add a part under a name with dots."""
        *path, last = name.split(".")
        module: nn.Module = self
        for key in path:
            if key not in module._modules:
                module.add_module(key, nn.Module())
            module = module.get_submodule(key)
        if isinstance(part, nn.Parameter):
            module.register_parameter(last, part)
        else:
            module.add_module(last, part)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the network compute with the adapted matrices inside the block, and gradients reach the adapter."""
        self.train(self._network[0].training)
        try:
            for weight, part in self._added:
                adapted = weight + part()
                for module, name in self._places[weight]:
                    # As `torch.func.functional_call` does it; an assignment would demand a parameter.
                    module._parameters[name] = adapted
            yield
        finally:
            for weight, _ in self._added:
                for module, name in self._places[weight]:
                    module._parameters[name] = weight

    @torch.no_grad()
    def merge(self) -> None:
        """Add to the matrices of the network what the adapter adds to them."""
        self.eval()
        for weight, part in self._added:
            weight.add_(part())

    @contextmanager
    def merged(self) -> Iterator[None]:
        """Let the network have the adapted matrices in place of its own inside the block, at the same addresses."""
        kept = [weight.detach().clone() for weight, _ in self._added]
        self.merge()
        try:
            yield
        finally:
            with torch.no_grad():
                for (weight, _), own in zip(self._added, kept, strict=True):
                    weight.copy_(own)


def _places(network: nn.Module) -> dict[nn.Parameter, list[tuple[nn.Module, str]]]:
    """Return the modules that have each parameter, and its name there: a tied matrix has several."""
    places = dict[nn.Parameter, list[tuple[nn.Module, str]]]()
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                places.setdefault(parameter, []).append((module, name))
    return places
