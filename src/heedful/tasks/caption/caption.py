"""The caption of an image, and the options of a call that writes captions."""

from dataclasses import dataclass
from typing import Annotated

from heedful.base.options import Option
from heedful.config.decode import SAMPLING, DecodeOptions, Sampling

Patch = tuple[int, int]  # row and column of a patch, from 0


@dataclass(frozen=True)
class Caption:
    """One caption of an image."""

    text: str
    score: float  # score that captions are ranked by: log P divided by the length penalty, plus coverage penalty
    tokens: tuple[int, ...]  # tokens of the vocabulary
    complete: bool  # False if it was cut at the maximum length
    log_probability: float = 0.0
    pieces: tuple[str, ...] = ()  # tokens in readable form
    # For each token the patch that had the greatest weight when it was chosen; None for one that attended to the
    # class token most. Only if it was requested.
    patches: tuple[Patch | None, ...] | None = None


class CaptionOptions(DecodeOptions, total=False):
    """Keys of the recipe's [decode], and options that a recipe does not have."""

    sampling: Annotated[Sampling | None, SAMPLING]
    aligned: Annotated[bool, Option("Also find the patch that each piece attended to most.", False)]
