"""What a parser finds for a sentence."""

from dataclasses import dataclass
from typing import Final

from heedful.base.trees import Tree


@dataclass(frozen=True)
class Parse:
    """A tree over the words of a sentence, and its probability."""

    words: tuple[str, ...]
    tree: Tree | None  # None for a blank sentence, or for brackets that are not a tree over its words
    log_probability: float
    score: float  # by which parses of a sentence are ranked


BLANK: Final = Parse((), None, 0.0, 0.0)
