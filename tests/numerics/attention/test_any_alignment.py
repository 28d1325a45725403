"""Heads with any alignment and any distribution, against loops over sentences, heads, queries and keys."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from pydantic import ValidationError
from tests.covering import covering
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.config.model.attention import AlignmentName, DistributionName
from heedful.config.model.transformer import TransformerModel
from heedful.models.build.network import build_model
from heedful.models.build.transformer import transformer_decoder, transformer_encoder
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.slots import SlotShape
from heedful.models.weights import weights_from_bytes, weights_to_bytes
from heedful.nn.alignments.distributions import l1_distance, softmax
from heedful.nn.alignments.products import ScaledDot
from heedful.nn.alignments.random_features import Kernel
from heedful.nn.attention.any_alignment import (
    AlignedCrossAttention,
    AlignedSelfAttention,
    HeadAttention,
    LinearHeadAttention,
)
from heedful.nn.attention.backends import Backend, automatic, explicit
from heedful.nn.attention.explicit import position_shares
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.attention.relative_positions import LinearBias, PositionScheme, RelativeVectors, Rotary
from heedful.nn.initialization import init_xavier
from heedful.nn.padding import pad
from heedful.packed import Layout, Packed

WIDTH, HEADS, MEMORY, WORDS = 8, 2, 6, 11
HEAD = WIDTH // HEADS
TINY: dict[str, Any] = {
    "width": WIDTH, "heads": HEADS, "layers": 1, "inner": 8, "dropout": 0.0, "norm": "pre",
    "alpha": 1.3, "features": 7, "area": 2, "max_places": 9, "max_distance": 2,
}  # fmt: skip
LENGTHS, MEMORY_LENGTHS = [3, 1, 2], [2, 3, 1]
POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", "relative")
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
EVERY_ALIGNMENT = pytest.mark.parametrize("alignment", get_args(AlignmentName))


@pytest.fixture(autouse=True)
def exact_constants() -> Iterator[None]:
    """Everything in float64: weights, sines, slopes and random features."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


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
    return shaken(first.attention).eval(), shaken(block.attention).eval(), shaken(block.cross).eval()


def model_of(seed: int = 1, /, **options: Any) -> EncoderDecoder:
    torch.manual_seed(seed)
    model: EncoderDecoder = shaken(build_model(config_of(**options), WORDS, WORDS)).eval()
    set_precision(model, torch.get_default_dtype())
    return model


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


# --- the equations ----------------------------------------------------------------------------------------------------


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


@EVERY_PAIR
@torch.no_grad()
def test_every_attention_is_that_of_the_equations_whatever_stands_beside_a_sentence(options: dict[str, str]) -> None:
    config = config_of(**options)
    encoding, decoding, cross = attentions_of(config)
    layout, memory_layout = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(memory_layout.tokens, MEMORY)
    sentences = list(zip(x.split(LENGTHS), memory.split(MEMORY_LENGTHS), strict=True))
    close(encoding(x, layout), torch.cat([Loop(config, encoding)(each)[0] for each, _ in sentences]))
    close(decoding(x, layout), torch.cat([Loop(config, decoding, causal=True)(each)[0] for each, _ in sentences]))
    expected = torch.cat([Loop(config, cross)(each, read)[0] for each, read in sentences])
    close(cross(x, layout, memory, memory_layout), expected)


@pytest.mark.parametrize("distribution", ["softmax", "de_attention"])
@EVERY_ALIGNMENT
@pytest.mark.parametrize("positions", ["rope", "relative"])
def test_gradients_are_those_of_the_equations(alignment: str, distribution: str, positions: str) -> None:
    options = {"alignment": alignment, "distribution": distribution, "positions": positions}
    if not legal(options):
        return
    config = config_of(**options)
    for attention, causal in zip(attentions_of(config)[:2], (False, True), strict=True):
        layout = Layout.of([3, 2])
        x, factors = torch.randn(2, 5, WIDTH)
        inputs = [x.requires_grad_(), *attention.parameters()]
        loops = torch.cat([Loop(config, attention, causal)(each)[0] for each in x.split([3, 2])])
        found = torch.autograd.grad((attention(x, layout) * factors).sum(), inputs)
        for gradient, expected in zip(found, torch.autograd.grad((loops * factors).sum(), inputs), strict=True):
            close(gradient, expected)


