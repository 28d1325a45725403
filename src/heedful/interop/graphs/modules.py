"""What graphs compute: networks and parts of networks whose inputs and outputs are plain tensors.

Shape letters of this file: A  layers of a decoder    P  tokens decoded so far    M  tokens of a memory
                            W  width of a cached key or value
"""

import math
from copy import deepcopy
from typing import Any, Protocol, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.interop.graphs.rows import Rows, SameSize
from heedful.models.networks import (
    EncoderDecoder,
    LanguageModel,
    MaskedModel,
    PooledNetwork,
    Regressor,
    SpanReader,
    WordClassifier,
)
from heedful.models.transformer.blocks import DecoderBlock
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.nn.attention.multi_head import WithBackend
from heedful.nn.attention.restricted import Restricted
from heedful.nn.layers.pooling import AttentionPool, FirstPool, LastPool, MaxPool, MeanPool, MultiDimensionalPool
from heedful.nn.layers.positions import Sinusoidal


class TextEncoder(Protocol):
    """An encoder of packed texts."""

    def __call__(self, text: Packed) -> Packed:
        """Return the vectors of all tokens."""


def read_rows(
    encoder: TextEncoder, ids_BL: Int[Tensor, "B L"], mask_BL: Bool[Tensor, "B L"], segments_BL: Tensor | None = None
) -> Packed:
    """Encode rows."""
    segments = None if segments_BL is None else segments_BL.flatten()
    return encoder(Packed(ids_BL.flatten(), Rows.of_mask(mask_BL), segments))


