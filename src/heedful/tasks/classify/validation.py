"""Scores of a classifier during training: loss, accuracy and F1 on the validation corpora, and those of a baseline."""

from collections.abc import Callable, Mapping

from heedful.base.progress import ShowProgress, show_nothing
from heedful.config.model.encoder_only import ClassifierModel
from heedful.config.tables import model_of
from heedful.data.epochs.plan import spread
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes, mark_classes
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle
from heedful.models.networks import Classifier
from heedful.tasks.classify.baseline import Baseline
from heedful.tasks.classify.scoring import scores_of
from heedful.tasks.shared.validation import metric_first


class ClassifierValidator:
    """Scores a classifier during training; the recipe's metric comes first, and that of the baseline last.

    The baseline is trained on the stores `train`; without them there is none.
    """

    def __init__(
        self, bundle: Bundle[Classifier], stores: tuple[TokenStore, ...], train: tuple[TokenStore, ...] = ()
    ) -> None:
        self._bundle, self._stores = bundle, stores
        self._settings = bundle.recipe.train.validation
        several = model_of(bundle.recipe, ClassifierModel).labels == "several"
        self._baseline = Baseline(train, stores, bundle.vocabularies.labels, several) if train else None
        self.show: ShowProgress = show_nothing
        self.say: Callable[[str], None] = lambda line: None
        self.metrics: Metrics = {}

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if not self._stores:
            return {}
        result, loss = evaluate_stores(self._bundle, self._stores, self._settings.max_sentences, self.show)
        several = model_of(self._bundle.recipe, ClassifierModel).labels == "several"
        own = score_outputs(self.metrics, *result.named(several)) if self.metrics else {}
        scores = {"loss": loss, "accuracy": result.accuracy, "f1": result.macro_f1, **own}
        return {**metric_first(scores, self._settings.metric), **self._baseline_score()}

    def _baseline_score(self) -> dict[str, float]:
        """Return the baseline's score by the recipe's metric; by accuracy if that is the caller's own."""
        if self._baseline is None:
            return {}
        scores = self._baseline.scores(self._settings.max_sentences, self.say, self._settings.metric)
        metric = self._settings.metric if self._settings.metric in scores else "accuracy"
        return {f"baseline_{metric}": scores[metric]}


def evaluate_stores(
    bundle: Bundle[Classifier],
    stores: tuple[TokenStore, ...],
    most: int | None = None,
    show: ShowProgress = show_nothing,
) -> tuple[ClassificationResult, float]:
    """Return a model's predictions for labelled texts next to the true labels, and its mean loss per text.

    Of more than `most` texts, `most` at equal distances are evaluated: a file may be sorted by its labels.
    """
    labels, several = bundle.vocabularies.labels, model_of(bundle.recipe, ClassifierModel).labels == "several"
    found = [store.streams["label"] for store in stores]
    classes = [ragged[row].tolist() for ragged in found for row in range(len(ragged))]
    rows = spread(most or len(classes), len(classes))
    with show("validating", len(rows)) as advance:
        scores_BC = scores_of(bundle, stores, rows, advance)
    true = mark_classes([classes[row] for row in rows], len(labels))
    return ClassificationResult(labels, true, decide_classes(scores_BC, several)), class_loss(scores_BC, true, several)
