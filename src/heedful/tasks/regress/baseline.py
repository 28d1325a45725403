"""The line that a regressor of images has to beat: ridge regression on pixels.

It is computed once per run, from the same training rows, in seconds. Nothing in it is drawn at random.
"""

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.tasks.shared.pixels import pixels_of, sample_images, side_of

_PENALTIES: Final = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # shares of the mean square of a feature, per row
_FOLDS: Final = 3


def ridge_on_pixels(
    train: Sequence[TokenStore], valid: Sequence[TokenStore], rows: Indices, aims: Callable[[Indices], Tensor]
) -> tuple[Tensor, str]:
    """Return what ridge regression on pixels predicts for rows of validation stores, and of which images it is.

    `aims` returns what it should predict for rows of the training stores.
    """
    known, sample = sample_images(train)
    side = side_of(train)
    x = pixels_of(train, known, side)
    mean = x.mean(0)
    return _ridge(x - mean, aims(known), pixels_of(valid, rows, side) - mean), sample


def _ridge(x: Tensor, aims: Tensor, asked: Tensor) -> Tensor:
    """Solve by the kernel, with the penalty that is best in cross-validation; all rows are centred."""
    fold, kernel = torch.arange(len(x)) % _FOLDS, x.double() @ x.double().T
    unit = kernel.diagonal().mean()

    def solved(inside: Tensor, penalty: float) -> Tensor:
        part = kernel[inside][:, inside] + penalty * unit * torch.eye(int(inside.sum()), dtype=torch.float64)
        return torch.linalg.solve(part, aims[inside].double())

    def error(penalty: float) -> float:
        return sum(
            float(
                (kernel[fold == one][:, fold != one] @ solved(fold != one, penalty) - aims[fold == one]).square().sum()
            )
            for one in range(_FOLDS)
        )

    best = min(_PENALTIES, key=error) if len(x) >= 2 * _FOLDS else _PENALTIES[-1]
    return (asked.double() @ x.double().T @ solved(torch.ones(len(x), dtype=torch.bool), best)).float()
