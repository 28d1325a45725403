"""Divergence, noticed early and explained: which layer, since when, and what to try."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import mean
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.training.instruments.parts import layer_of, take_rows, weight_parts
from heedful.training.objectives import Objective

WINDOW: Final = 10  # logged values that are compared at a time
_LOSS_FACTOR, _LOSS_MARGIN = 1.25, 0.1  # a loss is well above its best from 1.25 times that and 0.1 on
_GRADIENT_FACTOR: Final = 20.0

WAYS_OUT: Final = "lower the learning rate, lengthen the warm-up or set `train.clip_norm`"


# --- values that are not finite ---------------------------------------------------------------------------------------


def locate_non_finite(model: nn.Module, objective: Objective[Any], batch: Any, device: torch.device) -> str:
    """Return a sentence that names the first layer with values that are not finite on a batch; empty if there is none.

    It looks at weights, then at what layers return in the order in which they run, at the loss, and at gradients.
    """
    parts = weight_parts(model)
    sick = [part for part in parts if not all(weight.isfinite().all() for weight in part.weights())]
    if sick:
        return f"The weights of {_several(sick)} are not finite."
    weights = [weight for part in parts for weight, _ in part.slices]
    try:
        with torch.enable_grad(), _first_non_finite_output(model) as found:
            loss = objective(model, batch.to(device)).loss
        if found:
            return f"The first outputs that are not finite are those of {found[0]}."
        if not loss.isfinite():
            return "The outputs of all layers are finite, but the loss is not."
        gradients = iter(torch.autograd.grad(loss, weights, allow_unused=True))
    except torch.OutOfMemoryError:  # the run computes its updates in less memory
        return ""
    for part in parts:
        own = [(next(gradients), rows) for _, rows in part.slices]
        if not all(g is None or take_rows(g, rows).isfinite().all() for g, rows in own):
            sick.append(part)
    return f"The loss is finite, but the gradients of {_several(sick)} are not." if sick else ""


def _several(parts: Sequence[object]) -> str:
    more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return f"{parts[0]}{more}"


@contextmanager
def _first_non_finite_output(model: nn.Module) -> Iterator[list[str]]:
    """Collect the name of the first module that returns values that are not finite."""
    found: list[str] = []

    def hook(name: str) -> Any:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if not found and isinstance(output, Tensor) and not output.isfinite().all():
                inner = name.rsplit(".", 1)[-1]
                found.append(f"{layer_of(name)} ({inner})")

        return look

    hooks = [module.register_forward_hook(hook(name)) for name, module in model.named_modules() if name]
    try:
        yield found
    finally:
        for one in hooks:
            one.remove()


# --- what rises -------------------------------------------------------------------------------------------------------


@dataclass
class Rise:
    """Whether a series has risen well above its best for long.

    The best is the lowest mean of a window of values; it has risen if all of the last window exceed that by a factor
    and a margin. It is told once, until the series has come down again.
    """

    factor: float
    margin: float = 0.0
    best: float = float("inf")
    best_step: int = 0
    told: bool = False
    _last: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def add(self, step: int, value: float) -> bool:
        """Add a value; return whether the series has risen and this was not told before."""
        self._last.append((step, value))
        if len(self._last) < WINDOW:
            return False
        average = mean(value for _, value in self._last)
        if average < self.best:
            self.best, self.best_step = average, step
        risen = all(value > self.factor * self.best + self.margin for _, value in self._last)
        news, self.told = risen and not self.told, risen
        return news

    @property
    def since(self) -> int:
        """The step of the first value of the last window."""
        return self._last[0][0]


class DivergenceWatch:
    """Looks at the logged metrics of a run, and at its instruments where it has them."""

    def __init__(self) -> None:
        self._loss = Rise(_LOSS_FACTOR, _LOSS_MARGIN)
        self._gradient = Rise(_GRADIENT_FACTOR)
        self._measured: deque[tuple[int, dict[str, float]]] = deque(maxlen=200)  # gradient norms by layer and kind

    def measured(self, record: Mapping[str, Any]) -> None:
        """Add a record of the instruments."""
        norms = {f"{row['layer']} ({row['kind']})": row["gradient"] for row in record["weights"] if row["gradient"]}
        self._measured.append((record["step"], norms))

    def metrics(self, step: int, loss: float | None, gradient_norm: float | None) -> str | None:
        """Add logged metrics, None where they are not finite; return a warning if the run has begun to diverge."""
        if loss is not None and self._loss.add(step, loss):
            rise = self._loss
            return (
                f"The loss has been well above its best since step {rise.since:,}: {loss:.3g}, after {rise.best:.3g} "
                f"at step {rise.best_step:,}.{self._where(rise.best_step)} If it stays there, resume from an earlier "
                f"checkpoint or start again, and {WAYS_OUT}."
            )
        if gradient_norm is not None and self._gradient.add(step, gradient_norm):
            rise = self._gradient
            return (
                f"The norm of the gradient has grown to {gradient_norm:.3g} since step {rise.since:,}, from "
                f"{rise.best:.3g} at step {rise.best_step:,}.{self._where(rise.best_step)} If the loss rises, "
                f"{WAYS_OUT}."
            )
        return None

    def _where(self, best_step: int) -> str:
        """Say which part's gradient has grown most since the best step."""
        if not self._measured:
            return " `train.instruments = {}` would record in which layer it began."
        now_step, now = self._measured[-1]
        then_step, then = min(self._measured, key=lambda one: abs(one[0] - best_step))
        growth = {name: norm / then[name] for name, norm in now.items() if then.get(name)}
        if then_step == now_step or not growth:
            return ""
        name = max(growth, key=growth.__getitem__)
        return (
            f" The gradient has grown most in {name}: {growth[name]:.3g} times from step {then_step:,} to {now_step:,}."
        )
