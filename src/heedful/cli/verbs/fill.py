"""`heedful fill MODEL [FILE|TEXT...]`: the most likely tokens for each [MASK]."""

from typing import TYPE_CHECKING, Annotated

from heedful.cli.answering.asked import AnsweringTexts
from heedful.cli.options import json_option, option, with_option_groups
from heedful.tasks.fill.answers import answers_of

if TYPE_CHECKING:
    pass


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
    with asked.loading(sources) as place:
        from heedful.tasks.fill.model import MaskFiller  # after the quick checks: importing torch takes seconds

        filler = MaskFiller.load(*place, adapter=asked.adapter)
    asked.write("filling", sources, answers_of(filler, top), as_json=as_json)
