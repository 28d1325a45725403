"""Maps Llama's tensors to our parameters.

Llama rotates columns c and c + D/2 of a head as a plane, Heedful columns 2c and 2c + 1 (see `Rotary`). Scores are the
same when the rows that make these columns, of W_q and of W_k, are put into our order.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.interop.byte_level import ByteLevelVocabulary
from heedful.interop.checked_weights import CheckedWeights
from heedful.interop.model_folder import ModelFolder

_WORDS, _HEAD, _FINAL = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"
_NORMS: Final[Mapping[str, str]] = {
    "around_attention.before": "input_layernorm",
    "around_network.before": "post_attention_layernorm",
}


def read_weights(
    folder: ModelFolder, decoder: Mapping[str, Any], tie: bool, vocabulary: ByteLevelVocabulary
) -> dict[str, Tensor]:
    """Return the parameters of a model with this decoder; wrong shapes and unknown tensors are refused."""
    weights, size, width = folder.weights(), folder.config.number("vocab_size"), int(decoder["width"])
    words = weights.take(_WORDS, size, width)
    output = weights.take_or(words, _HEAD) if tie else weights.take(_HEAD, size, width)
    if tie and not torch.equal(output, words):
        raise UserError(
            f"{folder.path}: `{_HEAD}` and `{_WORDS}` differ, but `tie_word_embeddings` is true in "
            f"{folder.config.where}: set it to false there."
        )
    ours = {"decoder.final.weight": weights.take(_FINAL, width)}
    for layer in range(int(decoder["layers"])):
        block = f"model.layers.{layer}"
        parts = _attention(weights, f"{block}.self_attn", decoder) | _network(weights, f"{block}.mlp", decoder)
        parts |= {f"{ours}.weight": weights.take(f"{block}.{theirs}.weight", width) for ours, theirs in _NORMS.items()}
        ours |= {f"decoder.blocks.{layer}.{name}": tensor for name, tensor in parts.items()}
    weights.refuse_rest()
    return ours | vocabulary.matrices(words, output)


def _attention(weights: CheckedWeights, block: str, decoder: Mapping[str, Any]) -> dict[str, Tensor]:
    width, heads, shared = (int(decoder[key]) for key in ("width", "heads", "key_value_heads"))
    head = width // heads
    found = {}
    for kind, columns in (("weight", (width,)), ("bias", ()))[: 2 if decoder["bias"] else 1]:
        queries = weights.take(f"{block}.q_proj.{kind}", width, *columns)
        keys = weights.take(f"{block}.k_proj.{kind}", shared * head, *columns)
        values = weights.take(f"{block}.v_proj.{kind}", shared * head, *columns)
        found[f"attention.project.{kind}"] = torch.cat([pair_columns(queries, head), pair_columns(keys, head), values])
        found[f"attention.output.{kind}"] = weights.take(f"{block}.o_proj.{kind}", width, *columns)
    # Older files store the rates of rotation.
    weights.take_or(torch.empty(head // 2, device="meta"), f"{block}.rotary_emb.inv_freq")
    return found


def _network(weights: CheckedWeights, block: str, decoder: Mapping[str, Any]) -> dict[str, Tensor]:
    width, inner = int(decoder["width"]), int(decoder["inner"])
    gate, value = (weights.take(f"{block}.{name}.weight", inner, width) for name in ("gate_proj", "up_proj"))
    return {
        "network.into.weight": torch.cat([gate, value]),
        "network.out.weight": weights.take(f"{block}.down_proj.weight", width, inner),
    }


def pair_columns(rows: Tensor, head_width: int) -> Tensor:
    """Put rows c and c + D/2 of each head next to each other."""
    halves = rows.unflatten(0, (-1, 2, head_width // 2))
    return halves.transpose(1, 2).flatten(0, 2)