def test_every_parameter_learns() -> None:
    """With one distribution or another: a softmax does not notice what is added to all scores alike."""
    learning: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    known: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    layout, memory_layout = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    for options in PAIRS:
        for place, attention in enumerate(attentions_of(config_of(**options))):
            x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(memory_layout.tokens, MEMORY)
            inputs = (x, layout, memory, memory_layout) if place == 2 else (x, layout)
            attention.train()(*inputs).square().sum().backward()
            key = options["alignment"], place
            known[key] |= {name for name, _ in attention.named_parameters()}
            learning[key] |= {
                name for name, weight in attention.named_parameters() if weight.grad is not None and far(weight.grad)
            }
    assert learning == known


def far(x: Tensor) -> bool:
    return bool((x.abs() > 1e-8).any())


@EVERY_WORD
@torch.no_grad()
def test_neighbours_and_empty_sentences_change_nothing(options: dict[str, str]) -> None:
    encoding, decoding, cross = attentions_of(config_of(**options))
    layout, memory_layout = Layout.of([3, 0, 4]), Layout.of([2, 0, 5])
    x, memory = torch.randn(7, WIDTH), torch.randn(7, MEMORY)
    louder_x, louder_memory = (torch.cat((each[:size], 9 * each[size:])) for each, size in ((x, 3), (memory, 2)))
    for attention in (encoding, decoding):
        first = attention(x, layout)[:3]
        close(attention(louder_x, layout)[:3], first)
        close(attention(x[:3], Layout.of([3])), first)
    first = cross(x, layout, memory, memory_layout)[:3]
    close(cross(louder_x, layout, louder_memory, memory_layout)[:3], first)
    close(cross(x[:3], Layout.of([3]), memory[:2], Layout.of([2])), first)


# --- beside the fused classes -----------------------------------------------------------------------------------------

SCHEMES: dict[str, Callable[[], PositionScheme]] = {
    "none": PositionScheme,
    "rope": lambda: Rotary(HEAD),
    "alibi": lambda: LinearBias(HEADS),
    "relative": lambda: RelativeVectors(HEAD, 2),
}


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_softmax_of_scaled_dots_is_what_fused_self_attention_computes(scheme: str, causal: bool) -> None:
    fused = shaken(SelfAttention(WIDTH, HEADS, causal, positions=SCHEMES[scheme]()))
    aligned = AlignedSelfAttention(WIDTH, HEADS, reading(), causal, positions=SCHEMES[scheme]())
    assert set(aligned.state_dict()) == set(fused.state_dict())  # this alignment has no parameters
    aligned.load_state_dict(fused.state_dict())
    layout, x = Layout.of(LENGTHS), torch.randn(sum(LENGTHS), WIDTH, requires_grad=True)
    close(aligned(x, layout), fused(x, layout))
    gradients = [
        torch.autograd.grad(module(x, layout).square().sum(), [x, *module.parameters()]) for module in (aligned, fused)
    ]
    for found, expected in zip(*gradients, strict=True):
        close(found, expected)
    close(stepped(aligned, beams=1), stepped(fused, beams=1))
    close(stepped(aligned, beams=3), stepped(fused, beams=3))


def reading() -> HeadAttention:
    return HeadAttention(ScaledDot(HEAD, HEAD, HEADS))


