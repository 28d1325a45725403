"""`heedful fill MODEL [FILE|TEXT...]`: the most likely tokens for each [MASK]."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

from heedful.base.columns import one_line
from heedful.cli.answering import AnsweringTexts
from heedful.cli.answers import Answers, Given
from heedful.cli.options import json_option, option, with_option_groups

if TYPE_CHECKING:
    from heedful.tasks.fill.model import Filled, MaskFiller


@with_option_groups
def command(
    asked: AnsweringTexts,
    top: Annotated[int, option("Number of tokens: the most likely ones for each mask.", metavar="N", min=1)] = 5,
    as_json: Annotated[bool, json_option("one object per line, with the text, and the tokens for each mask")] = False,
) -> None:
    """Fill in the masks of texts: each text with the most likely tokens, then a list of candidates for each mask.

    A mask is written `[MASK]` or `<mask>`. Several masks in one text are predicted in one pass, independently of each
    other. A blank line stays blank.
    """
    asked.check_task("fill")
    sources = asked.sources(as_json)
    with asked.loading() as place:
        from heedful.tasks.fill.model import MaskFiller  # after the quick checks: importing torch takes seconds

        filler = MaskFiller.load(*place)
    asked.write("filling", sources, answers_of(filler, top), as_json=as_json)


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
