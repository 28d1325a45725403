"""Scores of a masked language model during training, always with the same masks."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from heedful.base.progress import ShowProgress, show_nothing
from heedful.data.batches.masked import MaskedBatch, some_inputs
from heedful.data.prepare.prepared import Prepared
from heedful.metrics.language.perplexity import predict_masked
from heedful.models.bundle import Bundle
from heedful.models.networks import MaskedModel
from heedful.tasks.fill.feeds import evaluation_feed
from heedful.tasks.shared.validation import metric_first


class MaskedValidator:
    """Scores a masked language model during training, always with the same masks; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[MaskedModel], prepared: Prepared) -> None:
        self._bundle, self._settings = bundle, bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        stores, most = prepared.valid, self._settings.max_sentences
        self._feed = evaluation_feed(bundle, stores, "`data.valid`") if stores else None
        self._chosen = some_inputs(self._feed, most) if self._feed and most is not None else None

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if self._feed is None:
            return {}
        plan = list(self._feed.plan(0) if self._chosen is None else self._chosen)
        with self.show("validating: batch", len(plan)) as advance:
            found = predict_masked(self._bundle.model, _counted(map(self._feed.batch, plan), advance))
        scores = {"loss": found.likelihood.loss, "perplexity": found.likelihood.perplexity, "accuracy": found.accuracy}
        if found.next_accuracy is not None:
            scores["next_accuracy"] = found.next_accuracy
        return metric_first(scores, self._settings.metric)


def _counted(batches: Iterable[MaskedBatch], advance: Callable[[int], None]) -> Iterator[MaskedBatch]:
    """Yield batches, and count those that were evaluated."""
    for batch in batches:
        yield batch
        advance(1)
