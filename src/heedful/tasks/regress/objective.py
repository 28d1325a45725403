"""Objectives of regressors: the squared or the absolute error, in units of the deviation of the training numbers."""

from dataclasses import replace
from typing import Any

import torch

from heedful.nn.layers.images.augmentation import Augmentation
from heedful.training.objectives import Objective, Sums


class NumberError(Objective[Any]):
    """L = sum ((y - t) / s)^2, or sum |y - t| / s, with the deviation s of the training numbers.

    `augmentation` makes random changes to images before the network reads them.
    """

    def __init__(self, deviation: float, squared: bool, augmentation: Augmentation | None = None) -> None:
        self.deviation, self.squared, self.augmentation = deviation, squared, augmentation

    def __call__(self, model: Any, batch: Any) -> Sums:
        """Sum the loss over the rows of a micro-batch; rows that fill it up have no number."""
        if self.augmentation is not None:
            batch = replace(batch, inputs=self.augmentation.move(batch.inputs))
        errors_B = (model(batch.inputs)[:, 0].float() - batch.labels) / self.deviation
        errors_B = torch.where(batch.labels.isnan(), torch.zeros_like(errors_B), errors_B)
        loss = (errors_B.square() if self.squared else errors_B.abs()).sum()
        return Sums(loss, loss.detach())
