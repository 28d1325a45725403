"""Evaluation of a translator on sentence pairs: its translations, and how well it predicts the references."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, Unpack

from heedful.base.arguments import check_one_each
from heedful.base.columns import one_line
from heedful.base.errors import UserError
from heedful.config.decode import SearchOptions
from heedful.config.recipe import Recipe
from heedful.decode.search import ProgressCallback
from heedful.metrics.edits import Reference, uniform, variants_of
from heedful.metrics.language.perplexity import Likelihood
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import ItemScores, Score
from heedful.metrics.summed_metrics import MetricName, TextScoring, build_metric, metric_names, score_texts
from heedful.metrics.translation import SignedScore, bleu, chrf
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.sequences.text_codec import Languages, TextCodec
from heedful.tasks.translate.scoring import score_tokens
from heedful.tasks.translate.translation import Translation


class Translates(Protocol):
    """What is asked of a translator: see `Translator`."""

    @property
    def recipe(self) -> Recipe:
        """Recipe that the model was trained with."""
        ...

    @property
    def wording(self) -> TextCodec:
        """Conversion between text and pieces."""
        ...

    @property
    def networks(self) -> tuple[EncoderDecoder, ...]:
        """Network, or those of an ensemble."""
        ...

    def encode(
        self, texts: Sequence[str], to: Languages = None, *, raw: bool = False, name: str = "texts", first: int = 1
    ) -> list[list[int]]:
        """Return the source pieces of texts."""
        ...

    def check_lengths(self, sources: Sequence[Sequence[int]], name: str, first: int = 1) -> None:
        """Refuse a source for which the model has too few positions."""
        ...

    def check_targets(self, targets: Sequence[Sequence[int]], name: str, first: int = 1) -> None:
        """Refuse a target for which the model has too few positions."""
        ...

    def translate_detailed(
        self,
        texts: Iterable[str],
        *,
        nbest: int = 1,
        name: str = "texts",
        progress: ProgressCallback = lambda ready: None,
        **options: Unpack[SearchOptions],
    ) -> list[list[Translation]]:
        """Return the N best translations of each text."""
        ...


@dataclass(frozen=True)
class TranslationEvaluation:
    """Scores of a model on sentence pairs, and its translations."""

    translations: tuple[str, ...]
    references: tuple[Reference, ...]  # in the form in which they were scored: texts, or tuples of variants
    found: Mapping[str, SignedScore]  # BLEU and chrF, and what else was asked for, by name
    shown: tuple[MetricName, ...]  # names of the scores that were asked for
    exact: int  # number of translations equal to their reference, or to one of its variants
    likelihood: Likelihood  # likelihood of the references
    cut: int  # number of translations that were cut at the maximum length
    seconds: float  # time to translate
    decoded: int  # number of tokens of the translations, `</s>` included
    own: Mapping[str, float] = field(default_factory=dict)  # scores by metrics of the caller's program
    sources: tuple[str, ...] = field(default=(), kw_only=True)
    scoring: TextScoring = field(default=TextScoring(), kw_only=True)

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        return replace(self, own={**self.own, **score_outputs(metrics, self.translations, self.references)})

    @property
    def bleu(self) -> SignedScore:
        """BLEU of the translations."""
        return self.found["bleu"]

    @property
    def chrf(self) -> SignedScore:
        """The chrF of the translations."""
        return self.found["chrf"]

    @property
    def sentences(self) -> int:
        """Number of sources."""
        return len(self.translations)

    @property
    def perplexity(self) -> float:
        """Perplexity of the references."""
        return self.likelihood.perplexity

    @property
    def tokens_per_second(self) -> float:
        """Number of tokens decoded per second."""
        return self.decoded / self.seconds

    def scores(self) -> list[Score]:
        """Return the scores that were asked for, exact matches, and the perplexity of the references."""
        exact = f"{self.exact:,} of {self.sentences:,}"
        tokens = f"over {self.likelihood.tokens:,} target tokens"
        return [
            *(Score(name, one.name, one.score, note=one.signature) for name, one in self._shown()),
            Score("exact_match", "exact", self.exact / self.sentences, "percent", exact),
            Score("perplexity", "perplexity", self.perplexity, note=tokens),
            *(Score(name, name, value) for name, value in self.own.items()),
        ]

    def item_scores(self) -> ItemScores:
        """Return what each sentence adds to chrF and the scores that were asked for."""
        return score_texts("sentence", self.sources, self.translations, self.references, self.shown, self.scoring)

    def remarks(self) -> list[str]:
        """Return the time taken, and the number of translations that were cut."""
        cut = f", {self.cut:,} of them cut at the maximum length" if self.cut else ""
        speed = f"{self.tokens_per_second:,.0f} tokens/s"
        return [f"{self.sentences:,} sentences in {self.seconds:.1f} s{cut}, {speed}"]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        return {
            "sentences": self.sentences,
            **{name: {"score": one.score, "signature": one.signature} for name, one in self._shown()},
            "exact_match": self.exact / self.sentences,
            "perplexity": self.perplexity if math.isfinite(self.perplexity) else None,
            **({"metrics": dict(self.own)} if self.own else {}),
            "target_tokens": self.likelihood.tokens,
            "cut": self.cut,
            "seconds": round(self.seconds, 3),
            "tokens_per_second": round(self.tokens_per_second, 1),
        }

    def outputs(self) -> Iterator[str]:
        """Return the translations, one per line."""
        return map(one_line, self.translations)

    def _shown(self) -> Iterator[tuple[str, SignedScore]]:
        """Yield the scores that were asked for; exact matches are always shown, as a share."""
        return ((name, self.found[name]) for name in self.shown if name != "exact_match")


def evaluate(
    model: Translates,
    sources: Sequence[str],
    references: Sequence[Reference],
    *,
    name: str = "texts",
    progress: ProgressCallback = lambda ready: None,
    metrics: Sequence[str] | None = None,
    **options: Unpack[SearchOptions],
) -> TranslationEvaluation:
    """Translate the sources and compare with the references; also compute the perplexity of the references.

    A reference is a text, or a tuple of variants of which each is right. `metrics` are names of scores, by default
    those of the recipe's `evaluate.metrics`. A pair with a blank side counts in all scores but the perplexity, which
    is that of all variants. `name` is the corpus's name in messages.
    If the recipe sets `evaluate.detokenize`, detokenized text is compared. With the option `raw` both sides of the test
    set are ordinary text, and are compared as such.
    """
    check_one_each(len(sources), "source", len(references), "reference")
    if not any(source.strip() for source in sources):
        raise UserError(f"{name} has no sentence to translate.")
    shown = model.recipe.evaluate.metrics if metrics is None else metric_names(metrics)
    wording, raw = model.wording, options.get("raw", False)
    references = uniform(references)
    inputs = model.encode(sources, options.get("to"), raw=raw, name=name)
    languages = [wording.language(source) for source in inputs]
    split = _each_variant(wording.split_target, references, languages) if raw else references
    predicted = perplexity(model, inputs, split, name=name)
    began = time.perf_counter()
    found = [best for best, *_ in model.translate_detailed(sources, name=name, progress=progress, **options)]
    seconds = time.perf_counter() - began
    compared = compare(model, [best.text for best in found], references, languages, ("bleu", "chrf", *shown), raw)
    return TranslationEvaluation(
        compared.translations,
        compared.references,
        compared.scores,
        shown,
        count_exact(compared.translations, compared.references),
        predicted,
        cut=sum(not best.complete for best in found),
        seconds=seconds,
        decoded=sum(len(best.tokens) + best.complete for best in found),
        sources=tuple(sources),
        scoring=compared.scoring,
    )


@dataclass(frozen=True)
class Compared:
    """Translations and their references, both in the form in which they were scored."""

    translations: tuple[str, ...]
    references: tuple[Reference, ...]
    scores: Mapping[str, SignedScore]  # by name
    scoring: TextScoring


def compare(
    model: Translates,
    translations: Sequence[str],
    references: Sequence[Reference],
    languages: Sequence[str | None],
    names: Sequence[MetricName] = ("bleu", "chrf"),
    raw: bool = False,
) -> Compared:
    """Score translations by these metrics, as the model's recipe says; `raw` ones are already ordinary text."""
    recipe, wording = model.recipe, model.wording
    outputs = tuple(translations)
    expected = _each_variant(lambda text, _: wording.normalise(text), references, languages)
    if recipe.evaluate.detokenize and not raw:
        outputs = tuple(map(wording.ordinary, outputs, languages))
        expected = _each_variant(wording.ordinary, expected, languages)
    tokenize, lowercase = recipe.evaluate.bleu_tokenize, recipe.data.lowercase
    tokenize = "13a" if raw and tokenize == "none" else tokenize
    scoring = TextScoring(tokenize, lowercase, recipe.evaluate.one_word)

    def score(name: MetricName) -> SignedScore:
        if name == "bleu":
            return bleu(outputs, expected, tokenize, lowercase)
        if name == "chrf":
            return chrf(outputs, expected, lowercase)
        metric = build_metric(name, expected, *scoring)
        found = count_exact(outputs, expected) / len(outputs) if name == "exact_match" else metric.score(outputs)
        return SignedScore(metric.name, found, metric.signature)

    return Compared(outputs, expected, {name: score(name) for name in names}, scoring)


