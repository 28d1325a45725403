"""How masked language models answer: the filled text and candidates, as JSON, as columns and as lines."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from heedful.base.columns import one_line
from heedful.tasks.shared.answering.answers import Answers, Given

if TYPE_CHECKING:
    from heedful.tasks.fill.model import Filled, MaskFiller


def answers_of(filler: "MaskFiller", top: int = 5) -> "Answers[Filled]":
    """Return how a masked language model answers: `text` is what it wrote, and `source` what it was given."""
    return Answers(
        ("text",),
        lambda values, where: values["text"],
        partial(filler.stream, top=top),
        lambda found: {"filled": found.text, "masks": [list(map(asdict, candidates)) for candidates in found.masks]},
        ("filled",),
        _table,
        called={"text": "source"},
        formerly={"text": "filled"},
    )


def _table(found: "Filled", given: Given) -> str:
    """Write the filled text, then an indented line for each candidate, numbered by mask if there are several masks."""
    lines = [one_line(found.text)]
    width = max((len(candidate.piece) for mask in found.masks for candidate in mask), default=0)
    for number, candidates in enumerate(found.masks, start=1):
        before = f"{number}  " if len(found.masks) > 1 else ""
        lines += [f"  {before}{each.piece:<{width}}  {each.probability:.4f}" for each in candidates]
    return "\n".join(lines)
