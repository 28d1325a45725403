"""Models with any alignment, and the equations of their attention as loops over queries and keys."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import pytest
import torch
from pydantic import ValidationError
from tests.shared.covering import covering
from torch import Tensor, nn

from heedful.config.model.attention import AlignmentName, DistributionName
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.network import build_model
from heedful.models.from_recipe.transformer import transformer_decoder, transformer_encoder
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.alignments.products import ScaledDot
from heedful.nn.attention.any_alignment import (
    AlignedCrossAttention,
    AlignedSelfAttention,
    HeadAttention,
)
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.attention.relative_positions import LinearBias, PositionScheme, RelativeVectors, Rotary

WIDTH, HEADS, MEMORY, WORDS = 8, 2, 6, 11
HEAD = WIDTH // HEADS
TINY: dict[str, Any] = {
    "width": WIDTH, "heads": HEADS, "layers": 1, "inner": 8, "dropout": 0.0, "norm": "pre",
    "alpha": 1.3, "features": 7, "area": 2, "max_places": 9, "max_distance": 2,
}  # fmt: skip
LENGTHS, MEMORY_LENGTHS = [3, 1, 2], [2, 3, 1]
POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", "relative", "none")
CHOICES = ("soft", "hard", "gumbel")


def legal(options: dict[str, Any]) -> bool:
    try:
        TransformerModel.model_validate({**TINY, **options})
    except ValidationError:
        return False
    return True


AXES: dict[str, Sequence[str]] = {
    "alignment": get_args(AlignmentName),
    "distribution": get_args(DistributionName),
    "positions": POSITIONS,
    "choice": CHOICES,
}
PAIRS = covering(AXES, 2, legal)
EVERY_PAIR = pytest.mark.parametrize("options", PAIRS, ids=lambda options: "-".join(options.values()))
EVERY_WORD = pytest.mark.parametrize(
    "options", covering(AXES, 1, legal), ids=lambda options: "-".join(options.values())
)


def config_of(**options: Any) -> TransformerModel:
    return TransformerModel.model_validate({**TINY, **options})


def shaken(module: nn.Module) -> Any:
    """The same module with every parameter drawn, those that start at zero as well."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module


def matrix(width: int = WIDTH) -> nn.Parameter:
    return nn.Parameter(torch.randn(WORDS, width) * width**-0.5)


def attentions_of(
    config: TransformerModel, memory_width: int = MEMORY
) -> tuple[SelfAttention, SelfAttention, CrossAttention]:
    """Of the encoder, of the decoder, and of the decoder over memories of another width."""
    encoder = transformer_encoder(config, matrix())
    decoder = transformer_decoder(config, matrix(), matrix(), memory_width)
    first, block = encoder.blocks[0], decoder.blocks[0]
    assert isinstance(first, EncoderBlock)
    assert isinstance(block, DecoderBlock)
    assert block.cross is not None
    return shaken(first.attention).eval(), shaken(block.attention).eval(), shaken(block.cross).eval()


def model_of(seed: int = 1, /, **options: Any) -> EncoderDecoder:
    torch.manual_seed(seed)
    model: EncoderDecoder = shaken(build_model(config_of(**options), WORDS, WORDS)).eval()
    set_precision(model, torch.get_default_dtype())
    return model


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def bilinear(a: Any, head: int, q: Tensor, k: Tensor) -> Tensor:
    return sum((q[i] * a.weight[head, i, j] * k[j] for i in range(HEAD) for j in range(HEAD)), torch.zeros(()))


def content(a: Any, head: int, q: Tensor, k: Tensor) -> Tensor:
    beta = torch.log(1 + torch.exp(a.strength[head, 0] @ q + a.bias[head, 0, 0]))
    return beta * (q @ k) / (q.square().sum() * k.square().sum()).sqrt()


def kernel(a: Any, head: int, q: Tensor, k: Tensor) -> Tensor:
    def phi(x: Tensor) -> Tensor:
        x = x / HEAD**0.25
        return torch.stack([(w @ x - x @ x / 2).exp() for w in a.directions[head]]) / math.sqrt(a.directions.shape[1])

    return torch.log(phi(q) @ phi(k))