@torch.no_grad()
def stepped(attention: SelfAttention, beams: int) -> Tensor:
    """Three steps of two sentences, whose rows descend from rows of chance."""
    torch.manual_seed(beams)
    cache, descent, outputs = torch.zeros(2, 2, HEADS, 0, HEAD), torch.zeros(2, beams, 0, beams, dtype=torch.bool), []
    for _ in range(3):
        own = torch.eye(beams, dtype=torch.bool).unsqueeze(1).expand(2, beams, 1, beams)
        descent = torch.cat((descent[torch.arange(2)[:, None], torch.randint(beams, (2, beams))], own), dim=2)
        cache = torch.cat((cache, torch.full((2, 2, HEADS, beams, HEAD), math.nan)), dim=3)
        keep = None if beams == 1 else descent.flatten(2).unsqueeze(1)
        outputs.append(attention.step(torch.randn(2 * beams, WIDTH), cache, keep))
    return torch.stack(outputs)


def test_a_softmax_of_scaled_dots_is_what_fused_attention_over_a_memory_computes() -> None:
    fused = shaken(CrossAttention(WIDTH, HEADS, memory_width=MEMORY))
    aligned = AlignedCrossAttention(WIDTH, HEADS, reading(), memory_width=MEMORY)
    aligned.load_state_dict(fused.state_dict())
    layout, memory_layout = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(memory_layout.tokens, MEMORY)
    close(aligned(x, layout, memory, memory_layout), fused(x, layout, memory, memory_layout))
    keys, values = (pad(each, memory_layout).transpose(1, 2) for each in fused.keys_and_values(memory))
    held = torch.randn(6, WIDTH), torch.stack((keys, values)), memory_layout.keep[:, None, None, :]
    close(aligned.step(*held), fused.step(*held))
    close(aligned.step_weights(*held), fused.step_weights(*held))


@pytest.mark.parametrize(("alignment", "distribution"), [("deep", "learned_entmax"), ("area", "softmax")])
def test_projections_start_as_those_of_fused_attention(alignment: str, distribution: str) -> None:
    models = [
        build_model(config_of(alignment=align, distribution=distribute), WORDS, WORDS)
        for align, distribute in (("scaled_dot", "softmax"), (alignment, distribution))
    ]
    weights = []
    for model in models:
        torch.manual_seed(5)
        init_xavier(model)
        weights.append(dict(model.named_parameters()))
    fused, aligned = weights
    assert set(fused) < set(aligned)
    projections = [name for name in fused if "project" in name or "output" in name.split(".")[-2]]
    assert len(projections) == 2 * (2 + 2 + 3)
    assert all(torch.equal(aligned[name], fused[name]) for name in projections if "blocks" in name)


# --- stepping ---------------------------------------------------------------------------------------------------------

SOURCES = [[4, 5, 6], [7, 8, 9, 4, 5], [6, 10]]


@EVERY_PAIR
@torch.no_grad()
def test_stepping_equals_forward_while_rows_change_places_and_sentences_leave(options: dict[str, str]) -> None:
    model, beams, active = model_of(**options), 2, torch.arange(3)
    state = model.decoder.start(model.encoder(Packed.of(SOURCES)), beams, aligned=True)
    rows: list[list[list[int]]] = [[[], []], [[], []], [[], []]]
    said, found = [], []
    for step in range(3):
        tokens = torch.randint(WORDS, (len(active), beams))
        rows = [
            [[*row, token] for row, token in zip(*both, strict=True)]
            for both in zip(rows, tokens.tolist(), strict=True)
        ]
        logits, state = model.decoder.step(tokens.flatten(), state)
        check_attention(state.attention_RL, active.tolist(), beams)
        said += [(place, row) for place, each in zip(active.tolist(), rows, strict=True) for row in each]
        found.append(logits)
        parents = torch.randint(beams, (len(active), beams))
        state = state.reorder(parents)
        rows = [[each[parent] for parent in row] for each, row in zip(rows, parents.tolist(), strict=True)]
        if step == 0:
            kept = torch.tensor([2, 1])
            state, active, rows = state.narrow(kept), active[kept], [rows[place] for place in kept]
    whole = model(Packed.of([SOURCES[place] for place, _ in said]), Packed.of([row for _, row in said]))
    expected = [each[-1] for each in whole.split([len(row) for _, row in said])]
    close(torch.cat(found), torch.stack(expected))


