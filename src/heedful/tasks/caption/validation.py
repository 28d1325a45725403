"""Scores of a captioner during training: loss and perplexity on the validation corpora, others on request."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from heedful.base.progress import ShowProgress, show_nothing
from heedful.data.batches.pairs import PairBatch
from heedful.data.corpora.images import Captioned, read_captioned
from heedful.data.epochs.plan import Indices, batches_by_length, spread
from heedful.data.token_store import TokenStore
from heedful.metrics.language.perplexity import likelihood
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.summed_metrics import METRICS
from heedful.models.bundle import Bundle
from heedful.models.networks import ImageCaptioner
from heedful.tasks.caption.data import CaptionCollator
from heedful.tasks.caption.evaluation import evaluate_captions
from heedful.tasks.caption.model import Captioner
from heedful.tasks.shared.validation import metric_first, refuse_diverged


class CaptionValidator:
    """Scores a captioner during training; the recipe's metric comes first.

    Of more captions, or images, than `train.validation.max_sentences`, that number at equal distances is evaluated.
    """

    def __init__(self, bundle: Bundle[ImageCaptioner], stores: Sequence[TokenStore], collator: CaptionCollator) -> None:
        self._bundle, self._stores, self._collator = bundle, stores, collator
        self._model, self._settings = Captioner(bundle), bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self.metrics: Metrics = {}

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if not self._stores:
            return {}
        count = sum(map(len, self._stores))
        rows = spread(self._settings.max_sentences or count, count)
        costs = self._collator.costs(self._stores, rows)
        plan = batches_by_length(costs, batch_tokens=self._bundle.recipe.data.batch_tokens)
        with self.show("validating", len(rows)) as advance:
            found = likelihood(self._bundle.model, self._batches([rows[indices] for indices in plan], advance))
        refuse_diverged(found.loss)  # before it searches
        scores = {"loss": found.loss, "perplexity": found.perplexity, **self._of_captions()}
        return metric_first(scores, self._settings.metric)

    def _batches(self, plan: Sequence[Indices], advance: Callable[[int], None]) -> Iterator[PairBatch]:
        """Yield the batches of these rows, and count those that were evaluated."""
        for rows in plan:
            yield self._collator.batch(self._stores, rows)
            advance(len(rows))

    def _of_captions(self) -> Mapping[str, float]:
        """Return the scores of greedy captions, if the recipe's metric or one of the caller's is of captions."""
        if self._settings.metric not in METRICS and not self.metrics:
            return {}
        with self.show("validating: describing", len(self._rows)) as advance:
            found = evaluate_captions(self._model, self._rows, name="`data.valid`", progress=advance, beam=1)
        own = score_outputs(self.metrics, found.captions, found.references)
        scored: dict[str, float] = {name: one.score for name, one in found.scored.items()}
        return {"exact_match": found.exact_match, **scored, **own}

    @cached_property
    def _rows(self) -> list[Captioned]:
        data = self._bundle.recipe.data
        rows = [
            row
            for corpus in data.valid
            for row in read_captioned(corpus, data.folder)
            if any(map(str.strip, row.captions))
        ]
        most = self._settings.max_sentences
        return [rows[index] for index in spread(most or len(rows), len(rows)).tolist()]