class SourceMemory(nn.Module):
    """Keys and values of the tokens of sources, for all layers of a decoder."""

    def __init__(self, network: EncoderDecoder) -> None:
        super().__init__()
        self.encoder, self.decoder = cast(Any, network.encoder), cast(TransformerDecoder, network.decoder)

    def forward(self, ids: Int[Tensor, "B L"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "A 2 B H L W"]:
        """Encode sources."""
        projected_AN2HW = self.decoder.project(read_rows(self.encoder, ids, mask))
        return projected_AN2HW.unflatten(1, (ids.shape[0], ids.shape[1])).permute(0, 3, 1, 4, 2, 5).contiguous()


class _Step(nn.Module):
    """One more token: scores of the next one, and the cache with its keys and values."""

    def __init__(self, network: EncoderDecoder | LanguageModel) -> None:
        super().__init__()
        self.decoder = cast(TransformerDecoder, network.decoder)
        self.radii: list[int | None] = []  # what is too far away is masked: its number depends on what is free
        for block in self.decoder.blocks:
            attention = cast(DecoderBlock, block).attention
            self.radii.append(attention.radius)
            attention.radius = None

    def _step(
        self, tokens_B: Tensor, cache: Tensor, memory: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        decoder = self.decoder
        cache = torch.cat([cache, _room(cache)], dim=4)
        x = decoder.embedding.step(tokens_B, cache.shape[4] - 1)
        for layer, block in enumerate(decoder.blocks):
            known = None if memory is None or mask is None else (memory[layer], mask[:, None, None, :])
            near = _near(cache, self.radii[layer])
            x = cast(DecoderBlock, block).step(x, (cache[layer], near, None), known)
        return decoder.output(decoder.final(x)), cache


def _room(cache: Float[Tensor, "A 2 B H P W"]) -> Float[Tensor, "A 2 B H 1 W"]:
    """Return one more place of a cache."""
    return cache.new_zeros((*cache.shape[:4], 1, cache.shape[5]))


def _near(cache: Float[Tensor, "A 2 B H P W"], radius: int | None) -> Bool[Tensor, "B 1 1 P"] | None:
    """Return which places the last one sees; None if it sees all."""
    if radius is None:
        return None
    near_P = torch.arange(cache.shape[4], device=cache.device) >= cache.shape[4] - 1 - radius
    return near_P.expand(cache.shape[2], 1, 1, -1)


class TargetStep(_Step):
    """A step of a translator."""

    def forward(
        self,
        tokens: Int[Tensor, "B"],
        cache: Float[Tensor, "A 2 B H P W"],
        memory: Float[Tensor, "A 2 B H M W"],
        mask: Bool[Tensor, "B M"],
    ) -> tuple[Float[Tensor, "B V"], Float[Tensor, "A 2 B H P_plus_1 W"]]:
        """Take one more token of each target."""
        return self._step(tokens, cache, memory, mask)


class TextStep(_Step):
    """A step of a language model."""

    def forward(
        self, tokens: Int[Tensor, "B"], cache: Float[Tensor, "A 2 B H P W"]
    ) -> tuple[Float[Tensor, "B V"], Float[Tensor, "A 2 B H P_plus_1 W"]]:
        """Take one more token of each text."""
        return self._step(tokens, cache, None, None)


class PooledTexts(nn.Module):
    """The scores, or the number, of each text."""

    def __init__(self, network: PooledNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, ids: Int[Tensor, "B L"], mask: Bool[Tensor, "B L"], segments: Int[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B C"]:
        """Score texts."""
        encoded = read_rows(cast(Any, self.network.encoder), ids, mask, segments)
        return pooled_scores(self.network, encoded.values.unflatten(0, (ids.shape[0], ids.shape[1])), mask)


class PooledPixels(nn.Module):
    """The scores, or the number, of each image."""

    def __init__(self, network: PooledNetwork, patch: int, class_token: bool) -> None:
        super().__init__()
        self.network, self.patch, self.class_token = network, patch, class_token

    def forward(self, pixels: Float[Tensor, "B Y X C"]) -> Float[Tensor, "B C2"]:
        """Score images, whose pixels are from 0 to 255."""
        images = SameSize.of_pixels(pixels, self.patch, self.class_token)
        encoded: Packed = self.network.encoder(images)
        keep_BL = images.layout.keep
        x_BLE = encoded.values.unflatten(0, (pixels.shape[0], keep_BL.shape[1]))
        return pooled_scores(self.network, x_BLE, keep_BL)


class TokenScores(nn.Module):
    """The scores of every token: labels of a tagger, or the start and the end of an answer."""

    def __init__(self, network: WordClassifier | SpanReader) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, ids: Int[Tensor, "B L"], mask: Bool[Tensor, "B L"], segments: Int[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L C"]:
        """Score tokens."""
        encoded = read_rows(cast(Any, self.network.encoder), ids, mask, segments)
        scores_NC: Tensor = self.network.output(self.network.hidden(encoded.values))
        return scores_NC.unflatten(0, (ids.shape[0], ids.shape[1]))


class MaskedScores(nn.Module):
    """The scores of the whole vocabulary for every token, as for one that is masked."""

    def __init__(self, network: MaskedModel) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, ids: Int[Tensor, "B L"], mask: Bool[Tensor, "B L"], segments: Int[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L V"]:
        """Score tokens."""
        encoded = read_rows(cast(Any, self.network.encoder), ids, mask, segments)
        scores_NV: Tensor = self.network.head(encoded.values)
        return scores_NV.unflatten(0, (ids.shape[0], ids.shape[1]))


# --- pools of rows ----------------------------------------------------------------------------------------------------


def pooled_scores(
    network: PooledNetwork, x_BLE: Float[Tensor, "B L E"], keep_BL: Bool[Tensor, "B L"]
) -> Float[Tensor, "B C"]:
    """Return what a network makes of encoded rows."""
    y_BE = pool_rows(network.pooled.pool, x_BLE, keep_BL)
    scores_BC: Tensor = network.output(network.hidden(network.pooler(y_BE)))
    if isinstance(network, Regressor):
        return network.scale.mean + network.scale.deviation * scores_BC
    return scores_BC


def pool_rows(pool: nn.Module, x_BLE: Float[Tensor, "B L E"], keep_BL: Bool[Tensor, "B L"]) -> Float[Tensor, "B E"]:
    """Return what a pool makes of the tokens of each row."""
    keep_BL1 = keep_BL.unsqueeze(2)
    match pool:
        case FirstPool():
            return x_BLE[:, 0]
        case LastPool():
            last_B = keep_BL.sum(1) - 1
            return x_BLE.gather(1, last_B[:, None, None].expand(-1, 1, x_BLE.shape[2])).squeeze(1)
        case MeanPool():
            return (x_BLE * keep_BL1).sum(1) / keep_BL1.sum(1)
        case MaxPool():
            return x_BLE.masked_fill(~keep_BL1, -math.inf).amax(1)
        case AttentionPool():
            return _weighted(pool.context(pool.inner(x_BLE).tanh()), x_BLE, keep_BL1)
        case MultiDimensionalPool():
            return _weighted(pool.out(nn.functional.elu(pool.inner(x_BLE))), x_BLE, keep_BL1)
        case _:
            raise ValueError(f"{type(pool).__name__} is refused before")


def _weighted(scores_BLW: Tensor, x_BLE: Tensor, keep_BL1: Tensor) -> Tensor:
    return (scores_BLW.masked_fill(~keep_BL1, -math.inf).softmax(1) * x_BLE).sum(1)


# --- networks that can be graphs --------------------------------------------------------------------------------------


def prepared(network: nn.Module, longest: int) -> nn.Module:
    """Return a copy of a network whose shapes follow from those of its inputs, for texts up to a length.

    Tables of sinusoids do not grow any more, and a radius is a mask over whole rows.
    """
    copy = deepcopy(network).eval()
    for module in copy.modules():
        if isinstance(module, Sinusoidal):
            module(torch.arange(1), longest)
        if isinstance(module, WithBackend) and isinstance(module._backend, Restricted):
            module.backend = Restricted(module._backend.radius, as_written=True)
    for parameter in copy.parameters():
        parameter.requires_grad_(False)
    return copy