def check_attention(weights: Tensor | None, sentences: list[int], beams: int) -> None:
    assert weights is not None
    assert (weights >= 0).all()
    close(weights.sum(1), torch.ones(len(sentences) * beams))
    for row, place in zip(weights, [place for place in sentences for _ in range(beams)], strict=True):
        assert (row[len(SOURCES[place]) :] == 0).all()


@pytest.mark.parametrize(
    "options", [{"alignment": "area", "positions": "rope"}, {"alignment": "location"}, {"distribution": "de_attention"}]
)
def test_one_row_a_sentence_steps_like_forward(options: dict[str, str]) -> None:
    model = model_of(**options)
    with torch.no_grad():
        targets = torch.randint(WORDS, (3, 5))
        expected = model(Packed.of(SOURCES), Packed.of(targets.tolist())).unflatten(0, (3, 5))
        state = model.decoder.start(model.encoder(Packed.of(SOURCES)))
        for place, tokens in enumerate(targets.T):
            logits, state = model.decoder.step(tokens, state)
            close(logits, expected[:, place])


def test_a_decoder_over_a_wider_memory_steps_like_forward() -> None:
    for options in ({}, {"alignment": "additive", "distribution": "sparsemax"}):
        decoder: TransformerDecoder = shaken(transformer_decoder(config_of(**options), matrix(), matrix(), 3 * WIDTH))
        decoder.embedding.precision = torch.float64
        memory = Packed(torch.randn(sum(MEMORY_LENGTHS), 3 * WIDTH), Layout.of(MEMORY_LENGTHS))
        targets = torch.randint(WORDS, (3, 4))
        expected = decoder(Packed.of(targets.tolist()), memory).unflatten(0, (3, 4))
        state = decoder.start(memory)
        for place, tokens in enumerate(targets.T):
            logits, state = decoder.step(tokens, state)
            close(logits, expected[:, place])
        assert decoder.head_bytes == 8 * HEAD


@EVERY_PAIR
@torch.no_grad()
def test_the_weights_of_a_step_are_shares_of_what_the_equations_read(options: dict[str, str]) -> None:
    config = config_of(**options)
    cross, layout = attentions_of(config)[2], Layout.of(MEMORY_LENGTHS)
    memory, x, beams = torch.randn(layout.tokens, MEMORY), torch.randn(6, WIDTH), 2
    keys, values = (pad(each, layout).transpose(1, 2) for each in cross.keys_and_values(memory))
    found = cross.step_weights(x, torch.stack((keys, values)), layout.keep[:, None, None, :])
    for rows, part, weights in zip(x.split(beams), memory.split(MEMORY_LENGTHS), found.split(beams), strict=True):
        _, factors_HQL = Loop(config, cross)(rows, part)
        sizes = sum(factors.abs() for factors in factors_HQL)
        assert isinstance(sizes, Tensor)
        close(weights[:, : len(part)], sizes / sizes.sum(1, keepdim=True))
        assert (weights[:, len(part) :] == 0).all()


def test_shares_are_of_sizes_and_a_query_that_reads_nothing_shares_alike() -> None:
    factors = torch.tensor([[[[3.0, -1.0, 0.0], [0.0, 0.0, 0.0]], [[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]]])
    keep = torch.tensor([[True, True, False]])
    close(position_shares(factors, keep), torch.tensor([[[4 / 7, 3 / 7, 0.0], [0.5, 0.5, 0.0]]]))
    close(position_shares(factors), torch.tensor([[[4 / 7, 3 / 7, 0.0], [1 / 3, 1 / 3, 1 / 3]]]))


# --- the kernel -------------------------------------------------------------------------------------------------------


class Largest(TorchDispatchMode):
    """Watches how many numbers the largest tensor holds that anything puts out, and how many all of them hold."""

    largest, total = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, tuple | list) else (results,):
            if isinstance(result, Tensor):
                self.largest, self.total = max(self.largest, result.numel()), self.total + result.numel()
        return results


