"""The gradient of a loss by distance: how far back a recurrent network learns from."""

from types import TracebackType

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.nn.recurrent.cells import Watch
from heedful.nn.recurrent.stack import RecurrentStack


class GradientNorms:
    """The norm of dL/dh(t) at each step of one layer, which shows vanishing or exploding gradients

    Pascanu et al. 2013

        with GradientNorms(stack) as norms:
            y, _ = stack(x, layout)
        loss(y).backward()
        norms.per_step()

    Inside the block the stack runs step by step. The gradient is the total one, through the output of step t and all
    later steps; the norm is over all sentences with a token at step t. Only the last run is kept.
    """

    def __init__(self, stack: RecurrentStack, layer: int = -1, direction: int = 0) -> None:
        self.stack = stack
        self._watched = (layer % len(stack.layers), direction)
        self._norms: dict[int, Tensor] = {}

    def __enter__(self) -> "GradientNorms":
        self.stack.watch = self._watch
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.watch = None

    def per_step(self) -> Float[Tensor, "T"]:
        """Return the norms after the backward pass; zero for steps without a gradient."""
        if not self._norms:
            raise ValueError("no step was watched: run the stack inside the `with` block")
        return torch.stack([self._norms[step] for step in sorted(self._norms)])

    def _watch(self, layer: int, direction: int) -> Watch | None:
        if (layer, direction) != self._watched:
            return None
        self._norms = {}
        return self._record

    def _record(self, step: int, h_RE: Tensor) -> None:
        norms = self._norms  # of this run, even if another run starts before the backward pass
        norms[step] = h_RE.new_zeros(())
        if h_RE.requires_grad:
            h_RE.register_hook(lambda gradient: norms.__setitem__(step, gradient.detach().norm()))
