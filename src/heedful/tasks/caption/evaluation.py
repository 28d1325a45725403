"""Evaluation of a captioner: its captions against the references, and how well it predicts these."""

from dataclasses import dataclass

from heedful.tasks.caption.caption import Caption
from heedful.tasks.shared.sequences.text_evaluation import TextEvaluation


@dataclass(frozen=True, eq=False, kw_only=True)
class CaptionEvaluation(TextEvaluation):
    """Scores of a captioner on images with captions, and what it wrote."""

    unit = "image"
    named = "captions"
    exact_first = True

    best: tuple[Caption, ...]

    @property
    def captions(self) -> tuple[str, ...]:
        """Captions of the images."""
        return self.texts

    @property
    def images(self) -> int:
        """Number of images."""
        return len(self.texts)