def deep(a: Any, head: int, q: Tensor, k: Tensor) -> Tensor:
    inner = (a.key_weight[head] @ k + a.query_weight[head] @ q + a.key_bias[head, 0]).relu()
    for weight, bias in zip(a.weights, a.biases, strict=True):
        inner = (weight[head] @ inner + bias[head, 0]).relu()
    return a.vector[head, 0] @ inner + a.bias[head, 0, 0]


SCORES: dict[str, Callable[[Any, int, Tensor, Tensor], Tensor]] = {
    "content": content,
    "dot": lambda a, head, q, k: q @ k,
    "scaled_dot": lambda a, head, q, k: q @ k / math.sqrt(HEAD),
    "general": bilinear,
    "biased_general": lambda a, head, q, k: k @ (a.weight[head] @ q + a.bias[head, 0]),
    "activated_general": lambda a, head, q, k: torch.tanh(bilinear(a, head, q, k) + a.bias[head, 0, 0]),
    "kernel": kernel,
    "additive": lambda a, head, q, k: a.vector[head, 0] @ (a.query_weight[head] @ q + a.key_weight[head] @ k).tanh(),
    "deep": deep,
    "area": lambda a, head, q, k: q @ k / math.sqrt(HEAD),  # k: the key of an area
}


def area_key(a: Any, head: int, keys: Tensor) -> Tensor:
    mean, parts = keys.mean(0), a.area_key
    deviation = ((keys - mean).square().mean(0) + 1e-6).sqrt()
    features = torch.cat((mean, deviation, parts.sizes[head, len(keys) - 1]))
    inner = (parts.into[head] @ features + parts.into_bias[head, 0]).relu()
    return parts.out[head] @ inner + parts.out_bias[head, 0]


def entmax(scores: Tensor, alpha: float) -> Tensor:
    """The threshold by halves, in plain numbers."""
    z = [(alpha - 1) * score for score in scores.tolist()]
    low, high = max(z) - 1, max(z)
    for _ in range(80):
        middle = (low + high) / 2
        total = sum(max(each - middle, 0) ** (1 / (alpha - 1)) for each in z)
        low, high = (middle, high) if total >= 1 else (low, middle)
    return torch.tensor([max(each - low, 0) ** (1 / (alpha - 1)) for each in z])


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.exp() / x.exp().sum(),
    "sigmoid": sigmoid,
    "normalised_sigmoid": lambda x: sigmoid(x) / sigmoid(x).sum(),
    "sparsemax": lambda x: entmax(x, 2),
    "entmax15": lambda x: entmax(x, 1.5),
    "entmax": lambda x: entmax(x, TINY["alpha"]),
}


def turned(x: Tensor, position: int) -> Tensor:
    """RoPE: pairs of columns turned as planes."""
    columns = []
    for c in range(0, HEAD, 2):
        angle = position * 10000 ** (-c / HEAD)
        columns += [x[c] * math.cos(angle) - x[c + 1] * math.sin(angle)]
        columns += [x[c] * math.sin(angle) + x[c + 1] * math.cos(angle)]
    return torch.stack(columns)