def count_exact(outputs: Sequence[str], references: Sequence[Reference]) -> int:
    """Count the outputs that equal their reference, or one of its variants."""
    return sum(output in variants_of(reference) for output, reference in zip(outputs, references, strict=True))


def _each_variant(
    change: Callable[[str, str | None], str], references: Sequence[Reference], languages: Sequence[str | None]
) -> tuple[Reference, ...]:
    """Change every variant of each reference by a function of it and its language."""
    return tuple(
        change(one, language) if isinstance(one, str) else tuple(change(variant, language) for variant in one)
        for one, language in zip(references, languages, strict=True)
    )


def perplexity(
    model: Translates, inputs: Sequence[Sequence[int]], references: Sequence[Reference], *, name: str
) -> Likelihood:
    """Return the likelihood of all variants of the references, given the sources' pieces.

    Pairs with a blank side are left out.
    """
    numbers = [len(variants_of(reference)) for reference in references]
    inputs = [source for source, number in zip(inputs, numbers, strict=True) for _ in range(number)]
    targets = model.wording.encode_target([text for reference in references for text in variants_of(reference)])
    model.check_lengths(inputs, name)
    model.check_targets(targets, name)
    pairs = [pair for pair in zip(inputs, targets, strict=True) if all(pair)]
    if not pairs:
        return Likelihood(0.0, 0)
    sources, outputs = [source for source, _ in pairs], [target for _, target in pairs]
    found = score_tokens(model.networks, sources, outputs, model.recipe.data.batch_tokens)
    return Likelihood(-sum(map(sum, found)), sum(map(len, found)))
