"""The explorer: explanations of one or several texts as a page in one file."""

from collections.abc import Sequence
from typing import Any, Final

from heedful.errors import UserError
from heedful.pages.html import write_page
from heedful.pages.packing import pack
from heedful.tasks.shared.explaining.explanation import Explanation

_TITLES: Final = {
    "translate": "How a translation came about",
    "classify": "How a text was classified",
    "fill": "How masks were filled",
    "generate": "How a text was predicted",
}
_MOST: Final = 40_000_000  # weights of a page: more would be hundreds of megabytes


def explorer_page(explanations: Sequence[Explanation], model: str) -> str:
    """Return the page of some explanations of a model, which has this name."""
    weights = sum(one.weights.size for found in explanations for one in found.attentions)
    if weights > _MOST:
        raise UserError(
            f"The page would have {weights:,} weights, but at most {_MOST:,} fit: explain fewer or shorter texts."
        )
    first = explanations[0]
    lead = (
        f"{model}: {first.family}, task {first.task}. Point at words, choose layers and heads, download every picture."
    )
    title = _TITLES.get(first.task, "What a model attended to")
    return write_page(title, lead, "explorer.js", {"items": [_item(one) for one in explanations]})


def _item(found: Explanation) -> dict[str, Any]:
    """Return an explanation for `explorer.js`: as its JSON, with packed weights."""
    described = found.to_json(weights=False)
    for one, written in zip(found.attentions, described["attentions"], strict=True):
        written.update(pack(one.weights))
    return described