@dataclass
class Loop:
    """Attention of one sentence by loops over heads, queries and candidates, without padding."""

    config: TransformerModel
    attention: SelfAttention | CrossAttention
    causal: bool = False

    def __call__(self, x_QE: Tensor, memory_LE: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What comes out, and the factor of each value in what each head reads: [Q, E] and [H, Q, L]."""
        self.placed = self.config.positions if memory_LE is None else "none"
        q, k, v = self.projected(x_QE, memory_LE)
        reads, factors = [], []
        for head in range(HEADS):
            rows = [
                self.read(head, i, q[i, head], k[: i + 1 if self.causal else None, head], v[:, head])
                for i in range(len(q))
            ]
            reads.append(torch.stack([y for y, _ in rows]))
            factors.append(torch.stack([each for _, each in rows]))
        output = self.attention.output
        return torch.cat(reads, dim=1) @ output.weight.T + output.bias, torch.stack(factors)

    def projected(self, x_QE: Tensor, memory_LE: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        if memory_LE is None:
            into: Any = self.attention.project
            q, k, v = (x_QE @ into.weight.T + into.bias).unflatten(1, (3, HEADS, HEAD)).unbind(1)
        else:
            first, into = self.attention.project_query, self.attention.project_memory
            q = (x_QE @ first.weight.T + first.bias).unflatten(1, (HEADS, HEAD))  # type: ignore[operator, union-attr]
            k, v = (memory_LE @ into.weight.T + into.bias).unflatten(1, (2, HEADS, HEAD)).unbind(1)
        if self.placed == "rope":
            q, k = (
                torch.stack([torch.stack([turned(head, i) for head in row]) for i, row in enumerate(x)]) for x in (q, k)
            )
        return q, k, v

    def read(self, head: int, i: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """What one query of one head reads from the keys that it may see, and the factor of every value."""
        a: Any = None  # the fused classes have none
        if isinstance(self.attention, AlignedSelfAttention | AlignedCrossAttention):
            a = self.attention.reading.alignment
        largest = self.config.area if self.config.alignment == "area" else 1
        areas = [range(j, j + size) for size in range(1, largest + 1) for j in range(len(k) - size + 1)]
        keys = [area_key(a, head, k[list(area)]) if self.config.alignment == "area" else k[area[0]] for area in areas]
        if self.config.alignment == "location":
            scores = [a.weight[head, area[0]] @ q for area in areas]
        else:
            scores = [SCORES[self.config.alignment](a, head, q, key) for key in keys]
        if self.placed == "alibi":
            scores = [score - 2 ** (-8 * (head + 1) / HEADS) * abs(j - i) for j, score in enumerate(scores)]
        if self.placed == "relative":
            scores = [score + q @ self.vector("keys", j - i) / math.sqrt(HEAD) for j, score in enumerate(scores)]
        y, factors = torch.zeros(HEAD), torch.zeros(len(v))
        for weight, area in zip(self.weigh(head, torch.stack(scores), q, keys), areas, strict=True):
            for j in area:
                y = y + weight * v[j]
                factors[j] += weight.detach()
                if self.placed == "relative":
                    y = y + weight * self.vector("values", j - i)
        return y, factors

    def weigh(self, head: int, scores: Tensor, q: Tensor, keys: list[Tensor]) -> Tensor:
        if self.config.distribution == "de_attention":
            distances = torch.stack([-(q - key).abs().sum() for key in keys]) / math.sqrt(HEAD)
            return scores.tanh() * sigmoid(distances - distances.mean())
        if self.config.distribution == "learned_entmax":
            a_H = dict(self.attention.named_parameters())[self.alpha]
            weights = entmax(scores, 1.01 + 0.99 * float(sigmoid(a_H[head].detach())))
        else:
            weights = WEIGHTS[self.config.distribution](scores)
        if self.config.choice == "soft":
            return weights
        return torch.eye(len(weights))[int(weights.argmax())]

    @property
    def alpha(self) -> str:
        soft = "reading.distribution"
        return f"{soft}.a_H" if self.config.choice == "soft" else f"{soft}.distribution.a_H"

    def vector(self, table: str, distance: int) -> Tensor:
        reach = self.config.max_distance
        return self.attention.get_parameter(f"positions.{table}")[max(-reach, min(reach, distance)) + reach]


SCHEMES: dict[str, Callable[[], PositionScheme]] = {
    "none": PositionScheme,
    "rope": lambda: Rotary(HEAD),
    "alibi": lambda: LinearBias(HEADS),
    "relative": lambda: RelativeVectors(HEAD, 2),
}


def reading() -> HeadAttention:
    return HeadAttention(ScaledDot(HEAD, HEAD, HEADS))


SOURCES = [[4, 5, 6], [7, 8, 9, 4, 5], [6, 10]]
