"""Maps GPT-2's tensors to our parameters: its linear maps store x W, so their matrices are transposed."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.interop.byte_level import ByteLevelVocabulary
from heedful.interop.checked_weights import CheckedWeights
from heedful.interop.model_folder import ModelFolder

_NORMS: Final[Mapping[str, str]] = {"around_attention.before": "ln_1", "around_network.before": "ln_2"}
_HEAD: Final = "lm_head.weight"


def read_weights(
    folder: ModelFolder, decoder: Mapping[str, Any], tie: bool, vocabulary: ByteLevelVocabulary
) -> dict[str, Tensor]:
    """Return the parameters of a model with this decoder; wrong shapes and unknown tensors are refused."""
    weights, size, width = folder.weights(), folder.config.number("vocab_size"), int(decoder["width"])
    words = _take(weights, "wte.weight", size, width)
    if tie:
        output = weights.take_or(words, _HEAD)
        if not torch.equal(output, words):
            raise UserError(
                f"{folder.path}: `{_HEAD}` and `wte.weight` differ, but `tie_word_embeddings` is true in "
                f"{folder.config.where}: set it to false there."
            )
    else:
        output = weights.take(_HEAD, size, width)
    ours = {
        "decoder.embedding.positions.weight": _take(weights, "wpe.weight", int(decoder["max_positions"]), width),
        "decoder.final.weight": _take(weights, "ln_f.weight", width),
        "decoder.final.bias": _take(weights, "ln_f.bias", width),
    }
    for layer in range(int(decoder["layers"])):
        for name, tensor in _block(weights, f"h.{layer}", decoder):
            ours[f"decoder.blocks.{layer}.{name}"] = tensor
    weights.refuse_rest()
    return ours | vocabulary.matrices(words, output)


def _block(weights: CheckedWeights, block: str, decoder: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    width, inner, longest = (int(decoder[key]) for key in ("width", "inner", "max_positions"))
    linear = {  # our name: theirs, and the widths of input and output
        "attention.project": ("attn.c_attn", width, 3 * width),
        "attention.output": ("attn.c_proj", width, width),
        "network.into": ("mlp.c_fc", width, inner),
        "network.out": ("mlp.c_proj", inner, width),
    }
    for ours, (theirs, into, out) in linear.items():
        yield f"{ours}.weight", _take(weights, f"{block}.{theirs}.weight", into, out).T
        yield f"{ours}.bias", _take(weights, f"{block}.{theirs}.bias", out)
    for ours, norm in _NORMS.items():
        for kind in ("weight", "bias"):
            yield f"{ours}.{kind}", _take(weights, f"{block}.{norm}.{kind}", width)
    for prefix in ("transformer.", ""):  # older files store the causal mask
        weights.take_or(torch.empty(1, 1, longest, longest, device="meta"), f"{prefix}{block}.attn.bias")
        weights.take_or(torch.empty((), device="meta"), f"{prefix}{block}.attn.masked_bias")


def _take(weights: CheckedWeights, name: str, *shape: int) -> Tensor:
    """Take a tensor of the decoder, which has a prefix in files of the whole model."""
    return weights.take_one([f"transformer.{name}", name], *shape)
