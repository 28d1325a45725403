"""The graphs of a model: what they compute, their inputs and outputs, and which sizes are free."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from heedful.interop.graphs.modules import (
    MaskedScores,
    PooledPixels,
    PooledTexts,
    SourceMemory,
    TargetStep,
    TextStep,
    TokenScores,
    prepared,
)
from heedful.models.bundle import Bundle
from heedful.models.networks import (
    EncoderDecoder,
    LanguageModel,
    MaskedModel,
    PooledNetwork,
    SpanReader,
    WordClassifier,
)

LONGEST: Final = 1024  # tokens of a text, where positions have no limit of their own
MOST: Final = 4096  # rows of a batch

ENCODER, DECODER, MODEL = "encoder", "decoder", "model"  # names of graphs


@dataclass(frozen=True)
class Graph:
    """A module of plain tensors, and what it is traced with."""

    module: nn.Module
    inputs: Mapping[str, Tensor]  # examples, by name
    free: Mapping[str, Mapping[int, str]]  # dimensions of inputs that may have any size, and what it counts
    outputs: tuple[str, ...]


def bounds_of(longest: int) -> Mapping[str, tuple[int, int]]:
    """Return the least and the most of everything that free dimensions count."""
    return {"batch": (1, MOST), "length": (1, longest), "past": (0, longest - 1)}


def longest_of(bundle: Bundle[nn.Module]) -> int:
    """Return the maximum number of tokens of a text, its markers included."""
    end = bundle.recipe.model.longest
    return max(LONGEST, bundle.recipe.data.max_length + 2) if end is None else end[0]


def image_size(bundle: Bundle[nn.Module]) -> tuple[int, int]:
    """Return the height and width of images."""
    size = bundle.recipe.data.images.size
    if size is None:
        encoder = cast(Any, bundle.recipe.model).encoder
        size = (encoder.grid * encoder.patch,) * 2
    return size


def graphs_of(bundle: Bundle[nn.Module]) -> dict[str, Graph]:
    """Return the graphs of a model by their names."""
    network = prepared(bundle.model, longest_of(bundle))
    match network:
        case EncoderDecoder():
            return _of_translator(network)
        case LanguageModel():
            cache = torch.zeros(_cache_shape(network, rows=2, past=3))
            free = {"tokens": {0: "batch"}, "cache": {2: "batch", 4: "past"}}
            step = TextStep(network)
            return {DECODER: Graph(step, {"tokens": torch.tensor([4, 5]), "cache": cache}, free, ("scores", "next"))}
        case PooledNetwork() if bundle.recipe.rules.images:
            encoder = cast(Any, bundle.recipe.model).encoder
            module = PooledPixels(network, encoder.patch, encoder.class_token)
            pixels = torch.zeros(2, *image_size(bundle), encoder.channels)
            return {MODEL: Graph(module, {"pixels": pixels}, {"pixels": {0: "batch"}}, ("scores",))}
        case PooledNetwork():
            return {MODEL: _of_texts(PooledTexts(network), network.encoder)}
        case WordClassifier() | SpanReader():
            return {MODEL: _of_texts(TokenScores(network), network.encoder)}
        case MaskedModel():
            return {MODEL: _of_texts(MaskedScores(network), network.encoder)}
        case _:
            raise ValueError(f"{type(network).__name__} is refused before")


def reads_segments(encoder: nn.Module) -> bool:
    """Whether tokens have segments."""
    return cast(Any, encoder).embedding.segments is not None


def _of_texts(module: nn.Module, encoder: nn.Module) -> Graph:
    ids, mask = torch.tensor([[4, 5, 2], [4, 2, 0]]), torch.tensor([[True, True, True], [True, True, False]])
    inputs = {"ids": ids, "mask": mask}
    if reads_segments(encoder):
        inputs["segments"] = torch.zeros_like(ids)
    return Graph(module, inputs, {key: {0: "batch", 1: "length"} for key in inputs}, ("scores",))


def _of_translator(network: EncoderDecoder) -> dict[str, Graph]:
    encoder = _of_texts(SourceMemory(network), cast(nn.Module, network.encoder))
    encoder = Graph(encoder.module, encoder.inputs, encoder.free, ("memory",))
    with torch.no_grad():
        memory = encoder.module(**encoder.inputs)
    inputs = {
        "tokens": torch.tensor([1, 4]),
        "cache": torch.zeros(_cache_shape(network, rows=2, past=4)),
        "memory": memory,
        "mask": encoder.inputs["mask"],
    }
    free = {
        "tokens": {0: "batch"},
        "cache": {2: "batch", 4: "past"},
        "memory": {2: "batch", 4: "length"},
        "mask": {0: "batch", 1: "length"},
    }
    return {ENCODER: encoder, DECODER: Graph(TargetStep(network), inputs, free, ("scores", "next"))}


def _cache_shape(network: EncoderDecoder | LanguageModel, rows: int, past: int) -> tuple[int, ...]:
    attention = cast(Any, network.decoder).blocks[0].attention
    return len(cast(Any, network.decoder).blocks), 2, rows, attention.heads, past, attention.shape.cached_width
