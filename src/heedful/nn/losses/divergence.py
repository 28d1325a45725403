"""Kullback-Leibler divergences between two predictions of the same units: how far apart their probabilities are.

    KL(P || Q) = sum_v p_v (log p_v - log q_v)
    D(P, Q) = 1/2 KL(P || Q) + 1/2 KL(Q || P) = 1/2 sum_v (p_v - q_v) (log p_v - log q_v)

For scores z of P, and r = log p - log q:

    d D / d z = 1/2 (p (r - KL(P || Q)) + p - q)
    d KL(Q || P) / d z = p - q

Functions return sums over units, not means: the trainer, which sees all units of an update, divides once. Those of an
output layer do not hold the scores of the whole batch in memory.
"""

from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

_CHUNK_BYTES: Final = {"cpu": 8 * 2**20, "cuda": 128 * 2**20}  # of float32 scores: a CPU's cache, and few launches


# --- scores of a few classes ------------------------------------------------------------------------------------------


def class_divergence(
    x_BC: Float[Tensor, "B C"], y_BC: Float[Tensor, "B C"], counts_B: Bool[Tensor, "B"]
) -> Float[Tensor, ""]:
    """Return D between the softmax of two scores of the classes, summed over the rows that count."""
    log_p_BC, log_q_BC = _log_softmax(x_BC), _log_softmax(y_BC)
    terms_BC = (log_p_BC.exp() - log_q_BC.exp()) * (log_p_BC - log_q_BC)
    return (terms_BC.sum(1) * counts_B).sum() / 2


def class_divergence_from(
    teacher_BC: Float[Tensor, "B C"], y_BC: Float[Tensor, "B C"], counts_B: Bool[Tensor, "B"], temperature: float
) -> Float[Tensor, ""]:
    """Return t^2 KL(teacher || student) of scores divided by the temperature t, summed over the rows that count."""
    log_p_BC, log_q_BC = _log_softmax(teacher_BC.detach(), temperature), _log_softmax(y_BC, temperature)
    terms_BC = log_p_BC.exp() * (log_p_BC - log_q_BC)
    return temperature**2 * (terms_BC.sum(1) * counts_B).sum()


def presence_divergence(
    x_BC: Float[Tensor, "B C"], y_BC: Float[Tensor, "B C"], counts_BC: Bool[Tensor, "B C"]
) -> Float[Tensor, ""]:
    """Return D between the sigmoid of two scores of each class, present or absent, summed over what counts."""
    x_BC, y_BC = _wide(x_BC), _wide(y_BC)
    return ((x_BC.sigmoid() - y_BC.sigmoid()) * (x_BC - y_BC) * counts_BC).sum() / 2


def presence_divergence_from(
    teacher_BC: Float[Tensor, "B C"], y_BC: Float[Tensor, "B C"], counts_BC: Bool[Tensor, "B C"], temperature: float
) -> Float[Tensor, ""]:
    """Return t^2 KL(teacher || student) of the presence of each class, summed over what counts."""
    x_BC, y_BC = _wide(teacher_BC.detach()) / temperature, _wide(y_BC) / temperature
    p_BC = x_BC.sigmoid()
    terms_BC = p_BC * (x_BC - y_BC) + F.logsigmoid(-x_BC) - F.logsigmoid(-y_BC)
    return temperature**2 * (terms_BC * counts_BC).sum()


