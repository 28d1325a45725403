"""The tensors of language models next to ours: tables that are read in both directions."""

from collections.abc import Mapping
from typing import Any, Final

from heedful.interop.tensors import AS_IT_IS, TRANSPOSED, Pair, Turn, of_modules, paired_columns
from heedful.interop.transformers.language.kinds import GPT2, Kind

HEAD: Final = "lm_head.weight"
GPT2_PREFIX: Final = "transformer."  # which files of the model without its head do not have
_GPT2_BLOCK: Final[Mapping[str, str]] = {
    "attention.project": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "network.into": "mlp.c_fc",
    "network.out": "mlp.c_proj",
    "around_attention.before": "ln_1",
    "around_network.before": "ln_2",
}
_LLAMA_BLOCK: Final[Mapping[str, tuple[str, ...]]] = {
    "attention.project": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.o_proj",),
    "network.into": ("mlp.gate_proj", "mlp.up_proj"),
    "network.out": ("mlp.down_proj",),
    "around_attention.before": ("input_layernorm",),
    "around_network.before": ("post_attention_layernorm",),
}


def words_of(kind: Kind) -> str:
    """Return the name of the embedding of tokens."""
    return f"{GPT2_PREFIX}wte.weight" if kind is GPT2 else "model.embed_tokens.weight"


def pairs_of(kind: Kind, decoder: Mapping[str, Any], tie: bool, pieces: Turn) -> list[Pair]:
    """Return the pairs of a model with these keys of its decoder; `pieces` turns what has one row per piece."""
    pairs = [Pair("decoder.embedding.weight", (words_of(kind),), (pieces,))]
    if not tie:
        pairs.append(Pair("decoder.output.weight", (HEAD,), (pieces,)))
    return pairs + (_gpt2(decoder["layers"]) if kind is GPT2 else _llama(decoder))


def _gpt2(layers: int) -> list[Pair]:
    """Return the pairs of GPT-2's blocks: its linear maps store x W, so their matrices are transposed."""
    pairs = [Pair("decoder.embedding.positions.weight", (f"{GPT2_PREFIX}wpe.weight",))]
    pairs += of_modules({"decoder.final": (f"{GPT2_PREFIX}ln_f",)})
    for layer in range(layers):
        for ours, theirs in _GPT2_BLOCK.items():
            module, name = f"decoder.blocks.{layer}.{ours}", f"{GPT2_PREFIX}h.{layer}.{theirs}"
            turn = AS_IT_IS if ours.startswith("around") else TRANSPOSED
            pairs += [Pair(f"{module}.weight", (f"{name}.weight",), (turn,)), Pair(f"{module}.bias", (f"{name}.bias",))]
    return pairs


def _llama(decoder: Mapping[str, Any]) -> list[Pair]:
    """Return the pairs of Llama's blocks.

    Llama rotates columns c and c + D/2 of a head as a plane, Heedful columns 2c and 2c + 1 (see `Rotary`).
    """
    heads = decoder["heads"]
    width = decoder.get("key_width") or decoder["width"] // heads
    shared = (decoder.get("key_value_heads") or heads) * width
    rows, columns = (heads * width, shared, shared), paired_columns(width)
    biased = bool(decoder["bias"])
    projected = biased if decoder.get("projection_bias") is None else bool(decoder["projection_bias"])
    pairs = [Pair("decoder.final.weight", ("model.norm.weight",))]
    for layer in range(decoder["layers"]):
        for ours, theirs in _LLAMA_BLOCK.items():
            with_bias = {"attention.project": projected, "attention.output": biased}.get(ours, False)
            for kind in ("weight", "bias") if with_bias else ("weight",):
                names = tuple(f"model.layers.{layer}.{part}.{kind}" for part in theirs)
                name = f"decoder.blocks.{layer}.{ours}.{kind}"
                if ours == "attention.project":
                    pairs.append(Pair(name, names, (columns, columns, AS_IT_IS), rows))
                else:
                    pairs.append(Pair(name, names))
    return pairs
