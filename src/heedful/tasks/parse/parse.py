"""What a parser finds for a sentence, and the options of a call that parses."""

from dataclasses import dataclass
from typing import Annotated, Final

from heedful.base.options import Option
from heedful.base.trees import Tree
from heedful.config.decode import SAMPLING, DecodeOptions, Sampling


@dataclass(frozen=True)
class Parse:
    """A tree over the words of a sentence, and its probability."""

    words: tuple[str, ...]
    tree: Tree | None  # None for a blank sentence, or for brackets that are not a tree over its words
    log_probability: float
    score: float  # by which parses of a sentence are ranked


BLANK: Final = Parse((), None, 0.0, 0.0)


class ParseOptions(DecodeOptions, total=False):
    """Keys of the recipe's [decode], and options that a recipe does not have."""

    sampling: Annotated[Sampling | None, SAMPLING]
    unconstrained: Annotated[
        bool, Option("Also allow sequences that are not trees over the words, which then give no tree.", False)
    ]
