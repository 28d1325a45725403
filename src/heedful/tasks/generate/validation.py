"""Scores of a language model during training: loss and perplexity on the validation corpora."""

from collections.abc import Iterator, Mapping, Sequence

from heedful.config.recipe import Recipe
from heedful.data.batch_layout import CPU_MULTIPLE
from heedful.data.batches.sliding_windows import SlidingWindows
from heedful.data.batches.windows import PlannedWindows, WindowBatch
from heedful.data.epochs.plan import spread
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.metrics.perplexity import Likelihood, likelihood
from heedful.models.bundle import Bundle
from heedful.models.networks import LanguageModel
from heedful.tasks.protocol import ShowProgress, show_nothing
from heedful.tasks.shared.validation_scores import metric_first


class LanguageValidator:
    """Scores a language model during training, always on the same windows; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[LanguageModel], prepared: Prepared) -> None:
        self._bundle, self._settings = bundle, bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self._windows = evaluation_windows(bundle.recipe, prepared.valid) if prepared.valid else None

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if self._windows is None:
            return {}
        plan = self._windows.plan()
        if self._settings.max_sentences is not None:
            plan = _some(plan, self._settings.max_sentences)
        found = score_windows(self._bundle.model, self._windows, plan, self.show, "validating: batch")
        return metric_first({"loss": found.loss, "perplexity": found.perplexity}, self._settings.metric)


def evaluation_windows(recipe: Recipe, stores: Sequence[TokenStore], stride: int | None = None) -> SlidingWindows:
    """Return the windows of texts for evaluation; without a stride they do not overlap."""
    data = recipe.data
    return SlidingWindows(
        stores, data.max_length, stride or data.max_length, data.borders, data.batch_tokens, CPU_MULTIPLE
    )


def score_windows(
    model: LanguageModel, windows: SlidingWindows, plan: Sequence[PlannedWindows], show: ShowProgress, doing: str
) -> Likelihood:
    """Sum the likelihood of the tokens of all windows. The model is used as it is: put it into `eval` mode."""
    with show(doing, len(plan)) as advance:

        def batches() -> Iterator[WindowBatch]:
            for planned in plan:
                yield windows.batch(planned)
                advance(1)

        return likelihood(model, batches())


def _some(plan: Sequence[PlannedWindows], most: int) -> list[PlannedWindows]:
    """Return batches of about `most` windows in all, at equal distances."""
    count = sum(len(planned.begins) for planned in plan)
    taken = max(1, round(len(plan) * min(1.0, most / count)))
    return [plan[number] for number in spread(taken, len(plan))]
