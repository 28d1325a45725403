"""Scores of a model that answers questions about images, during training: loss, accuracy and F1."""

from collections.abc import Mapping

import numpy as np

from heedful.base.progress import ShowProgress, show_nothing
from heedful.data.collate import gather
from heedful.data.epochs.plan import spread
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes, mark_classes
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle
from heedful.models.images import ImageAnswerer
from heedful.tasks.images.answer.scoring import scores_of
from heedful.tasks.shared.validation import metric_first


class ImageAnswerValidator:
    """Scores a model during training; the recipe's metric comes first.

    Of more images than `train.validation.max_sentences`, that number at equal distances is evaluated.
    """

    def __init__(self, bundle: Bundle[ImageAnswerer], stores: tuple[TokenStore, ...]) -> None:
        self._bundle, self._stores = bundle, stores
        self._settings = bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self.metrics: Metrics = {}

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if not self._stores:
            return {}
        answers, count = self._bundle.vocabularies.labels, sum(map(len, self._stores))
        rows = spread(self._settings.max_sentences or count, count)
        labels, _ = gather(self._stores, "label", np.asarray(rows))
        with self.show("validating", len(labels)) as advance:
            scores_QC = scores_of(self._bundle, self._stores, rows, advance)
        true = mark_known(labels.tolist(), len(answers))
        said = decide_classes(scores_QC, several=False)
        result = ClassificationResult(answers, true, said)
        own = {}
        if self.metrics:
            true_names = [(*answers, "")[label] for label in labels.tolist()]
            own = score_outputs(self.metrics, [answers[int(row.argmax())] for row in said], true_names)
        loss = class_loss(scores_QC, true, several=False)
        scores = {"loss": loss, "accuracy": result.accuracy, "f1": result.macro_f1, **own}
        return metric_first(scores, self._settings.metric)


def mark_known(labels: list[int], answers: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return a matrix that marks the answer of each question; none for one that training never has."""
    return mark_classes([[label] if label < answers else [] for label in labels], answers)
