"""The tensors of Vision Transformers next to ours: a table that is read in both directions."""

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

from heedful.config.model.images import ImageTransformerTable
from heedful.interop.tensors import Pair, Turn, of_modules

# Our modules of a block, and their modules whose tensors are stacked into ours.
_IN_BLOCK: Final[Mapping[str, tuple[str, ...]]] = {
    "attention.project": ("attention.attention.query", "attention.attention.key", "attention.attention.value"),
    "attention.output": ("attention.output.dense",),
    "around_attention.before": ("layernorm_before",),
    "around_network.before": ("layernorm_after",),
    "network.into": ("intermediate.dense",),
    "network.out": ("output.dense",),
}
_LATER: Final[Mapping[str, str]] = {  # what version 5 of `transformers` calls these in memory, and some files store
    "vit.encoder.layer.": "vit.layers.",
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}
ENCODER: Final = "pooled.encoder"
PROJECTION: Final = "vit.embeddings.patch_embeddings.projection"
POSITIONS: Final = "vit.embeddings.position_embeddings"
_EMBEDDING: Final = f"{ENCODER}.embedding"


def pairs_of(table: ImageTransformerTable, scale: Sequence[float]) -> list[Pair]:
    """Return the pairs of a classifier; `scale` is what pixels are multiplied by to read them as theirs."""
    modules: dict[str, tuple[str, ...]] = {"output": ("classifier",), f"{ENCODER}.final": ("vit.layernorm",)}
    for layer in range(table.layers):
        for ours, theirs in _IN_BLOCK.items():
            modules[f"{ENCODER}.blocks.{layer}.{ours}"] = tuple(f"vit.encoder.layer.{layer}.{part}" for part in theirs)
    return [
        Pair(f"{_EMBEDDING}.stem.project.weight", (f"{PROJECTION}.weight",), (patches(table, scale),)),
        Pair(f"{_EMBEDDING}.stem.project.bias", (f"{PROJECTION}.bias",)),
        Pair(f"{_EMBEDDING}.positions.weight", (POSITIONS,), (_after_class,)),
        Pair(f"{_EMBEDDING}.class_token", ("vit.embeddings.cls_token",), (_one,)),
        *of_modules(modules),
    ]


def spellings_of(name: str) -> list[str]:
    """Return the names of a tensor: as folders store it, and as later versions call it."""
    found = [name]
    for old, new in _LATER.items():
        found += [called.replace(old, new, 1) for called in found if f".{old}" in f".{called}"]
    return list(dict.fromkeys(found))


def patches(table: ImageTransformerTable, scale: Sequence[float]) -> Turn:
    """Return the turn of the map of patches: theirs is a convolution, and reads pixels in a unit of its own."""
    width, side, channels = table.width, table.patch, table.channels
    unit = torch.tensor(scale)

    def to_ours(theirs: Tensor) -> Tensor:
        return (theirs.permute(0, 2, 3, 1) / unit).reshape(width, -1)

    def to_theirs(ours: Tensor) -> Tensor:
        whole = ours.reshape(width, side, side, channels)
        return (whole if whole.is_meta else whole * unit).permute(0, 3, 1, 2)

    return Turn(to_ours, to_theirs)


_one: Final = Turn(lambda theirs: theirs[0], lambda ours: ours[None])
# The position of the class token comes before those of the patches: `class_position` in ours.
_after_class: Final = Turn(
    lambda theirs: theirs[0, 1:], lambda ours: torch.cat([ours.new_zeros(1, ours.shape[1]), ours])[None]
)