def watched(attention: SelfAttention | CrossAttention, length: int) -> Largest:
    layout, x = Layout.of([length]), torch.randn(length, attention.output.weight.shape[1], requires_grad=True)
    inputs = (x, layout, x, layout) if isinstance(attention, CrossAttention) else (x, layout)
    with Largest() as seen:  # type: ignore[no-untyped-call]
        attention(*inputs).sum().backward()
    return seen


def kernel_attentions(features: int) -> tuple[SelfAttention, SelfAttention, CrossAttention]:
    return attentions_of(config_of(alignment="kernel", features=features), memory_width=WIDTH)


def test_a_kernel_never_compares_each_token_with_each() -> None:
    once, twice = 1024, 2048
    for attention in kernel_attentions(features=4):
        short, long = watched(attention, once), watched(attention, twice)
        assert long.largest < twice * twice / 4
        assert long.largest <= 2.01 * short.largest
        assert long.total <= 2.1 * short.total
    assert watched(SelfAttention(WIDTH, HEADS, backend=explicit), once).largest >= once * once


@torch.no_grad()
def test_a_kernel_with_more_features_comes_nearer_to_a_softmax() -> None:
    layout, x = Layout.of([6, 3]), torch.randn(9, WIDTH) / 2  # of long vectors the largest features decide alone
    fused = [SelfAttention(WIDTH, HEADS), SelfAttention(WIDTH, HEADS, causal=True), CrossAttention(WIDTH, HEADS)]
    errors = []
    for features in (16, 256, 4096):
        error = 0.0
        for attention, exact in zip(kernel_attentions(features), fused, strict=True):
            attention.load_state_dict(exact.state_dict(), strict=False)
            inputs = (x, layout, x, layout) if isinstance(exact, CrossAttention) else (x, layout)
            error += float((attention(*inputs) - exact(*inputs)).abs().mean())
        errors.append(error)
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < errors[0] / 8  # as 1 / sqrt(features)


def test_a_kernels_weights_are_dropped_in_training() -> None:
    count, x = 3000, torch.randn(4, WIDTH)
    attention = AlignedSelfAttention(WIDTH, HEADS, LinearHeadAttention(Kernel(HEAD, HEAD, HEADS, 8)), dropout=0.5)
    whole = attention.eval()(x, Layout.of([4]))
    drawn = attention.train()(x.repeat(count, 1), Layout.of([4] * count)).unflatten(0, (count, 4))
    close(drawn.mean(0), whole, 0.05)
    assert float(drawn.std(0).mean().detach()) > 0.05


def test_random_features_are_those_of_the_recipe_in_each_layer_their_own() -> None:
    """A file of weights does not hold them."""
    written, read = (model_of(seed, alignment="kernel", layers=2) for seed in (1, 2))
    weights_from_bytes(read, weights_to_bytes(written), Path("model.safetensors"))
    pair = Packed.of(SOURCES), Packed.of([[4, 4], [5], [6, 7, 8]])
    assert torch.equal(read(*pair), written(*pair))
    kernels = [module for module in written.modules() if isinstance(module, Kernel)]
    assert len({tuple(each.directions.flatten().tolist()) for each in kernels}) == len(kernels) == 6


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_dropped_weights_count_in_no_value(scheme: str) -> None:
    """With one key a weight is 0 or 1 / (1 - p), and so is the whole of the value with its vector."""
    attention = AlignedSelfAttention(WIDTH, HEADS, reading(), dropout=0.5, positions=SCHEMES[scheme]())
    nn.init.eye_(attention.output.weight)
    nn.init.zeros_(attention.output.bias)
    layout, x = Layout.of([1] * 300), torch.randn(300, WIDTH)
    whole = attention.eval()(x, layout).unflatten(1, (HEADS, HEAD))
    found = attention.train()(x, layout).unflatten(1, (HEADS, HEAD))
    kept = (found != 0).any(2, keepdim=True)
    close(found, torch.where(kept, 2 * whole, 0.0))
    assert 0.4 < float(kept.double().mean()) < 0.6


