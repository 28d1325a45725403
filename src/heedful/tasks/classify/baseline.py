"""The lines that classifiers of images have to beat: logistic regression on pixels, and usual answers to questions.

They are learned once per run, from the same training rows, in seconds. Nothing in them is drawn at random.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.data.collate import gather
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.tasks.classify.classification import ClassLoss
from heedful.tasks.shared.line import sample_rows
from heedful.tasks.shared.pixels import pixels_of, sample_images, side_of
from heedful.tasks.shared.pooled.sparse_regression import minimise_with

_STRENGTHS: Final = (1.0, 10.0, 100.0, 1000.0)  # inverse strengths of the L2 penalty, on images of mean length 1
_ITERATIONS: Final = 50
_TRIAL_ITERATIONS: Final = 20
_TRIED: Final = 2_000  # images of cross-validation: of more, it reads a part
_FOLDS: Final = 3


# --- logistic regression on pixels ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dense:
    """A matrix of images x features, as a regression reads it."""

    values_BJ: Float[Tensor, "B J"]

    def times(self, weights_JC: Float[Tensor, "J C"]) -> Float[Tensor, "B C"]:
        """Return X W."""
        return self.values_BJ @ weights_JC

    def transposed(self, columns: int) -> "Dense":
        """Return X^T."""
        return Dense(self.values_BJ.T)


def logistic_on_pixels(
    train: Sequence[TokenStore],
    valid: Sequence[TokenStore],
    rows: Indices,
    aims: Callable[[Indices], Tensor],
    kind: ClassLoss,
) -> tuple[Tensor, str]:
    """Return the scores of classes that logistic regression on pixels gives to images of validation stores.

    `aims` marks the classes of rows of the training stores. The second result says which images it learned from.
    """
    known, sample = sample_images(train)
    side, true_BC = side_of(train), aims(known)
    x_BJ = pixels_of(train, known, side)
    mean_J = x_BJ.mean(0)
    x_BJ = x_BJ - mean_J
    length = x_BJ.square().sum(1).mean().sqrt().clamp(min=1e-6)
    weights_JC, bias_C = _fit(x_BJ / length, true_BC, kind, [_choose_strength(x_BJ / length, true_BC, kind)])[0]
    return (pixels_of(valid, rows, side) - mean_J) / length @ weights_JC + bias_C, sample


def _choose_strength(x_BJ: Tensor, true_BC: Tensor, kind: ClassLoss) -> float:
    """Return the inverse strength with the lowest loss in cross-validation."""
    step = -(-len(x_BJ) // _TRIED)
    x_BJ, true_BC = x_BJ[::step], true_BC[::step]
    if len(x_BJ) < 2 * _FOLDS:
        return _STRENGTHS[0]
    fold_B, losses = torch.arange(len(x_BJ)) % _FOLDS, torch.zeros(len(_STRENGTHS), dtype=torch.float64)
    for fold in range(_FOLDS):
        held_B = fold_B == fold
        for number, (weights_JC, bias_C) in enumerate(
            _fit(x_BJ[~held_B], true_BC[~held_B], kind, _STRENGTHS, _TRIAL_ITERATIONS)
        ):
            losses[number] += kind.value(x_BJ[held_B] @ weights_JC + bias_C, true_BC[held_B]) * int(held_B.sum())
    return _STRENGTHS[int(losses.argmin())]


def _fit(
    x_BJ: Tensor, true_BC: Tensor, kind: ClassLoss, strengths: Sequence[float], iterations: int = _ITERATIONS
) -> list[tuple[Tensor, Tensor]]:
    """Return the weights for each strength; each begins with the solution of the one before."""
    weights_JC, bias_C = torch.zeros(x_BJ.shape[1], true_BC.shape[1]), torch.zeros(true_BC.shape[1])
    found = []
    for strength in strengths:
        minimise_with(Dense(x_BJ), true_BC, weights_JC, bias_C, kind, strength, iterations)
        found.append((weights_JC.clone(), bias_C.clone()))
    return found


# --- usual answers to questions ---------------------------------------------------------------------------------------

_MOST_ASKED: Final = 50_000  # images of training with their questions: more of them are sampled at equal distances
_OF_ALL: Final = 0.1  # weight of the frequency of answers to all questions; it decides between equally frequent ones

Question = tuple[int, ...]  # its tokens


def usual_answers(
    train: Sequence[TokenStore], valid: Sequence[TokenStore], rows: Indices, answers: int
) -> tuple[Tensor, str]:
    """Return log P of answers to the questions of validation rows, and what they were counted in.

    The frequencies are those of the same question in training; else of all questions that begin with the same words,
    as many as possible.

    P(answer | question) = (count(answer, beginning) + a * P(answer)) / (count(beginning) + a)
    """
    known, sample = sample_rows(sum(map(len, train)), _MOST_ASKED, "image")
    counts: dict[tuple[Question, bool], Counter[int]] = defaultdict(Counter)
    labels, _ = gather(train, "label", known)
    for question, answer in zip(_questions(train, known), labels.tolist(), strict=True):
        for part in _parts(question):
            counts[part][answer] += 1
    share_C = (np.bincount(labels, minlength=answers)[:answers] + 1e-3) / (len(labels) + 1e-3 * answers)
    scores = []
    for question in _questions(valid, rows):
        found = next((counts[part] for part in _parts(question) if part in counts), Counter[int]())
        row_C = _OF_ALL * share_C
        row_C[list(found)] += list(found.values())
        scores.append(np.log(row_C / row_C.sum()))
    return torch.from_numpy(np.stack(scores)).float(), sample


def _questions(stores: Sequence[TokenStore], rows: Indices) -> Iterator[Question]:
    """Yield the questions of rows, those about one image together."""
    words, _ = gather(stores, "words", rows)
    lengths, _ = gather(stores, "lengths", rows)
    ends = np.cumsum(lengths).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield tuple(words[start:end].tolist())


def _parts(question: Question) -> Iterator[tuple[Question, bool]]:
    """Yield the whole question, then its beginnings from the longest one on, down to nothing."""
    yield question, True
    for length in range(len(question), -1, -1):
        yield question[:length], False
