"""Evaluation of a translator on sentence pairs: its translations, and how well it predicts the references."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heedful.metrics.edits import Reference
from heedful.metrics.translation import SignedScore
from heedful.tasks.shared.sequences.text_evaluation import TextEvaluation
from heedful.tasks.translate.translation import Translation


@dataclass(frozen=True, eq=False, kw_only=True)
class TranslationEvaluation(TextEvaluation):
    """Scores of a model on sentence pairs, and its translations."""

    unit = "sentence"
    tokens = "target tokens"

    best: tuple[Translation, ...]

    @property
    def translations(self) -> tuple[str, ...]:
        """Translations, in the form in which they were scored."""
        return self.texts

    @property
    def bleu(self) -> SignedScore:
        """BLEU of the translations."""
        return self.signed("bleu")

    @property
    def chrf(self) -> SignedScore:
        """The chrF of the translations."""
        return self.signed("chrf")

    @property
    def sentences(self) -> int:
        """Number of sources."""
        return len(self.texts)

    @property
    def decoded(self) -> int:
        """Number of tokens of the translations, `</s>` included."""
        return sum(len(best.tokens) + best.complete for best in self.best)

    @property
    def tokens_per_second(self) -> float:
        """Number of tokens decoded per second."""
        return self.decoded / self.seconds

    @property
    def speed(self) -> str:
        """Tokens per second, in words."""
        return f"{self.tokens_per_second:,.0f} tokens/s"

    def facts(self) -> dict[str, object]:
        """Return the speed."""
        return {"tokens_per_second": round(self.tokens_per_second, 1)}


def each_variant(
    change: Callable[[str, str | None], str], references: Sequence[Reference], languages: Sequence[str | None]
) -> tuple[Reference, ...]:
    """Change every variant of each reference by a function of it and its language."""
    return tuple(
        change(one, language) if isinstance(one, str) else tuple(change(variant, language) for variant in one)
        for one, language in zip(references, languages, strict=True)
    )