@pytest.mark.parametrize("choice", ["hard", "gumbel"])
def test_choices_are_drawn_in_training_and_certain_at_use(choice: str) -> None:
    layout, x = Layout.of([6]), torch.randn(6, WIDTH)
    for attention in attentions_of(config_of(choice=choice, distribution="entmax15"))[:2]:
        assert torch.equal(attention(x, layout), attention(x, layout))
        attention.train()
        assert not torch.equal(attention(x, layout), attention(x, layout))


@EVERY_WORD
def test_values_keep_their_type_and_scores_are_wide(options: dict[str, str]) -> None:
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(3)
    layout, memory_layout = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(memory_layout.tokens, MEMORY)
    for place, attention in enumerate(attentions_of(config_of(**options))):
        inputs = (x, layout, memory, memory_layout) if place == 2 else (x, layout)
        narrow = [each.bfloat16() if isinstance(each, Tensor) else each for each in inputs]
        found = attention(*narrow)
        assert found.dtype == torch.bfloat16
        found.float().square().sum().backward()
        assert all(weight.grad is None or weight.grad.isfinite().all() for weight in attention.parameters())
        if options["choice"] == "soft":  # a choice between nearly equal keys may turn over
            exact = attention.double()(*(each.double() if isinstance(each, Tensor) else each for each in inputs))
            assert float(((found - exact).abs().max() / exact.abs().max()).detach()) < 0.1


def test_a_distribution_is_given_wide_scores_and_wide_distances() -> None:
    seen: list[torch.dtype] = []

    def listening(scores: Tensor, distance: Tensor, visible: Tensor | None) -> Tensor:
        seen.extend((scores.dtype, distance.dtype))
        return softmax(scores + distance, visible)

    attention = AlignedSelfAttention(WIDTH, HEADS, HeadAttention(ScaledDot(HEAD, HEAD, HEADS), listening, l1_distance))
    attention(torch.randn(3, WIDTH).bfloat16(), Layout.of([2, 1]))
    assert seen == [torch.float32, torch.float32]


# --- from the recipe --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backend", "function"), [("auto", automatic), ("fused", automatic), ("explicit", explicit)])
def test_a_backend_is_chosen_for_what_backends_know(backend: str, function: Backend) -> None:
    config = config_of(backend=backend)
    for attention in attentions_of(config):
        assert type(attention) in (SelfAttention, CrossAttention)
        assert attention.backend is function
        assert attention.in_slots == config.fused
    for attention in attentions_of(config_of(distribution="sparsemax", backend="explicit")):
        assert isinstance(attention, AlignedSelfAttention | AlignedCrossAttention)
        assert not attention.in_slots


def test_attention_that_is_not_fused_does_not_decode_in_slots() -> None:
    for options in ({"backend": "explicit"}, {"choice": "hard"}, {"alignment": "dot"}, {"distribution": "sigmoid"}):
        decoder = model_of(**options).decoder
        assert isinstance(decoder, TransformerDecoder)
        assert not decoder.decodes_in_slots
        with pytest.raises(ValueError, match=r"^a decoder whose attention is not fused does not decode in slots$"):
            decoder.slots(SlotShape(slots=1, beams=1, room=8, memory=8))
    fused = model_of().decoder
    assert isinstance(fused, TransformerDecoder)
    assert fused.decodes_in_slots


