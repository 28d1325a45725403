"""What encoders of `transformers` cannot hold: without torch."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.recipe import Recipe
from heedful.interop.exports.formats import Refusal
from heedful.interop.exports.stack_refusals import PLAIN, Allowed, other_heads, other_values
from heedful.interop.transformers.encoders.kinds import DISTILBERT, encoder_of, kind_of

_STACK: Final[Allowed] = {
    **PLAIN,
    "norm": ("post",),
    "norm_kind": ("layer",),
    "final_norm": (None, False),
    "bias": (True,),
    "projection_bias": (None, True),
    "activation": ("gelu", "gelu_tanh", "relu", "silu"),
    "positions": ("learned",),
    "attention_radius": (None,),
    "embedding_scale": (False,),
    "embedding_norm": (True,),
}
_TAGGER: Final[Allowed] = {"head_hidden": (None,), "letters": (None,), "crf": (False,), "feedback": ("none",)}
_READER: Final[Allowed] = {"head_hidden": (None,), "mark_matches": (False,)}


def refusals(recipe: Recipe) -> Iterator[Refusal]:
    """Yield the keys whose values BERT and its kin do not have, each with the reason."""
    model, table = recipe.model, encoder_of(recipe)
    where = "model" if model.family == "bert" else "model.encoder"
    if table.family not in ("bert", "transformer"):
        yield Refusal(f"{where}.family", f'transformers has encoders like "bert" only, not like "{table.family}"')
        return
    kind = kind_of(recipe)
    yield from other_values(table, where, _STACK, kind.title)
    yield from other_heads(table, where, kind.title, shared=False)
    match model.family:
        case "classifier" | "regressor":
            yield from _pooled(model, kind.title, kind is DISTILBERT)
        case "tagger":
            yield from other_values(model, "model", _TAGGER, kind.title)
        case "reader":
            yield from other_values(model, "model", _READER, kind.title)
        case _:
            pass
    if recipe.data.cut == "middle":
        yield Refusal("data.cut", "transformers cuts texts at their start or end, and not in the middle")


def _pooled(model: Any, title: str, distilled: bool) -> Iterator[Refusal]:
    yield from other_values(model, "model", {"join": ("sequence",)}, title)
    if model.pooled_by != "first":
        yield Refusal("model.pool", f'in {title} it is "first", but here it is another')
    if not distilled:
        yield from other_values(model, "model", {"pooler": (True,), "head_hidden": (None,)}, title)
