"""Evaluation of a translator on sentence pairs: its translations, and how well it predicts the references."""

import math
import operator
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, Unpack

from heedful.arguments import check_one_each
from heedful.columns import one_line
from heedful.config.recipe import Recipe
from heedful.decode.search import ProgressCallback
from heedful.errors import UserError
from heedful.metrics.language.perplexity import Likelihood
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import Score
from heedful.metrics.translation import SignedScore, bleu, chrf
from heedful.models.networks import EncoderDecoder
from heedful.tasks.shared.sequences.search_options import SearchOptions
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
    references: tuple[str, ...]  # references in the form in which they were scored
    bleu: SignedScore
    chrf: SignedScore
    exact: int  # number of translations equal to their reference
    likelihood: Likelihood  # likelihood of the references
    cut: int  # number of translations that were cut at the maximum length
    seconds: float  # time to translate
    decoded: int  # number of tokens of the translations, `</s>` included
    own: Mapping[str, float] = field(default_factory=dict)  # scores by metrics of the caller's program

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        return replace(self, own={**self.own, **score_outputs(metrics, self.translations, self.references)})

    @property
    def sentences(self) -> int:
        """Number of pairs."""
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
        """Return BLEU and chrF with their signatures, exact matches, and the perplexity of the references."""
        exact = f"{self.exact:,} of {self.sentences:,}"
        tokens = f"over {self.likelihood.tokens:,} target tokens"
        return [
            Score("bleu", "BLEU", self.bleu.score, note=self.bleu.signature),
            Score("chrf", "chrF", self.chrf.score, note=self.chrf.signature),
            Score("exact_match", "exact", self.exact / self.sentences, "percent", exact),
            Score("perplexity", "perplexity", self.perplexity, note=tokens),
            *(Score(name, name, value) for name, value in self.own.items()),
        ]

    def remarks(self) -> list[str]:
        """Return the time taken, and the number of translations that were cut."""
        cut = f", {self.cut:,} of them cut at the maximum length" if self.cut else ""
        speed = f"{self.tokens_per_second:,.0f} tokens/s"
        return [f"{self.sentences:,} sentences in {self.seconds:.1f} s{cut}, {speed}"]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        return {
            "sentences": self.sentences,
            "bleu": {"score": self.bleu.score, "signature": self.bleu.signature},
            "chrf": {"score": self.chrf.score, "signature": self.chrf.signature},
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


def evaluate(
    model: Translates,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    name: str = "texts",
    progress: ProgressCallback = lambda ready: None,
    **options: Unpack[SearchOptions],
) -> TranslationEvaluation:
    """Translate the sources and compare with the references; also compute the perplexity of the references.

    A pair with a blank side counts in BLEU and chrF, not in the perplexity. `name` is the corpus's name in messages.
    If the recipe sets `evaluate.detokenize`, detokenized text is compared. With the option `raw` both sides of the test
    set are ordinary text, and are compared as such.
    """
    check_one_each(len(sources), "source", len(references), "reference")
    if not any(source.strip() for source in sources):
        raise UserError(f"{name} has no sentence to translate.")
    wording, raw = model.wording, options.get("raw", False)
    inputs = model.encode(sources, options.get("to"), raw=raw, name=name)
    languages = [wording.language(source) for source in inputs]
    split = tuple(map(wording.split_target, references, languages)) if raw else references
    predicted = perplexity(model, inputs, split, name=name)
    began = time.perf_counter()
    found = [best for best, *_ in model.translate_detailed(sources, name=name, progress=progress, **options)]
    seconds = time.perf_counter() - began
    compared = compare(model, [best.text for best in found], references, languages, raw)
    return TranslationEvaluation(
        compared.translations,
        compared.references,
        compared.bleu,
        compared.chrf,
        sum(map(operator.eq, compared.translations, compared.references)),
        predicted,
        cut=sum(not best.complete for best in found),
        seconds=seconds,
        decoded=sum(len(best.tokens) + best.complete for best in found),
    )


@dataclass(frozen=True)
class Compared:
    """Translations and their references, both in the form in which they were scored."""

    translations: tuple[str, ...]
    references: tuple[str, ...]
    bleu: SignedScore
    chrf: SignedScore


def compare(
    model: Translates,
    translations: Sequence[str],
    references: Sequence[str],
    languages: Sequence[str | None],
    raw: bool = False,
) -> Compared:
    """Score translations as the model's recipe says; `raw` ones are already ordinary text."""
    recipe, wording = model.recipe, model.wording
    outputs, expected = tuple(translations), tuple(map(wording.normalise, references))
    if recipe.evaluate.detokenize and not raw:
        outputs, expected = (tuple(map(wording.ordinary, texts, languages)) for texts in (outputs, expected))
    tokenize, lowercase = recipe.evaluate.bleu_tokenize, recipe.data.lowercase
    return Compared(
        outputs,
        expected,
        bleu(outputs, expected, "13a" if raw and tokenize == "none" else tokenize, lowercase),
        chrf(outputs, expected, lowercase),
    )


def perplexity(
    model: Translates, inputs: Sequence[Sequence[int]], references: Sequence[str], *, name: str
) -> Likelihood:
    """Return the likelihood of the references, given the sources' pieces; pairs with a blank side are left out."""
    targets = model.wording.encode_target(references)
    model.check_lengths(inputs, name)
    model.check_targets(targets, name)
    pairs = [pair for pair in zip(inputs, targets, strict=True) if all(pair)]
    if not pairs:
        return Likelihood(0.0, 0)
    sources, outputs = [source for source, _ in pairs], [target for _, target in pairs]
    found = score_tokens(model.networks, sources, outputs, model.recipe.data.batch_tokens)
    return Likelihood(-sum(map(sum, found)), sum(map(len, found)))
