"""The line that a regressor has to beat: ridge regression on n-grams of tokens, or on pixels.

It is computed once per run, from the same training rows, in seconds. Nothing in it is drawn at random.
"""

import time
from collections.abc import Sequence
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.data.batches.images import ImageCollator
from heedful.data.batches.labelled import numbers_of
from heedful.data.epochs.plan import Indices, spread
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Scale
from heedful.tasks.shared.linear.ngrams import fit_stores, ngrams_of_rows
from heedful.tasks.shared.linear.regression import SquaredLoss

_MOST_IMAGES: Final = 5_000  # of training: more of them are sampled at equal distances
_SIDE: Final = 32  # pixels on each side, to which images are averaged
_PENALTIES: Final = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # shares of the mean square of a feature, per row
_FOLDS: Final = 3


def line_of_texts(
    train: Sequence[TokenStore], valid: Sequence[TokenStore], rows: Indices, scale: Scale
) -> tuple[list[float], str]:
    """Return the numbers that ridge regression on n-grams predicts for rows of validation stores, and what it is."""
    began = time.perf_counter()
    model, sample = fit_stores(train, lambda known: _aims(train, known, scale), SquaredLoss())
    scores_B1 = model.scores(ngrams_of_rows(valid, rows))
    words = f"ridge regression on {sample} ({time.perf_counter() - began:.1f} s)"
    return (scale.mean + scale.deviation * scores_B1[:, 0]).tolist(), words


def line_of_pixels(
    train: Sequence[TokenStore], valid: Sequence[TokenStore], rows: Indices, scale: Scale
) -> tuple[list[float], str]:
    """Return the numbers that ridge regression on pixels predicts for rows of validation stores, and what it is."""
    began, of = time.perf_counter(), sum(map(len, train))
    known = spread(min(of, _MOST_IMAGES), of)
    x, aims = _pixels(train, known), _aims(train, known, scale)
    mean = x.mean(0)
    predicted = _ridge(x - mean, aims, _pixels(valid, rows) - mean)
    sample = f"{len(known):,} of {of:,} training images" if len(known) < of else f"the {of:,} training images"
    words = f"ridge regression on pixels of {sample} ({time.perf_counter() - began:.1f} s)"
    return (scale.mean + scale.deviation * predicted[:, 0]).tolist(), words


def _aims(stores: Sequence[TokenStore], rows: Indices, scale: Scale) -> Tensor:
    return ((numbers_of(stores, rows, len(rows)) - scale.mean) / scale.deviation)[:, None].float()


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
