"""Maps ViT's tensors, by their Hugging Face names, to the parameters of our classifier of images."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import torch
from torch import Tensor

from heedful.config.model.images import ImageTransformerTable

# Our modules of a block, and their modules whose tensors are concatenated into ours, each with its older name first.
_IN_BLOCK: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "attention.project": (
        ("attention.attention.query", "attention.q_proj"),
        ("attention.attention.key", "attention.k_proj"),
        ("attention.attention.value", "attention.v_proj"),
    ),
    "attention.output": (("attention.output.dense", "attention.o_proj"),),
    "around_attention.before": (("layernorm_before",),),
    "around_network.before": (("layernorm_after",),),
    "network.into": (("intermediate.dense", "mlp.fc1"),),
    "network.out": (("output.dense", "mlp.fc2"),),
}
_BLOCKS: Final = ("vit.encoder.layer", "vit.layers")
_ENCODER: Final = "pooled.encoder"


class Tensors(Protocol):
    """The tensors of a file: see `CheckedWeights`."""

    def take_one(self, names: Sequence[str], *shape: int) -> Tensor:
        """Take a tensor of this shape that may have any of these names."""
        ...

    def take_or(self, default: Tensor, name: str) -> Tensor:
        """Take a tensor, or return the default where there is none."""
        ...


def vit_weights(
    tensors: Tensors,
    table: ImageTransformerTable,
    classes: int,
    mean: Sequence[float],
    deviation: Sequence[float],
    biased: bool = True,
) -> dict[str, Tensor]:
    """Return all parameters of our classifier.

    Theirs reads (pixel / 255 - mean) / deviation for each channel, ours pixel / 127.5 - 1: the map of patches is
    changed to make up for it. Without `biased`, queries, keys and values have no biases.
    """
    width, inner = table.width, table.inner
    weights = {f"output.{kind}": tensors.take_one([f"classifier.{kind}"], *shape) for kind, shape in (
        ("weight", (classes, width)), ("bias", (classes,)),
    )}  # fmt: skip
    weights |= _embedding(tensors, table, mean, deviation)
    for kind in ("weight", "bias"):
        weights[f"{_ENCODER}.final.{kind}"] = tensors.take_one([f"vit.layernorm.{kind}"], width)
    sizes = {"network.into": (inner, width), "network.out": (width, inner)}
    for layer in range(table.layers):
        for ours, theirs in _IN_BLOCK.items():
            rows, columns = sizes.get(ours, (width, width))
            for kind in ("weight", "bias"):
                shape = (rows,) if kind == "bias" or ours.startswith("around") else (rows, columns)
                optional = kind == "bias" and ours == "attention.project" and not biased
                parts = [
                    torch.zeros(shape)
                    if optional
                    else tensors.take_one(
                        [f"{block}.{layer}.{name}.{kind}" for name in part for block in _BLOCKS], *shape
                    )
                    for part in theirs
                ]
                weights[f"{_ENCODER}.blocks.{layer}.{ours}.{kind}"] = torch.cat(parts)
    return weights


def _embedding(
    tensors: Tensors, table: ImageTransformerTable, mean: Sequence[float], deviation: Sequence[float]
) -> dict[str, Tensor]:
    width, side = table.width, table.patch
    projection = "vit.embeddings.patch_embeddings.projection"
    theirs = tensors.take_one([f"{projection}.weight"], width, table.channels, side, side).permute(0, 2, 3, 1)
    scale, middle = torch.tensor(deviation), (0.5 - torch.tensor(mean)) / torch.tensor(deviation)
    positions = tensors.take_one(["vit.embeddings.position_embeddings"], 1, table.grid**2 + 1, width)[0]
    token = tensors.take_one(["vit.embeddings.cls_token"], 1, 1, width)[0]
    tensors.take_or(torch.empty(1, 1, width), "vit.embeddings.mask_token")  # of pre-training only
    bias = tensors.take_one([f"{projection}.bias"], width)
    return {
        f"{_ENCODER}.embedding.stem.project.weight": (theirs / (2 * scale)).reshape(width, -1),
        f"{_ENCODER}.embedding.stem.project.bias": bias + (theirs * middle).sum(dim=(1, 2, 3)),
        f"{_ENCODER}.embedding.positions.weight": positions[1:],
        f"{_ENCODER}.embedding.class_token": token + positions[:1],
    }
