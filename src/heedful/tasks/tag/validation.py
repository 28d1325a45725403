"""Scores of a tagger during training: loss, accuracy and F1 on the validation corpora."""

from collections.abc import Mapping

from heedful.base.progress import ShowProgress, show_nothing
from heedful.data.epochs.plan import spread
from heedful.data.prepare.tagged import sentences_of
from heedful.data.token_store import TokenStore
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle
from heedful.models.networks import WordClassifier
from heedful.tasks.shared.validation import metric_first
from heedful.tasks.tag.label_scores import LabelScores
from heedful.tasks.tag.scoring import decide_labels, label_loss, scores_of


class TaggerValidator:
    """Scores a tagger during training; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[WordClassifier], stores: tuple[TokenStore, ...]) -> None:
        self._bundle, self._stores = bundle, stores
        self._settings = bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self.metrics: Metrics = {}

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if not self._stores:
            return {}
        scored, loss = evaluate_stores(self._bundle, self._stores, self._settings.max_sentences, self.show)
        own = score_outputs(self.metrics, scored.said, scored.true) if self.metrics else {}
        scores = {"loss": loss, "accuracy": scored.words.accuracy, "f1": scored.f1, **own}
        return metric_first(scores, self._settings.metric)


def evaluate_stores(
    bundle: Bundle[WordClassifier],
    stores: tuple[TokenStore, ...],
    most: int | None = None,
    show: ShowProgress = show_nothing,
) -> tuple[LabelScores, float]:
    """Return a model's labels for words next to the true ones, and its mean loss per word.

    Of more than `most` sentences, `most` at equal distances are evaluated.
    """
    network, labels = bundle.model, bundle.vocabularies.labels
    rows_of = [sentences_of(store) for store in stores]
    ends = [0]
    for rows in rows_of:
        ends.append(ends[-1] + len(rows))
    chosen = spread(most or ends[-1], ends[-1])
    scores, true = [], []
    with show("validating", len(chosen)) as advance:
        for store, rows, first, end in zip(stores, rows_of, ends, ends[1:], strict=False):
            own = [number - first for number in chosen.tolist() if first <= number < end]
            scores += scores_of(bundle, store, own)
            true += [
                [label for row in rows[number] for label in store.sentence("label", row).tolist()] for number in own
            ]
            advance(len(own))
    said = [decided.tolist() for decided in decide_labels(network, scores)]
    return LabelScores.of(labels, said, true), label_loss(network, scores, true)