def _wide(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _log_softmax(scores: Tensor, temperature: float = 1.0) -> Tensor:
    return (_wide(scores) / temperature).log_softmax(1)


# --- output layers ----------------------------------------------------------------------------------------------------


def output_divergence(
    x_NE: Float[Tensor, "N E"],
    y_NE: Float[Tensor, "N E"],
    weight_VE: Float[Tensor, "V E"],
    bias_V: Float[Tensor, "V"] | None,
    counts_N: Bool[Tensor, "N"],
) -> Float[Tensor, ""]:
    """Return D between the softmax of x W^T + b and of y W^T + b, summed over the rows that count."""
    wanted = torch.is_grad_enabled()  # asked here, because inside `forward` it is always False
    divergence: Tensor = _Symmetric.apply(x_NE, y_NE, weight_VE, bias_V, counts_N, wanted)  # type: ignore[no-untyped-call]
    return divergence


def output_divergence_from(
    teacher: tuple[Tensor, Tensor, Tensor | None],
    y_NE: Float[Tensor, "N E"],
    weight_VE: Float[Tensor, "V E"],
    bias_V: Float[Tensor, "V"] | None,
    counts_N: Bool[Tensor, "N"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Return t^2 KL(teacher || student), both the softmax of an output layer's scores divided by the temperature t

    Hinton et al. 2015, 2. The teacher is its states, weight and bias; it has no gradients.
    """
    wanted = torch.is_grad_enabled()
    divergence: Tensor = _FromTeacher.apply(  # type: ignore[no-untyped-call]
        y_NE, weight_VE, bias_V, counts_N, tuple(part if part is None else part.detach() for part in teacher),
        temperature, wanted,
    )  # fmt: skip
    return divergence


class _Layer:
    """An output layer, and the gradients of its weights, which are summed chunk by chunk."""

    def __init__(self, weight_VE: Tensor, bias_V: Tensor | None, dtype: torch.dtype, wanted: bool) -> None:
        self.weight, self.wide = weight_VE.to(dtype), torch.promote_types(dtype, torch.float32)
        self.bias = None if bias_V is None else bias_V.to(dtype)
        self.dW = torch.zeros_like(weight_VE, dtype=self.wide) if wanted else None
        self.db = torch.zeros_like(bias_V, dtype=self.wide) if wanted and bias_V is not None else None

    def log_softmax(self, x: Tensor, temperature: float = 1.0) -> Tensor:
        scores = F.linear(x, self.weight, self.bias).to(self.wide)
        return (scores if temperature == 1 else scores / temperature).log_softmax(1)

    def differentiate(self, gradient: Tensor, x: Tensor) -> Tensor:
        """Add what the gradients of the scores are for the weights; return what they are for x."""
        assert self.dW is not None
        if self.db is not None:
            self.db += gradient.sum(0)
        narrow = gradient.to(x.dtype)
        self.dW += narrow.T @ x
        return narrow @ self.weight


def _rows(x_NE: Tensor, weight_VE: Tensor) -> int:
    return max(1, _CHUNK_BYTES.get(x_NE.device.type, _CHUNK_BYTES["cuda"]) // (4 * weight_VE.shape[0]))


def _scaled(saved: tuple[Tensor | None, ...], factor: Tensor) -> list[Tensor | None]:
    """Multiply saved gradients by the upstream one, in float32 at least, as it must not be rounded."""
    return [None if part is None else (_wide(part) * factor).to(part.dtype) for part in saved]


class _Symmetric(torch.autograd.Function):
    """Computes the gradients of x, y, W and b in the forward pass, a few hundred rows at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        x_NE: Tensor,
        y_NE: Tensor,
        weight_VE: Tensor,
        bias_V: Tensor | None,
        counts_N: Tensor,
        wanted: bool,
    ) -> Tensor:
        wanted = wanted and any(ctx.needs_input_grad)
        layer = _Layer(weight_VE, bias_V, x_NE.dtype, wanted)
        total = x_NE.new_zeros((), dtype=torch.float64)
        dx, dy = (torch.empty_like(x_NE), torch.empty_like(y_NE)) if wanted else (None, None)
        rows = _rows(x_NE, weight_VE)
        for start in range(0, x_NE.shape[0], rows):
            here = slice(start, start + rows)
            x, y, counts = x_NE[here], y_NE[here], counts_N[here].unsqueeze(1)
            log_p, log_q = layer.log_softmax(x), layer.log_softmax(y)
            p, q, ratio = log_p.exp(), log_q.exp(), log_p - log_q
            difference = (p - q) * counts
            total += (difference * ratio).sum(dtype=torch.float64) / 2
            if dx is None or dy is None:
                continue
            forth, back = (p * ratio).sum(1, keepdim=True), (q * ratio).sum(1, keepdim=True)  # KL, and - KL back
            dx[here] = layer.differentiate((p * (ratio - forth) * counts + difference) / 2, x)
            dy[here] = layer.differentiate((q * (back - ratio) * counts - difference) / 2, y)
        ctx.save_for_backward(
            dx,
            dy,
            None if layer.dW is None else layer.dW.to(weight_VE.dtype),
            None if layer.db is None or bias_V is None else layer.db.to(bias_V.dtype),
        )
        return total.to(layer.wide)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return *_scaled(ctx.saved_tensors, gradients[0]), None, None


class _FromTeacher(torch.autograd.Function):
    """Computes the gradients of y, W and b in the forward pass, a few hundred rows at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        y_NE: Tensor,
        weight_VE: Tensor,
        bias_V: Tensor | None,
        counts_N: Tensor,
        teacher: tuple[Tensor, Tensor, Tensor | None],
        temperature: float,
        wanted: bool,
    ) -> Tensor:
        wanted = wanted and any(ctx.needs_input_grad)
        student = _Layer(weight_VE, bias_V, y_NE.dtype, wanted)
        states_NE, taught_weight, taught_bias = teacher
        taught = _Layer(taught_weight, taught_bias, states_NE.dtype, wanted=False)
        total = y_NE.new_zeros((), dtype=torch.float64)
        dy = torch.empty_like(y_NE) if wanted else None
        rows = _rows(y_NE, weight_VE)
        for start in range(0, y_NE.shape[0], rows):
            here = slice(start, start + rows)
            y, counts = y_NE[here], counts_N[here].unsqueeze(1)
            log_p, log_q = taught.log_softmax(states_NE[here], temperature), student.log_softmax(y, temperature)
            p = log_p.exp()
            total += temperature**2 * ((p * (log_p - log_q)) * counts).sum(dtype=torch.float64)
            if dy is not None:
                dy[here] = student.differentiate(temperature * (log_q.exp() - p) * counts, y)
        ctx.save_for_backward(
            dy,
            None if student.dW is None else student.dW.to(weight_VE.dtype),
            None if student.db is None or bias_V is None else student.db.to(bias_V.dtype),
        )
        return total.to(student.wide)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return *_scaled(ctx.saved_tensors, gradients[0]), None, None, None, None
