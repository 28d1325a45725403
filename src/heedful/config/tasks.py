"""What models are trained for, and what each is judged by."""

from collections.abc import Mapping
from typing import Final, Literal

Task = Literal["translate", "classify", "fill"]
Metric = Literal["loss", "perplexity", "bleu", "chrf", "accuracy", "f1"]

METRICS: Final[Mapping[Task, tuple[Metric, ...]]] = {
    "translate": ("loss", "perplexity", "bleu", "chrf"),
    "classify": ("loss", "accuracy", "f1"),
    "fill": ("loss", "perplexity", "accuracy"),
}
HIGHER_IS_BETTER: Final[tuple[Metric, ...]] = ("bleu", "chrf", "accuracy", "f1")


def counted_tokens(task: Task) -> str:
    """What the tokens are called that speed is counted in."""
    return "target tokens" if task == "translate" else "tokens"


def vocabulary_names(task: Task) -> tuple[str, ...]:
    """Return the names of a task's vocabularies."""
    return ("source", "target") if task == "translate" else ("text",)
