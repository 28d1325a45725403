"""From what a recipe says of attention to an alignment and a distribution, for every family that attends."""

from collections.abc import Callable
from typing import Any, cast

from torch import Tensor

from heedful.config.model.attention import AlignmentName, Attending
from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.distributions import DISTRIBUTIONS, Distribution, GumbelHard, Hard, l1_distance
from heedful.nn.alignments.table import make_alignment


def build_alignment(
    config: Attending, name: AlignmentName, query_width: int, key_width: int, heads: int = 1, seed: int = 0
) -> Alignment:
    """The alignment of all heads. `seed` is of random features, which weights in a file do not hold."""
    options: dict[str, Any] = {}
    match name:
        case "kernel":
            options = {"features": config.features, "seed": seed}
        case "area":
            options = {"largest": config.area}
        case "location":
            options = {"max_length": config.max_places}
    return make_alignment(name, query_width, key_width, heads, **options)


def build_distribution(config: Attending, key_width: int, heads: int = 1) -> Callable[..., Tensor]:
    """The distribution of all heads, or one key drawn by it; de-attention divides distances as scores are divided."""
    options: dict[str, Any] = {}
    match config.distribution:
        case "entmax":
            options = {"alpha": config.alpha}
        case "learned_entmax":
            options = {"heads": heads}
        case "de_attention":
            options = {"distance_factor": key_width**-0.5}
    made = DISTRIBUTIONS[config.distribution].make(**options)
    match config.choice:
        case "soft":
            return made
        case "hard":
            return Hard(cast(Distribution, made))  # the schema refuses those that ask for distances
        case "gumbel":
            return GumbelHard(cast(Distribution, made), config.temperature)


def build_distance(config: Attending) -> Callable[[Tensor, Tensor], Tensor] | None:
    """What measures queries and keys, where the distribution asks for it."""
    return l1_distance if DISTRIBUTIONS[config.distribution].needs_distance else None
