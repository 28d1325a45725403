"""All alignments by name."""

from collections.abc import Mapping
from typing import Any, Final

from heedful.nn.alignments.area import Area
from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.networks import Additive, Deep, Location
from heedful.nn.alignments.products import ActivatedGeneral, BiasedGeneral, Content, Dot, General, ScaledDot
from heedful.nn.alignments.random_features import Kernel

ALIGNMENTS: Final[Mapping[str, type[Alignment]]] = {
    "content": Content,
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "biased_general": BiasedGeneral,
    "activated_general": ActivatedGeneral,
    "kernel": Kernel,
    "additive": Additive,
    "deep": Deep,
    "location": Location,
    "area": Area,
}


def make_alignment(name: str, query_width: int, key_width: int, heads: int, **options: Any) -> Alignment:
    """Make an alignment by name; its class declares its options and requirements."""
    if name not in ALIGNMENTS:
        raise ValueError(f"there is no alignment `{name}`: it must be one of {', '.join(ALIGNMENTS)}")
    return ALIGNMENTS[name](query_width, key_width, heads, **options)
