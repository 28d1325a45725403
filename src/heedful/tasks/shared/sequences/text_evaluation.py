"""Evaluation of texts that a model writes: translations and captions next to their references."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from heedful.base.columns import one_line
from heedful.config.recipe import Recipe
from heedful.metrics.edits import Reference, variants_of
from heedful.metrics.language.perplexity import Likelihood
from heedful.metrics.rows import PERPLEXITY, TEXT_METRICS
from heedful.metrics.scores import ItemScores, Score, scores_of
from heedful.metrics.summed_metrics import MetricName, TextScoring, build_metric, metric_names, text_scorer
from heedful.metrics.translation import SignedScore, bleu, chrf
from heedful.tasks.shared.evaluation import Evaluation


@dataclass(frozen=True, eq=False, kw_only=True)
class TextEvaluation(Evaluation):
    """Scores of texts that a model wrote, and how well it predicts the references."""

    unit: ClassVar[str]  # "sentence": what a text is written for
    named: ClassVar[str] = "of them"  # texts that were cut, in words
    tokens: ClassVar[str] = "tokens"  # what the perplexity is over
    exact_first: ClassVar[bool] = False  # whether exact matches are shown before the other scores

    inputs: tuple[str, ...]  # texts, or names of images
    best: tuple[Any, ...]  # what the model wrote, in detail
    texts: tuple[str, ...]  # the same, in the form in which it is scored
    references: tuple[Reference, ...]  # in the same form: texts, or tuples of variants of which each is right
    shown: tuple[MetricName, ...]  # names of the scores that were asked for
    likelihood: Likelihood  # likelihood of the references
    seconds: float  # time to write the texts
    scoring: TextScoring = field(default=TextScoring())
    _signed: dict[MetricName, SignedScore] = field(default_factory=dict, repr=False)

    def signed(self, name: MetricName) -> SignedScore:
        """Return the score of a metric, computed when it is first asked for."""
        if name not in self._signed:
            tokenize, lowercase, _ = self.scoring
            if name == "bleu":
                self._signed[name] = bleu(self.texts, self.references, tokenize, lowercase)
            elif name == "chrf":
                self._signed[name] = chrf(self.texts, self.references, lowercase)
            else:
                metric = build_metric(name, self.references, *self.scoring)
                self._signed[name] = SignedScore(metric.name, metric.score(self.texts), metric.signature)
        return self._signed[name]

    @property
    def exact(self) -> int:
        """Number of texts equal to their reference, or to one of its variants."""
        return sum(text in variants_of(true) for text, true in zip(self.texts, self.references, strict=True))

    @property
    def exact_match(self) -> float:
        """Share of texts that equal their reference, or one of its variants."""
        return self.exact / len(self.texts)

    @property
    def perplexity(self) -> float:
        """Perplexity of the references."""
        return self.likelihood.perplexity

    @property
    def speed(self) -> str:
        """What is written per second, in words."""
        return f"{len(self.texts) / self.seconds:,.0f} {self.unit}s/s"

    @property
    def cut(self) -> int:
        """Number of texts that were cut at the maximum length."""
        return sum(not best.complete for best in self.best)

    def remarks(self) -> list[str]:
        """Return the time taken, the number of texts that were cut, and the speed."""
        cut = f", {self.cut:,} {self.named} cut at the maximum length" if self.cut else ""
        return [f"{len(self.texts):,} {self.unit}s in {self.seconds:.1f} s{cut}, {self.speed}"]

    def task_scores(self) -> list[Score]:
        """Return the scores that were asked for, exact matches, and the perplexity of the references."""
        named, exact = [TEXT_METRICS[name] for name in self._named()], TEXT_METRICS["exact_match"]
        return scores_of([exact, *named, PERPLEXITY] if self.exact_first else [*named, exact, PERPLEXITY], self)

    def score(self, name: str) -> float:
        """Return a score by its name; metrics of texts are computed even where they were not asked for."""
        if name in TEXT_METRICS:
            return TEXT_METRICS[name].value(self) or 0.0
        return super().score(name)

    def validation_scores(self) -> dict[str, float]:
        """Return the scores that were asked for by name, as a validation reports them."""
        names = ["exact_match", *self._named()] if self.exact_first else self.shown
        return {name: TEXT_METRICS[name].value(self) or 0.0 for name in names}

    def outputs_and_references(self) -> tuple[Sequence[str], Sequence[Reference]]:
        """Return the texts, and the references."""
        return self.texts, self.references

    def item_scores(self) -> ItemScores:
        """Return what each text adds to chrF and the scores that were asked for."""
        return text_scorer(self.unit, self.inputs, self.references, self.shown, self.scoring)(self.texts)

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        signed = {name: self.signed(name) for name in self._named()}
        return {
            f"{self.unit}s": len(self.texts),
            **{name: {"score": one.score, "signature": one.signature} for name, one in signed.items()},
            "exact_match": self.exact_match,
            "perplexity": self.perplexity if math.isfinite(self.perplexity) else None,
            **({"metrics": dict(self.own)} if self.own else {}),
            "target_tokens": self.likelihood.tokens,
            "cut": self.cut,
            "seconds": round(self.seconds, 3),
            **self.facts(),
        }

    def facts(self) -> dict[str, object]:
        """Return what JSON has at its end."""
        return {}

    def outputs(self) -> Iterator[str]:
        """Yield the texts, one per line."""
        return map(one_line, self.texts)

    def _named(self) -> list[MetricName]:
        """Return the names of the scores that were asked for; exact matches are always shown, as a share."""
        return [name for name in self.shown if name != "exact_match"]


def scoring_of(recipe: Recipe) -> TextScoring:
    """Return how a recipe's models are scored."""
    return TextScoring(recipe.evaluate.bleu_tokenize, recipe.data.lowercase, recipe.evaluate.one_word)


def validation_names(recipe: Recipe, metric: str) -> list[str]:
    """Return the names of the scores that a validation reports: those of the recipe, and the one that decides."""
    return list(dict.fromkeys((*recipe.evaluate.metrics, *(name for name in TEXT_METRICS if name == metric))))


def score_texts(
    kind: type[TextEvaluation], recipe: Recipe, metric: str, texts: Sequence[str], references: Sequence[Reference]
) -> dict[str, float]:
    """Return the scores that a validation by this metric reports for texts, whoever wrote them."""
    found = kind(
        inputs=(),
        best=(),
        texts=tuple(texts),
        references=tuple(references),
        shown=metric_names(validation_names(recipe, metric)),
        likelihood=Likelihood(0.0, 0),
        seconds=0.0,
        scoring=scoring_of(recipe),
    )
    return found.validation_scores()
