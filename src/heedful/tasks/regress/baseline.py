"""The line that a regressor of images has to beat: ridge regression on pixels.

It is computed once per run, from the same training rows, in seconds. Nothing in it is drawn at random.
"""

from collections.abc import Callable, Sequence
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.data.batches.images import ImageCollator
from heedful.data.epochs.plan import Indices, spread
from heedful.data.token_store import TokenStore

_MOST_IMAGES: Final = 5_000  # of training: more of them are sampled at equal distances
_SIDE: Final = 32  # pixels on each side, to which images are averaged
_PENALTIES: Final = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # shares of the mean square of a feature, per row
_FOLDS: Final = 3


def ridge_on_pixels(
    train: Sequence[TokenStore], valid: Sequence[TokenStore], rows: Indices, aims: Callable[[Indices], Tensor]
) -> tuple[Tensor, str]:
    """Return what ridge regression on pixels predicts for rows of validation stores, and of which images it is.

    `aims` returns what it should predict for rows of the training stores.
    """
    of = sum(map(len, train))
    known = spread(min(of, _MOST_IMAGES), of)
    x = _pixels(train, known)
    mean = x.mean(0)
    predicted = _ridge(x - mean, aims(known), _pixels(valid, rows) - mean)
    return predicted, f"{len(known):,} of {of:,} training images" if len(known) < of else f"the {of:,} training images"


def _pixels(stores: Sequence[TokenStore], rows: Indices) -> Tensor:
    """Return the pixels of images, averaged to one size, from 0 to 1: images x features."""
    found = []
    for row in rows:
        images = ImageCollator(patch=1, class_token=False).images(stores, rows[rows == row][:1])
        (run,) = images.runs
        image = images.pixels.float().reshape(run.height, run.width, -1).permute(2, 0, 1)[None] / 255
        found.append(F.adaptive_avg_pool2d(image, (min(_SIDE, run.height), min(_SIDE, run.width))).flatten())
    return torch.stack(found)


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
