"""Scores of a classifier of images during training: loss, accuracy and F1 on the validation corpora."""

from collections.abc import Mapping

from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.model.images import ImageClassifierModel
from heedful.config.tables import model_of
from heedful.data.epochs.plan import spread
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes, mark_classes
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle
from heedful.models.networks import Classifier
from heedful.tasks.images.classify.scoring import scores_of
from heedful.tasks.shared.validation import metric_first


class ImageValidator:
    """Scores a classifier of images during training; the recipe's metric comes first.

    Of more images than `train.validation.max_sentences`, that number at equal distances is evaluated.
    """

    def __init__(self, bundle: Bundle[Classifier], stores: tuple[TokenStore, ...]) -> None:
        self._bundle, self._stores = bundle, stores
        self._settings = bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self.metrics: Metrics = {}

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if not self._stores:
            return {}
        labels, several = (
            self._bundle.vocabularies.labels,
            model_of(self._bundle.recipe, ImageClassifierModel).labels == "several",
        )
        found = [store.streams["label"] for store in self._stores]
        classes = [ragged[row].tolist() for ragged in found for row in range(len(ragged))]
        rows = spread(self._settings.max_sentences or len(classes), len(classes))
        with self.show("validating", len(rows)) as advance:
            scores_BC = scores_of(self._bundle, self._stores, rows, advance)
        true = mark_classes([classes[row] for row in rows], len(labels))
        result = ClassificationResult(labels, true, decide_classes(scores_BC, several))
        own = score_outputs(self.metrics, *result.named(several)) if self.metrics else {}
        loss = class_loss(scores_BC, true, several)
        scores = {"loss": loss, "accuracy": result.accuracy, "f1": result.macro_f1, **own}
        return metric_first(scores, self._settings.metric)
