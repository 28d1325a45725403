"""Evaluation of a captioner: its captions against the references, and how well it predicts these."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, Unpack

import numpy as np

from heedful.base.arguments import check_text, check_texts
from heedful.base.columns import one_line
from heedful.base.errors import UserError
from heedful.config.model.mixed import CaptionerModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.batches.images import ImageCollator
from heedful.data.corpora.images import Captioned, LabelledImage
from heedful.data.epochs.plan import batches_by_length
from heedful.data.images.decoding import Pixels
from heedful.data.prepare.images import image_streams
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.decode.search import ProgressCallback
from heedful.metrics.edits import Reference, uniform, variants_of
from heedful.metrics.language.perplexity import Likelihood, likelihood
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import ItemScores, Score
from heedful.metrics.summed_metrics import MetricName, TextScoring, build_metric, metric_names, score_texts
from heedful.metrics.translation import SignedScore, bleu, chrf
from heedful.models.networks import ImageCaptioner
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.caption.caption import Caption, CaptionOptions
from heedful.tasks.caption.data import CaptionCollator, CaptionStore
from heedful.tasks.shared.sequences.search_options import SearchRequest
from heedful.tasks.shared.streaming import chunks

_CHUNK = 256  # images that are in memory at once


class DescribesImages(Protocol):
    """What is asked of a captioner: see `Captioner`."""

    @property
    def recipe(self) -> Recipe:
        """Recipe that the model was trained with."""
        ...

    @property
    def vocabularies(self) -> Vocabularies:
        """The tokenizer of captions."""
        ...

    @property
    def network(self) -> ImageCaptioner:
        """The network."""
        ...

    def request(self, nbest: int, options: CaptionOptions) -> SearchRequest:
        """Return the options of a call, completed from the recipe."""
        ...

    def decode(self, images: Sequence[LabelledImage]) -> list[Pixels]:
        """Return the pixels of images, in the form that the model reads."""
        ...

    def describe(
        self, images: Sequence[Pixels], request: SearchRequest, first: int, progress: ProgressCallback
    ) -> list[list[Caption]]:
        """Search for the captions of images."""
        ...


@dataclass(frozen=True, kw_only=True)
class CaptionEvaluation:
    """Scores of a captioner on images with captions, and what it wrote."""

    captions: tuple[str, ...]
    found: tuple[Caption, ...]  # the same captions, in detail
    references: tuple[Reference, ...]  # texts, or tuples of captions of which each is right
    scored: Mapping[MetricName, SignedScore]  # by name
    exact: int  # number of captions equal to a reference
    likelihood: Likelihood  # of the references
    seconds: float  # time to describe the images
    own: Mapping[str, float] = field(default_factory=dict)  # scores by metrics of the caller's program
    files: tuple[str, ...] = ()  # the name of each image's file, or its place in an array
    scoring: TextScoring = field(default=TextScoring())

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        return replace(self, own={**self.own, **score_outputs(metrics, self.captions, self.references)})

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.captions)

    @property
    def exact_match(self) -> float:
        """Share of captions that equal a reference."""
        return self.exact / self.images

    @property
    def cut(self) -> int:
        """Number of captions that were cut at the maximum length."""
        return sum(not best.complete for best in self.found)

    def scores(self) -> list[Score]:
        """Return the scores that were asked for, exact matches, and the perplexity of the references."""
        exact = f"{self.exact:,} of {self.images:,}"
        tokens = f"over {self.likelihood.tokens:,} tokens"
        return [
            Score("exact_match", "exact", self.exact_match, "percent", exact),
            *(Score(name, one.name, one.score, note=one.signature) for name, one in self.scored.items()),
            Score("perplexity", "perplexity", self.likelihood.perplexity, note=tokens),
            *(Score(name, name, value) for name, value in self.own.items()),
        ]

    def item_scores(self) -> ItemScores:
        """Return what each image adds to chrF and the scores that were asked for."""
        return score_texts("image", self.files, self.captions, self.references, tuple(self.scored), self.scoring)

    def remarks(self) -> list[str]:
        """Return the time taken, and the number of captions that were cut."""
        cut = f", {self.cut:,} captions cut at the maximum length" if self.cut else ""
        speed = f"{self.images / self.seconds:,.0f} images/s"
        return [f"{self.images:,} images in {self.seconds:.1f} s{cut}, {speed}"]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        perplexity = self.likelihood.perplexity
        return {
            "images": self.images,
            **{name: {"score": one.score, "signature": one.signature} for name, one in self.scored.items()},
            "exact_match": self.exact_match,
            "perplexity": perplexity if math.isfinite(perplexity) else None,
            **({"metrics": dict(self.own)} if self.own else {}),
            "target_tokens": self.likelihood.tokens,
            "cut": self.cut,
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield the captions, one per line."""
        return map(one_line, self.captions)


