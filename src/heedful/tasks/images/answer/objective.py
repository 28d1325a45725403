"""The objective of models that answer questions about images."""

from dataclasses import replace
from typing import Any

from heedful.base.packed import IGNORED
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.nn.losses.predictions import ClassPrediction
from heedful.training.objectives import OneLabel


class ImageAnswers(OneLabel):
    """Label-smoothed cross-entropy of the answer to each question, after random changes of the images."""

    def __init__(self, smoothing: float, augmentation: Augmentation) -> None:
        super().__init__(smoothing)
        self.augmentation = augmentation

    def draw(self, batch: Any) -> Any:
        """Change the images."""
        changed = self.augmentation.move(batch.inputs.images)
        return replace(batch, inputs=replace(batch.inputs, images=changed))

    def predict(self, model: Any, batch: Any) -> ClassPrediction:
        """Predict the answer to each question."""
        return ClassPrediction(model(batch.inputs), batch.labels != IGNORED)
