"""BERT's tensors, by the names of Hugging Face, become the parameters of our masked language model."""

import re
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

# Our modules, and theirs that make one up, end to end. Each has a weight, and most a bias.
_BESIDE_BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "encoder.embedding.norm": ("bert.embeddings.LayerNorm",),
    "head.linear": ("cls.predictions.transform.dense",),
    "head.norm": ("cls.predictions.transform.LayerNorm",),
    "pooler.linear": ("bert.pooler.dense",),
    "follows": ("cls.seq_relationship",),  # both have "follows" first
}
_IN_BLOCK: Final[Mapping[str, tuple[str, ...]]] = {
    "attention.project": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "around_attention.after": ("attention.output.LayerNorm",),
    "network.into": ("intermediate.dense",),
    "network.out": ("output.dense",),
    "around_network.after": ("output.LayerNorm",),
}
_SINGLE: Final[Mapping[str, tuple[str, ...]]] = {
    "encoder.embedding.weight": ("bert.embeddings.word_embeddings.weight",),
    "encoder.embedding.positions.weight": ("bert.embeddings.position_embeddings.weight",),
    "encoder.embedding.segments": ("bert.embeddings.token_type_embeddings.weight",),
    "head.output.bias": ("cls.predictions.bias",),
}
_OTHERWISE_CALLED: Final = (  # in older files, in those of the encoder alone, and where a shared tensor is kept once
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
    (re.compile(r"^(?=(embeddings|encoder|pooler)\.)"), "bert."),
    (re.compile(r"^cls\.predictions\.decoder\.bias$"), "cls.predictions.bias"),
)


def bert_names(layers: int) -> dict[str, tuple[str, ...]]:
    """Our parameters of a model of so many blocks, and their tensors that make each up, end to end."""
    modules = dict(_BESIDE_BLOCKS)
    for layer in range(layers):
        for ours, theirs in _IN_BLOCK.items():
            modules[f"encoder.blocks.{layer}.{ours}"] = tuple(f"bert.encoder.layer.{layer}.{part}" for part in theirs)
    of_modules = {
        f"{ours}.{kind}": tuple(f"{part}.{kind}" for part in theirs)
        for ours, theirs in modules.items()
        for kind in ("weight", "bias")
    }
    return {**_SINGLE, **of_modules}


def bert_weights(tensors: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Our parameters from BERT's tensors. One that they do not make up whole is left out: a model knows what it lacks.

    What has no place in a model of so many blocks is not looked at, such as an output matrix, which is the embedding's.
    """
    found = {_as_today(name): tensor for name, tensor in tensors.items()}
    return {
        ours: torch.cat([found[name] for name in theirs])
        for ours, theirs in bert_names(layers).items()
        if all(name in found for name in theirs)
    }


def _as_today(name: str) -> str:
    for pattern, called in _OTHERWISE_CALLED:
        name = pattern.sub(called, name)
    return name