def test_a_sentence_longer_than_the_places_of_a_location_alignment_is_refused() -> None:
    model = model_of(alignment="location", max_places=4)
    model(Packed.of([[4] * 4]), Packed.of([[5] * 4]))
    refusal = r"^the memory has 5 positions, but the location-based alignment was built for up to 4: build it with"
    with pytest.raises(ValueError, match=refusal):
        model(Packed.of([[4] * 5]), Packed.of([[5] * 4]))
    state = model.decoder.start(model.encoder(Packed.of([[4] * 4])), 2)
    for _ in range(4):
        _, state = model.decoder.step(torch.tensor([5, 5]), state)
    with pytest.raises(ValueError, match=refusal):
        model.decoder.step(torch.tensor([5, 5]), state)


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "preset": ({"preset": "small"}, {"preset": "base", "layers": 1, "dropout": 0.1}),
    "width": ({}, {"width": 12}),
    "heads": ({}, {"heads": 4}),
    "layers": ({}, {"layers": 2}),
    "decoder_layers": ({}, {"decoder_layers": 2}),
    "inner": ({}, {"inner": 9}),
    "activation": ({}, {"activation": "gelu"}),
    "norm": ({}, {"norm": "post"}),
    "norm_epsilon": ({}, {"norm_epsilon": 0.5}),
    "embedding_scale": ({}, {"embedding_scale": False}),
    "embedding_norm": ({}, {"embedding_norm": True}),
    "output_bias": ({}, {"output_bias": True}),
    "final_norm": ({}, {"final_norm": False}),
    "positions": ({}, {"positions": "rope"}),
    "max_positions": ({"positions": "learned"}, {"positions": "learned", "max_positions": 50}),
    "max_distance": ({"positions": "relative"}, {"positions": "relative", "max_distance": 1}),
    "alignment": ({}, {"alignment": "dot"}),
    "backend": ({}, {"backend": "explicit"}),
    "embeddings": ({}, {"embeddings": 2}),
    "tie": ({}, {"tie": "none"}),
    "dropout": ({}, {"dropout": 0.3}),
    "dropout_embedding": ({}, {"dropout_embedding": 0.3}),
    "dropout_words": ({}, {"dropout_words": 0.4}),
    "dropout_attention": ({"alignment": "deep"}, {"alignment": "deep", "dropout_attention": 0.3}),
    "dropout_inner": ({}, {"dropout_inner": 0.3}),
    "distribution": ({}, {"distribution": "sparsemax"}),
    "alpha": ({"distribution": "entmax"}, {"distribution": "entmax", "alpha": 1.9}),
    "choice": ({}, {"choice": "hard"}),
    "temperature": ({"choice": "gumbel"}, {"choice": "gumbel", "temperature": 0.3}),
    "features": ({"alignment": "kernel"}, {"alignment": "kernel", "features": 8}),
    "area": ({"alignment": "area"}, {"alignment": "area", "area": 3}),
    "max_places": ({"alignment": "location"}, {"alignment": "location", "max_places": 12}),
}  # fmt: skip


def test_every_key_of_a_transformer_has_an_effect() -> None:
    assert set(CHANGES) == set(TransformerModel.model_fields) - {"family"}


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_has_an_effect(key: str) -> None:
    before, after = CHANGES[key]
    if key == "preset":  # whose sizes are not for tests
        sizes = [TransformerModel.model_validate(options) for options in CHANGES[key]]
        assert sizes[0].width != sizes[1].width
        return
    known, again, other = (effect(**options) for options in (before, before, after))
    assert same(known, again)
    assert not same(known, other)


def effect(**options: Any) -> dict[str, Tensor]:
    """All that a step of training says of a model: its outputs, the gradients of all weights, and where it decodes."""
    model = model_of(**options).train()
    torch.manual_seed(4)
    logits = model(Packed.of(SOURCES), Packed.of([[4, 4], [5, 6, 7, 8], [6]]))
    logits.square().sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    assert isinstance(model.decoder, TransformerDecoder)
    return {"logits": logits.detach(), "slots": torch.tensor(model.decoder.decodes_in_slots), **gradients}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)
