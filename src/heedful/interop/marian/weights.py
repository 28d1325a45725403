"""Maps Marian's tensors to our parameters: rows in the order of our ids, projections joined into one matrix."""

import re
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.interop.checked_config import CheckedConfig
from heedful.interop.checked_weights import CheckedWeights
from heedful.interop.marian.vocabulary import MarianVocabulary
from heedful.interop.model_folder import ModelFolder
from heedful.models.networks import EncoderDecoder
from heedful.models.weights import set_weights, shapes_of
from heedful.nn.layers.positions import Sinusoidal

NEVER: Final = -100.0  # bias of pieces that Marian cannot output: a factor of e^-100 makes them impossible

_SHARED, _OUTPUT = "model.shared.weight", "lm_head.weight"
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_BLOCK: Final[
    Mapping[str, tuple[str, ...]]
] = {  # our modules in a block, and those of Marian that are concatenated into each
    "attention.project": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "around_attention.after": ("self_attn_layer_norm",),
    "cross.project_query": ("encoder_attn.q_proj",),
    "cross.project_memory": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.output": ("encoder_attn.out_proj",),
    "around_cross.after": ("encoder_attn_layer_norm",),
    "network.into": ("fc1",),
    "network.out": ("fc2",),
    "around_network.after": ("final_layer_norm",),
}
_IN_BLOCK: Final = re.compile(r"(?P<side>encoder|decoder)\.blocks\.(?P<layer>\d+)\.(?P<ours>.+)\.(?P<kind>weight|bias)")
_CLOSE: Final = 2e-3  # tolerance for sinusoids that were rounded to float16


def fill_weights(
    model: EncoderDecoder, folder: ModelFolder, sizes: tuple[int, int], sides: tuple[MarianVocabulary, MarianVocabulary]
) -> None:
    """Load a folder's weights into our model; wrong shapes and unknown tensors are refused.

    `sizes` are the sizes of Marian's source and target vocabularies; `sides` are our versions of them.
    """
    weights = folder.weights()
    width = model.decoder.output.weight.shape[1]
    ours = _of_vocabularies(weights, folder.config, width, sizes, sides)
    for name, shape in shapes_of(dict(model.named_parameters())).items():
        if found := _IN_BLOCK.fullmatch(name):
            names = [f"model.{found['side']}.layers.{found['layer']}.{part}" for part in _BLOCK[found["ours"]]]
            rows = shape[0] // len(names)
            ours[name] = torch.cat([weights.take(f"{part}.{found['kind']}", rows, *shape[1:]) for part in names])
    _refuse_other_positions(weights, folder, width)
    weights.refuse_rest()
    set_weights(model, ours)


def _of_vocabularies(
    weights: CheckedWeights,
    config: CheckedConfig,
    width: int,
    sizes: tuple[int, int],
    sides: tuple[MarianVocabulary, MarianVocabulary],
) -> dict[str, Tensor]:
    """Return the embeddings and the output layer; a matrix shared by all is copied for each side."""
    tied = config.flag("tie_word_embeddings", True)
    if tied and config.flag("share_encoder_decoder_embeddings", True):
        source = target = weights.take_one([_SHARED, _SOURCE, _TARGET, _OUTPUT], sizes[0], width)
    else:
        source = weights.take(_SOURCE, sizes[0], width)
        target = weights.take_one([_TARGET, *([_OUTPUT] if tied else [])], sizes[1], width)
    output = target if tied else weights.take(_OUTPUT, sizes[1], width)
    source_rows, target_rows = (torch.tensor(side.rows) for side in sides)
    bias = weights.take_or(torch.zeros(1, sizes[1]), "final_logits_bias")[0, target_rows]
    bias[torch.tensor(sides[1].never)] = NEVER
    return {
        "encoder.embedding.weight": source[source_rows],
        "decoder.embedding.weight": target[target_rows],
        "decoder.output.weight": output[target_rows],  # ignored if tied to the embedding
        "decoder.output.bias": bias,
    }


def _refuse_other_positions(weights: CheckedWeights, folder: ModelFolder, width: int) -> None:
    """Refuse files whose stored positions are not our sinusoids."""
    count = folder.config.number("max_position_embeddings", 1024)
    waves = Sinusoidal(width, halves=True)(torch.arange(count), count)
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        if not torch.allclose(weights.take_or(waves, name), waves, rtol=0, atol=_CLOSE):
            raise UserError(
                f"{folder.path}: `{name}` is trained, but Heedful supports only sinusoidal positions in Marian."
            )
