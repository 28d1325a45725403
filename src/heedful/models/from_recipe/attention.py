"""From a recipe's keys for attention to an alignment and a distribution, for every family that attends."""

from collections.abc import Callable
from typing import Any, assert_never, cast

from torch import Tensor

from heedful.config.model.attention import AlignmentName, Attending, Weighting
from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.distributions import DISTRIBUTIONS, Distribution, GumbelHard, Hard, l1_distance
from heedful.nn.alignments.reinforce import Reinforced
from heedful.nn.alignments.table import make_alignment


def build_alignment(
    config: Weighting, name: AlignmentName, query_width: int, key_width: int, heads: int = 1, seed: int = 0
) -> Alignment:
    """Return the alignment of all heads. `seed` draws random features, which a file of weights does not hold."""
    activation = {} if config.score_activation is None else {"activation": config.score_activation}
    options: dict[str, dict[str, Any]] = {
        "general": {"scaled": config.score_scale},
        "biased_general": {"scaled": config.score_scale},
        "activated_general": {"scaled": config.score_scale, **activation},
        "deep": {"depth": config.score_depth, **activation},
        "kernel": {"features": config.features, "seed": seed, "feature_map": config.feature_map},
        "area": {"largest": config.area},
        "location": {"max_length": config.max_places if isinstance(config, Attending) else None},
    }
    return make_alignment(name, query_width, key_width, heads, **options.get(name, {}))


def build_distribution(config: Weighting, key_width: int, heads: int = 1) -> Callable[..., Tensor]:
    """Return the distribution of all heads, or a choice of one key by it; de-attention scales distances like scores."""
    options: dict[str, dict[str, Any]] = {
        "entmax": {"alpha": config.alpha},
        "learned_entmax": {"heads": heads},
        "de_attention": {"distance_factor": key_width**-0.5, "gate": config.gate},
    }
    made = DISTRIBUTIONS[config.distribution].make(**options.get(config.distribution, {}))
    match config.choice:
        case "soft":
            return made
        case "hard":
            return Hard(cast(Distribution, made))  # the schema refuses those that need distances
        case "gumbel":
            return GumbelHard(cast(Distribution, made), config.temperature)
        case "reinforce":
            return Reinforced(cast(Distribution, made))
        case _:
            assert_never(config.choice)


def build_distance(config: Weighting) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return what measures queries and keys, if the distribution needs it."""
    return l1_distance if DISTRIBUTIONS[config.distribution].needs_distance else None
