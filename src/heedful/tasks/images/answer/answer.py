"""The answer to a question about an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class ImageAnswer:
    """The answer to a question about an image: the most likely one of those that training had."""

    text: str
    probability: float
    probabilities: Mapping[str, float]  # of every answer, most likely first


def image_answers(scores_QC: Float[Tensor, "Q C"], answers: Sequence[str]) -> list[ImageAnswer]:
    """Turn scores of these answers into the answers to questions."""
    found = []
    for row in scores_QC.softmax(dim=1).tolist():
        ranked = sorted(zip(answers, row, strict=True), key=lambda share: -share[1])
        found.append(ImageAnswer(*ranked[0], dict(ranked)))
    return found
