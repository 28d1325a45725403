"""The translation of a text."""

from dataclasses import dataclass
from typing import Final

from heedful.tasks.translate.alignment import Alignment


@dataclass(frozen=True)
class Translation:
    """One translation of a text."""

    text: str
    score: float  # score that translations are ranked by: log P divided by the length penalty, plus coverage penalty
    tokens: tuple[int, ...]  # tokens of the target vocabulary
    complete: bool  # False if it was cut at the maximum length
    log_probability: float = 0.0
    alignment: Alignment | None = None  # only if it was requested


BLANK: Final = Translation("", 0.0, (), True)
