"""What Vision Transformers of `transformers` cannot hold: without torch."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.recipe import Recipe
from heedful.interop.exports.formats import Refusal
from heedful.interop.exports.stack_refusals import PLAIN, Allowed, other_heads, other_values

_WHERE: Final = "model.encoder"
_STACK: Final[Allowed] = {
    **PLAIN,
    "norm": ("pre",),
    "norm_kind": ("layer",),
    "final_norm": (None, True),
    "bias": (True,),
    "activation": ("gelu", "gelu_tanh", "relu", "silu"),
    "stem": ("patches",),
    "class_token": (True,),
    "positions": ("learned",),
}


def refusals(recipe: Recipe) -> Iterator[Refusal]:
    """Yield the keys whose values ViT does not have, each with the reason."""
    model: Any = recipe.model
    if model.encoder.family != "vit":
        yield Refusal(
            f"{_WHERE}.family", f'transformers has encoders like "vit" only, not like "{model.encoder.family}"'
        )
        return
    yield from other_values(model.encoder, _WHERE, _STACK, "ViT")
    yield from other_heads(model.encoder, _WHERE, "ViT", shared=False)
    yield from other_values(model, "model", {"head_hidden": (None,)}, "ViT")
    if model.encoder.class_token and model.pooled_by != "first":
        yield Refusal("model.pool", 'in ViT it is "first", but here it is another')
    side = model.encoder.grid * model.encoder.patch
    if recipe.data.images.size not in (None, (side, side)):
        why = f"in ViT images have `grid` times `patch` pixels on each side, which is {side:,}"
        yield Refusal("data.images", why)
    yield from other_values(recipe.data.images, "data.images", {"fit": ("stretch",)}, "ViT")