def evaluate_captions(
    model: DescribesImages,
    rows: Sequence[Captioned],
    *,
    name: str = "images",
    progress: ProgressCallback = lambda ready: None,
    metrics: Sequence[str] | None = None,
    **options: Unpack[CaptionOptions],
) -> CaptionEvaluation:
    """Describe images and compare with their captions; `metrics` are names, by default those of the recipe.

    `name` is the corpus's name in messages. Blank captions are not references.
    """
    form, request = TextForm.of(model.recipe.data), model.request(1, options)
    references = [tuple(filter(str.strip, map(form, row.captions))) for row in rows]
    missing = next((row for row, several in zip(rows, references, strict=True) if not several), None)
    if not rows or missing is not None:
        raise UserError(
            f"{name} has no image to describe."
            if missing is None
            else f"{missing.image.where or name} has no caption to compare with: give one, or remove the row."
        )
    found: list[Caption] = []
    predicted, seconds = Likelihood(0.0, 0), 0.0
    for part in chunks(list(zip(rows, references, strict=True)), _CHUNK):
        pixels = model.decode([row.image for row, _ in part])
        predicted += caption_likelihood(model, pixels, [several for _, several in part])
        began = time.perf_counter()
        found += [best for best, *_ in model.describe(pixels, request, len(found) + 1, progress)]
        seconds += time.perf_counter() - began
    expected = uniform([several[0] if len(several) == 1 else several for several in references])
    texts = tuple(best.text for best in found)
    names = model.recipe.evaluate.metrics if metrics is None else metric_names(metrics)
    return CaptionEvaluation(
        captions=texts,
        found=tuple(found),
        references=expected,
        scored=score_captions(model.recipe, texts, expected, names),
        exact=count_exact(texts, expected),
        likelihood=predicted,
        seconds=seconds,
        files=tuple(row.image.where for row in rows),
        scoring=_scoring(model.recipe),
    )


def score_captions(
    recipe: Recipe, captions: Sequence[str], references: Sequence[Reference], names: Sequence[MetricName]
) -> dict[MetricName, SignedScore]:
    """Score captions by these metrics; exact matches are counted by themselves."""
    scoring = _scoring(recipe)

    def score(name: MetricName) -> SignedScore:
        if name == "bleu":
            return bleu(captions, references, scoring.bleu_tokenize, scoring.lowercase)
        if name == "chrf":
            return chrf(captions, references, scoring.lowercase)
        metric = build_metric(name, references, *scoring)
        return SignedScore(metric.name, metric.score(captions), metric.signature)

    return {name: score(name) for name in names if name != "exact_match"}


def _scoring(recipe: Recipe) -> TextScoring:
    return TextScoring(recipe.evaluate.bleu_tokenize, recipe.data.lowercase, recipe.evaluate.one_word)


def count_exact(captions: Sequence[str], references: Sequence[Reference]) -> int:
    """Count the captions that equal a reference."""
    return sum(caption in variants_of(reference) for caption, reference in zip(captions, references, strict=True))


def caption_likelihood(
    model: DescribesImages, images: Sequence[Pixels], references: Sequence[Sequence[str]]
) -> Likelihood:
    """Return the likelihood of all references, given their images."""
    table = model_of(model.recipe, CaptionerModel).encoder
    tokens = model.vocabularies["text"].encode_batch([text for several in references for text in several])
    numbers = [[number] for number, several in enumerate(references) for _ in several]
    store = CaptionStore(
        {"text": Ragged.of(tokens), "picture": Ragged.of(numbers)}, images=TokenStore(image_streams(images))
    )
    collator = CaptionCollator(ImageCollator(table.patch, table.class_token))
    costs = collator.costs([store], np.arange(len(tokens)))
    plan = batches_by_length(costs, batch_tokens=model.recipe.data.batch_tokens)
    with evaluation_mode(model.network):
        return likelihood(model.network, (collator.batch([store], indices) for indices in plan))


def captions_of(value: object, where: str) -> tuple[str, ...]:
    """Return the caption that a program gave, or its list of captions."""
    if isinstance(value, str):
        return (check_text(value, f"{where}: the caption"),)
    return tuple(check_texts(value, f"{where}: the captions"))
