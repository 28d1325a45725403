"""GPT-2 equals transformers' `GPT2LMHeadModel` with the same weights: states, logits, the loss, all gradients.

Theirs reads padded rows with an attention mask, ours the same texts end to end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from heedful.base.packed import IGNORED, Packed
from heedful.config.model.language import LanguageModelTable
from heedful.data.batches.windows import WindowBatch
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel, set_precision
from heedful.models.weights import set_weights
from heedful.training.objectives import NextToken

WORDS, LENGTHS = 37, (9, 2, 17, 5)
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5}


@dataclass(frozen=True)
class Shape:
    """The shape of both models."""

    width: int = 16
    heads: int = 4
    layers: int = 2
    inner: int = 64
    positions: int = 32
    epsilon: float = 1e-5
    tie: bool = True
    activation: tuple[str, str] = ("gelu_tanh", "gelu_new")  # our name and theirs

    def ours(self) -> LanguageModelTable:
        decoder = {
            "width": self.width,
            "heads": self.heads,
            "layers": self.layers,
            "inner": self.inner,
            "max_positions": self.positions,
            "norm_epsilon": self.epsilon,
            "activation": self.activation[0],
        }
        return LanguageModelTable.model_validate(
            {"family": "language", "decoder": {"family": "transformer", **decoder}, "tie": self.tie}
        )

    def theirs(self) -> GPT2Config:
        return GPT2Config(
            vocab_size=WORDS,
            n_embd=self.width,
            n_head=self.heads,
            n_layer=self.layers,
            n_inner=self.inner,
            n_positions=self.positions,
            layer_norm_epsilon=self.epsilon,
            activation_function=self.activation[1],
            tie_word_embeddings=self.tie,
            bos_token_id=0,
            eos_token_id=0,
        )


SHAPES = {
    "tiny": Shape(),
    "one block, one head": Shape(width=12, heads=1, layers=1, inner=7),
    "narrow heads": Shape(width=8, heads=8, layers=3, inner=40, positions=17),
    "untied, other epsilon": Shape(tie=False, epsilon=1e-3),
    "relu": Shape(activation=("relu", "relu")),
}
all_shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
all_types = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


@all_types
@all_shapes
def test_logits_loss_and_all_gradients_equal_gpt2s(shape: Shape, dtype: torch.dtype) -> None:
    ours, theirs = both_models(shape, dtype)
    rows, keep = texts()
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    answer = theirs(padded, attention_mask=keep.long(), labels=padded.masked_fill(~keep, IGNORED))
    packed = Packed.of([row.tolist() for row in rows])
    assert_equal(ours(packed), answer.logits[keep], "logits")

    labels = torch.cat([torch.cat((row[1:], torch.tensor([IGNORED]))) for row in rows])
    tokens = int((labels != IGNORED).sum())
    loss = NextToken(0.0)(ours, WindowBatch(packed, labels, len(rows), tokens)).loss / tokens
    expected_loss = nn.functional.cross_entropy(answer.logits[keep], labels, ignore_index=IGNORED)
    assert_equal(loss, expected_loss, "loss")
    assert_equal(loss.float(), answer.loss, "their own loss, which is computed in float32")

    loss.backward()
    expected_loss.backward()
    expected = of_gpt2(gradients(theirs), shape)
    found = gradients(ours)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        assert gradient.abs().max() > 0, name
        assert_equal(gradient, expected[name], name)


@pytest.mark.parametrize(
    ("preset", "published"),
    [("small", 124_439_808), ("medium", 354_823_168), ("large", 774_030_080), ("xl", 1_557_611_200)],
)
def test_a_preset_has_as_many_parameters_as_the_published_model(preset: str, published: int) -> None:
    table = LanguageModelTable.model_validate(
        {"family": "language", "decoder": {"family": "transformer", "preset": preset}}
    )
    with torch.device("meta"):
        ours = build_language_model(table, 50_257)
    assert count(ours) == published


def test_the_first_gpt_has_as_many_parameters_as_published() -> None:
    """Radford et al. 2018: 40,478 pieces, markers included; theirs has no norm after the last block."""
    decoder = {"family": "transformer", "preset": "gpt1"}
    table = LanguageModelTable.model_validate({"family": "language", "decoder": decoder})
    with torch.device("meta"):
        ours = build_language_model(table, 40_478)
    assert count(ours) == 116_534_784


def test_weights_start_with_the_deviations_of_gpt2() -> None:
    """N(0, 0.02^2), smaller by sqrt(1 / (2 layers)) for what writes to the residual stream; biases 0 and norms 1."""
    torch.manual_seed(1)
    shape = Shape(width=64, heads=4, layers=8, inner=256)
    model = build_language_model(shape.ours(), 500)
    for name, parameter in model.named_parameters():
        values = parameter.detach()
        if values.ndim == 1:
            assert (values == (0 if name.endswith("bias") else 1)).all(), name
        else:
            written = name.endswith(("attention.output.weight", "network.out.weight"))
            deviation = 0.02 / 4 if written else 0.02
            assert float(values.std()) == pytest.approx(deviation, rel=5 / (2 * values.numel()) ** 0.5), name
            assert abs(float(values.mean())) < 5 * deviation / values.numel() ** 0.5, name


# --- both models, and what they read ----------------------------------------------------------------------------------


def texts() -> tuple[list[Tensor], Tensor]:
    """Return texts, and which places of their padded rows are tokens."""
    generator = torch.Generator().manual_seed(7)
    rows = [torch.randint(0, WORDS, (length,), generator=generator) for length in LENGTHS]
    return rows, nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True).bool()


def of_gpt2(theirs: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Return our parameters, or their gradients, made of theirs, whose matrices are transposed."""
    ours = {
        "decoder.embedding.weight": theirs["transformer.wte.weight"],
        "decoder.embedding.positions.weight": theirs["transformer.wpe.weight"],
    }
    modules = {
        "attention.project": "attn.c_attn",
        "attention.output": "attn.c_proj",
        "around_attention.before": "ln_1",
        "network.into": "mlp.c_fc",
        "network.out": "mlp.c_proj",
        "around_network.before": "ln_2",
    }
    for layer in range(shape.layers):
        for our, their in modules.items():
            for kind in ("weight", "bias"):
                tensor = theirs[f"transformer.h.{layer}.{their}.{kind}"]
                ours[f"decoder.blocks.{layer}.{our}.{kind}"] = tensor.T if tensor.ndim == 2 else tensor
    ours |= {f"decoder.final.{kind}": theirs[f"transformer.ln_f.{kind}"] for kind in ("weight", "bias")}
    return ours if shape.tie else {**ours, "decoder.output.weight": theirs["lm_head.weight"]}


def both_models(shape: Shape, dtype: torch.dtype) -> tuple[LanguageModel, Any]:
    torch.manual_seed(1)
    theirs = GPT2LMHeadModel(shape.theirs()).to(dtype).eval()
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    ours = build_language_model(shape.ours(), WORDS).to(dtype).eval()
    set_precision(ours, dtype)
    set_weights(ours, of_gpt2({name: tensor.detach() for name, tensor in theirs.named_parameters()}, shape))
    return ours, theirs


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def assert_equal(found: Tensor, expected: Tensor, what: str) -> None:
    tolerance = TOLERANCES[expected.dtype]
    torch.testing.assert_close(
        found, expected, atol=tolerance, rtol=tolerance, msg=lambda message: f"{what}: {message}"
    )
