"""Evaluation of a captioner: its captions against the references, and how well it predicts these."""

from dataclasses import dataclass

from heedful.tasks.caption.caption import Caption
from heedful.tasks.shared.sequences.text_evaluation import TextEvaluation


@dataclass(frozen=True, eq=False, kw_only=True)
class CaptionEvaluation(TextEvaluation):
    """Scores of a captioner on images with captions, and what it wrote."""

    unit = "image"
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

    def remarks(self) -> list[str]:
        """Return the time taken, and the number of captions that were cut."""
        cut = f", {self.cut:,} captions cut at the maximum length" if self.cut else ""
        speed = f"{self.images / self.seconds:,.0f} images/s"
        return [f"{self.images:,} images in {self.seconds:.1f} s{cut}, {speed}"]
