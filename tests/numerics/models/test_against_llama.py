"""Norms, networks, positions and heads as in Llama equal transformers' `LlamaForCausalLM` with the same weights.

Theirs computes norms and angles in float32 whatever the type of the weights, so float32 is compared.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from heedful.base.packed import Packed
from heedful.config.model.language import LanguageModelTable
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel
from heedful.models.weights import set_weights

WORDS, LENGTHS, TOLERANCE = 37, (9, 2, 17, 5), 1e-5
SHAPES: dict[str, dict[str, Any]] = {
    "shared keys, untied": {},
    "one head of keys, tied": {"key_value_heads": 1, "tie": True, "base": 500.0},
    "own keys, attention with biases": {"key_value_heads": 4, "bias": True, "epsilon": 1e-3},
    "one block": {"width": 12, "heads": 2, "key_value_heads": 1, "layers": 1, "inner": 7},
}
USUAL: dict[str, Any] = {
    "width": 16,
    "heads": 4,
    "key_value_heads": 2,
    "layers": 2,
    "inner": 24,
    "base": 10_000.0,
    "epsilon": 1e-6,
    "bias": False,
    "tie": False,
}


@pytest.mark.parametrize("changed", SHAPES.values(), ids=list(SHAPES))
def test_logits_loss_and_all_gradients_equal_llamas(changed: dict[str, Any]) -> None:
    shape = USUAL | changed
    ours, theirs = both_models(shape)
    generator = torch.Generator().manual_seed(7)
    rows = [torch.randint(0, WORDS, (length,), generator=generator) for length in LENGTHS]
    keep = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True).bool()
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    expected = theirs(padded, attention_mask=keep.long()).logits[keep]
    found = ours(Packed.of([row.tolist() for row in rows]))
    assert_equal(found, expected, "logits")

    nn.functional.cross_entropy(found, torch.cat(rows)).backward()
    nn.functional.cross_entropy(expected, torch.cat(rows)).backward()
    gradients = of_llama(graded(theirs), shape)
    assert graded(ours).keys() == gradients.keys()
    for name, gradient in graded(ours).items():
        assert gradient.abs().max() > 0, name
        assert_equal(gradient, gradients[name], name)


def both_models(shape: dict[str, Any]) -> tuple[LanguageModel, Any]:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=shape["width"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["key_value_heads"],
        num_hidden_layers=shape["layers"],
        intermediate_size=shape["inner"],
        rms_norm_eps=shape["epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": shape["base"]},
        attention_bias=shape["bias"],
        tie_word_embeddings=shape["tie"],
    )
    theirs = LlamaForCausalLM(config).eval()
    with torch.no_grad():  # norms of one would hide mistakes
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    decoder = {
        "family": "transformer",
        "width": shape["width"],
        "heads": shape["heads"],
        "key_value_heads": shape["key_value_heads"],
        "layers": shape["layers"],
        "inner": shape["inner"],
        "activation": "swiglu",
        "norm_kind": "rms",
        "norm_epsilon": shape["epsilon"],
        "positions": "rope",
        "rope_base": shape["base"],
        "bias": shape["bias"],
    }
    table = LanguageModelTable.model_validate({"family": "language", "decoder": decoder, "tie": shape["tie"]})
    ours = build_language_model(table, WORDS).eval()
    set_weights(ours, of_llama({name: tensor.detach() for name, tensor in theirs.named_parameters()}, shape))
    return ours, theirs


def of_llama(theirs: Mapping[str, Tensor], shape: dict[str, Any]) -> dict[str, Tensor]:
    """Return our parameters, or their gradients, made of theirs."""
    ours = {"decoder.embedding.weight": theirs["model.embed_tokens.weight"]}
    head = shape["width"] // shape["heads"]

    def paired(rows: Tensor) -> Tensor:
        """Theirs turns rows c and c + D/2 of a head together, ours 2c and 2c + 1."""
        order = [half * head // 2 + c for c in range(head // 2) for half in (0, 1)]
        return torch.cat([rows[start + row].unsqueeze(0) for start in range(0, len(rows), head) for row in order])

    for layer in range(shape["layers"]):
        block, their = f"decoder.blocks.{layer}", f"model.layers.{layer}"
        for kind in ("weight", "bias") if shape["bias"] else ("weight",):
            q, k, v, o = (theirs[f"{their}.self_attn.{name}_proj.{kind}"] for name in "qkvo")
            ours[f"{block}.attention.project.{kind}"] = torch.cat([paired(q), paired(k), v])
            ours[f"{block}.attention.output.{kind}"] = o
        gate, up, down = (theirs[f"{their}.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        ours[f"{block}.network.into.weight"] = torch.cat([gate, up])
        ours[f"{block}.network.out.weight"] = down
        ours[f"{block}.around_attention.before.weight"] = theirs[f"{their}.input_layernorm.weight"]
        ours[f"{block}.around_network.before.weight"] = theirs[f"{their}.post_attention_layernorm.weight"]
    ours["decoder.final.weight"] = theirs["model.norm.weight"]
    return ours if shape["tie"] else {**ours, "decoder.output.weight": theirs["lm_head.weight"]}


def graded(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def assert_equal(found: Tensor, expected: Tensor, what: str) -> None:
    torch.testing.assert_close(
        found, expected, atol=TOLERANCE, rtol=TOLERANCE, msg=lambda message: f"{what}: {message}"
    )
