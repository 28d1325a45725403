"""Scores of a language model during training: loss and perplexity on the validation corpora."""

from collections.abc import Mapping

from heedful.base.progress import ShowProgress, show_nothing
from heedful.data.prepare.prepared import Prepared
from heedful.models.bundle import Bundle
from heedful.models.networks import LanguageModel
from heedful.tasks.generate.predicted_text import predicted_text
from heedful.tasks.shared.validation import metric_first


class LanguageValidator:
    """Scores a language model during training, always on the same texts; the recipe's metric comes first."""

    def __init__(self, bundle: Bundle[LanguageModel], prepared: Prepared) -> None:
        self._bundle, self._settings = bundle, bundle.recipe.train.validation
        self.show: ShowProgress = show_nothing
        self._text = predicted_text(bundle.recipe, prepared.valid) if prepared.valid else None

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        if self._text is None:
            return {}
        found = self._text.likelihood(self._bundle.model, self.show, "validating: batch", self._settings.max_sentences)
        return metric_first({"loss": found.loss, "perplexity": found.perplexity}, self._settings.metric)
