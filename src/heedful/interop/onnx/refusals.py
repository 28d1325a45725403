"""What models of ONNX cannot hold: without torch."""

from collections.abc import Iterator

from heedful.config.recipe import Recipe
from heedful.interop.exports.formats import Refusal
from heedful.interop.graphs import refusals as of_graphs


def refusals(recipe: Recipe) -> Iterator[Refusal]:
    """Yield the keys whose values no graph has, each with the reason."""
    return of_graphs.refusals(recipe)
