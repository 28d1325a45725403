"""The gradient of a loss by distance: how far back a recurrent network learns from."""

from types import TracebackType

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.packed import Layout
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


def gradients_by_distance(stack: RecurrentStack, x_BTI: Float[Tensor, "B T I"]) -> Float[Tensor, "T"]:
    """Return the norm of dL/dx(T - d) for d = 0, 1, ..., of a loss that depends on the last output of a sequence alone.

    L = sum of the last outputs, each component with a random sign. The norm is over all sequences. The gradient by an
    input is the total one, whatever a cell carries it with: h, or the memory of an LSTM.
    """
    rows, steps, width = x_BTI.shape
    inputs = x_BTI.detach().clone().requires_grad_(True)
    y_NO, _ = stack(inputs.reshape(rows * steps, width), Layout.of([steps] * rows))
    last_BO = y_NO.unflatten(0, (rows, steps))[:, -1]
    signs_BO = torch.randint_like(last_BO, 2).mul(2).sub(1)
    (gradient_BTI,) = torch.autograd.grad((last_BO * signs_BO).sum(), inputs)
    return gradient_BTI.square().sum((0, 2)).sqrt().flip(0)
