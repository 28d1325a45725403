"""What the blocks of a Transformer cannot have where a format has only the usual ones: without torch."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from heedful.config.model.transformer import SITES, TransformerBlocks, TransformerModel
from heedful.interop.exports.formats import Refusal

Allowed = dict[str, Sequence[Any]]  # values of keys that a format can hold

_OF_ATTENTION: Final = ("alignment", "distribution", "choice")
# What no model of `transformers` has: it attends by a softmax of scaled dot products, to all positions.
PLAIN: Final[Allowed] = {
    "alignment": ("scaled_dot",),
    "distribution": ("softmax",),
    "choice": ("soft",),
    "embeddings": (1,),
}


def other_values(table: Any, where: str, allowed: Allowed, whose: str) -> Iterator[Refusal]:
    """Yield a refusal for each key of a table whose value is not allowed; `where` is the table's name in a recipe."""
    for key, values in allowed.items():
        value = getattr(table, key, values[0])
        if value not in values:
            usual = f"it is {_listed(values)}" if any(each is not None for each in values) else "there is none"
            yield Refusal(f"{where}.{key}", f"in {whose} {usual}, but here it is {_said(value)}")


def other_attention(table: TransformerBlocks, where: str, why: str, own: str = "") -> Iterator[Refusal]:
    """Yield what is not a softmax of scaled dot products; `own` is the key of a site with attention of its own."""
    if not table.plain:
        key = next(key for key in _OF_ATTENTION if getattr(table, key) != type(table).model_fields[key].default)
        yield Refusal(f"{where}.{own}.{key}" if own else f"{where}.{key}", why)


def attention_of_sites(model: TransformerModel, why: str) -> Iterator[Refusal]:
    """Yield the same for each place of a translator where it attends."""
    for site in SITES:
        own = f"{site}_attention" if getattr(model, f"{site}_attention") is not None else ""
        yield from other_attention(model.at(site), "model", why, own)


def other_heads(table: TransformerBlocks, where: str, whose: str, shared: bool) -> Iterator[Refusal]:
    """Yield refusals of heads that do not divide the width, and of shared ones if they must not be `shared`."""
    usual = table.width // table.heads if table.width % table.heads == 0 else 0
    for key in ("key_width", "value_width"):
        if (getattr(table, key) or usual) != usual:
            yield Refusal(f"{where}.{key}", f"in {whose} heads divide the width")
    if not shared and (table.key_value_heads or table.heads) != table.heads:
        yield Refusal(f"{where}.key_value_heads", f"in {whose} every head has keys and values of its own")


def _listed(values: Sequence[Any]) -> str:
    *first, last = dict.fromkeys(_said(value) for value in values if value is not None)
    return f"{', '.join(first)} or {last}" if first else last


def _said(value: Any) -> str:
    return json.dumps(value) if not hasattr(value, "model_dump") else "a table"
