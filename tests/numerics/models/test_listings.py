"""Recipes of printed programs have their numbers of weights and compute what they compute.

The programs are those of a tutorial on sequences, written anew with torch's modules from what it prints.
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.base.packed import Images, Packed
from heedful.config.reading.load import load_recipe
from heedful.models.networks import EncoderDecoder, LanguageModel, PooledNetwork
from heedful.models.weights import set_weights
from heedful.plots.recipes import recipe_network

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # of torch.nn.Transformer itself

CLASSIFIER, TWEETS, DIGITS = "tutorial-transformer-classifier", "tweets-lstm", "mnist-vit-linear"
PRE_NORM = ("model.encoder.norm=pre", "model.encoder.final_norm=false")


def weights_in(*modules: nn.Module) -> int:
    return sum(weight.numel() for module in modules for weight in module.parameters())


def network(recipe: str, *settings: str, classes: int = 2, device: str = "meta") -> nn.Module:
    return recipe_network(load_recipe(recipe, [*settings]), classes, device).eval()


# --- the Transformer classifier ---------------------------------------------------------------------------------------


class PrintedAttention(nn.Module):
    """Queries, keys and values without biases, from inputs of three widths."""

    def __init__(self, width: int, heads: int, inputs: tuple[int, int, int] | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(given, width, bias=False) for given in inputs or (width, width, width))
        self.h = nn.Linear(width, width)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q(q), self.k(k), self.v(v)))
        weights = (q / math.sqrt(q.shape[-1]) @ k.transpose(2, 3)).softmax(-1)
        mixed: Tensor = self.h((weights @ v).transpose(1, 2).flatten(2))
        return mixed


class PrintedLayer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, norm: str = "post") -> None:
        super().__init__()
        self.attention, self.norm = PrintedAttention(width, heads), norm
        self.into, self.out = nn.Linear(width, inner), nn.Linear(inner, width)
        if norm == "rezero":
            self.factor = nn.Parameter(torch.zeros(1))
        else:
            self.first, self.second = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x + self.attention(x, x, x))
        y: Tensor = self.second(x + self.out(self.into(x).relu()))
        return y


class PrintedClassifier(nn.Module):
    def __init__(self, words: int, width: int, heads: int, inner: int, norm: str = "post") -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(words, width, padding_idx=1), nn.LayerNorm(width, eps=1e-12)
        self.layer, self.dense = PrintedLayer(width, heads, inner, norm), nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        steps, columns = torch.arange(x.shape[1]).unsqueeze(1), torch.arange(0, x.shape[2], 2)
        angles = steps / 10_000 ** (columns / x.shape[2])
        positions = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
        scores: Tensor = self.dense(self.layer(self.norm(x + positions)).max(1).values)
        return scores


@pytest.mark.parametrize(
    ("settings", "norm", "heads", "more"),
    [
        ((), "post", 2, 0),
        (("model.encoder.heads=1",), "post", 1, 0),
        (("model.encoder.positions=none",), "post", 2, 0),
        (PRE_NORM, "pre", 2, 0),
        (("model.encoder.norm=rezero",), "rezero", 2, 1),  # a factor for each sublayer, where the class shares one
    ],
)
def test_the_transformer_classifier_has_the_weights_of_the_printed_one(
    settings: Sequence[str], norm: str, heads: int, more: int
) -> None:
    with torch.device("meta"):
        printed = PrintedClassifier(50_002, 32, heads, 128, norm)
    assert weights_in(network(CLASSIFIER, *settings)) == weights_in(printed) + more
    assert weights_in(printed) == (1_612_675 if norm == "rezero" else 1_612_802)


@pytest.mark.parametrize("heads", [1, 2])
def test_the_transformer_classifier_scores_texts_as_the_printed_one_does(heads: int) -> None:
    ours = network(CLASSIFIER, f"model.encoder.heads={heads}", "tokenizer.size=50", device="cpu")
    assert isinstance(ours, PooledNetwork)
    printed = PrintedClassifier(50, 32, heads, 128).eval()
    layer, attention = printed.layer, printed.layer.attention
    given = [
        printed.words.weight, *printed.norm.parameters(),
        torch.cat([attention.q.weight, attention.k.weight, attention.v.weight]), *attention.h.parameters(),
        *layer.into.parameters(), *layer.out.parameters(), *layer.first.parameters(), *layer.second.parameters(),
        *printed.dense.parameters(),
    ]  # fmt: skip
    set_weights(ours, dict(zip(dict(ours.named_parameters()), given, strict=True)))
    tokens = torch.randint(5, 50, (3, 7))
    found = ours(Packed.of(tokens.tolist()))
    torch.testing.assert_close(found, printed(tokens), atol=1e-4, rtol=1e-4)


def test_without_positions_the_order_of_words_is_not_seen() -> None:
    ours = network(CLASSIFIER, "model.encoder.positions=none", "tokenizer.size=50", device="cpu")
    one, other = ours(Packed.of([[5, 6, 7, 8], [8, 6, 5, 7]]))
    torch.testing.assert_close(one, other)
    placed = network(CLASSIFIER, "tokenizer.size=50", device="cpu")
    one, other = placed(Packed.of([[5, 6, 7, 8], [8, 6, 5, 7]]))
    assert not torch.allclose(one, other, atol=1e-4)


# --- the LSTM classifier ----------------------------------------------------------------------------------------------


class PrintedTweets(nn.Module):
    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.first, self.second = nn.Linear(width, 257), nn.Linear(257, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.words(tokens))  # whose initial states the class draws at random
        return torch.sigmoid(self.second(self.first(states[:, -1]).relu()))


def test_the_classifier_of_tweets_has_the_weights_of_the_printed_one() -> None:
    with torch.device("meta"):
        assert weights_in(network(TWEETS)) == weights_in(PrintedTweets(50_002, 128, 2)) == 6_697_859


def test_the_classifier_of_tweets_gives_the_probability_of_the_printed_one() -> None:
    ours, printed = network(TWEETS, "tokenizer.size=60", device="cpu"), PrintedTweets(60, 128, 2)
    given = [printed.words.weight / math.sqrt(128), *[*printed.parameters()][1:]]  # our embeddings are scaled
    set_weights(ours, dict(zip(dict(ours.named_parameters()), given, strict=True)))
    tokens = torch.randint(5, 60, (4, 9))
    found = ours(Packed.of(tokens.tolist())).softmax(1)
    torch.testing.assert_close(found[:, 1:], printed(tokens), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("cell", "kind", "weights"), [("lstm", nn.LSTM, 5920), ("gru", nn.GRU, 4440)])
def test_the_printed_recurrent_layers_have_their_weights_and_shapes(
    cell: str, kind: type[nn.LSTM | nn.GRU], weights: int
) -> None:
    sizes = (f"model.encoder.cell={cell}", "model.encoder.embedding=10", "model.encoder.width=20", "tokenizer.size=60")
    ours, printed = network(TWEETS, *sizes, device="cpu"), kind(10, 20, 2)
    assert isinstance(ours, PooledNetwork)
    stack = ours.encoder.stack
    assert isinstance(stack, nn.Module)
    assert weights_in(stack) == weights_in(printed) == weights
    set_weights(stack, dict(zip(dict(stack.named_parameters()), printed.parameters(), strict=True)))
    x = torch.randn(5, 3, 10)  # five words of three sentences
    output, state = printed(x)
    packed = Packed.of([[1] * 5] * 3)
    found, last = stack(x.transpose(0, 1).flatten(0, 1), packed.layout)
    torch.testing.assert_close(found.view(3, 5, 20).transpose(0, 1), output, atol=1e-5, rtol=1e-5)
    hidden = state[0] if cell == "lstm" else state
    assert (output.shape, hidden.shape) == ((5, 3, 20), (2, 3, 20))
    torch.testing.assert_close(last.hidden, hidden, atol=1e-5, rtol=1e-5)


# --- the Vision Transformer -------------------------------------------------------------------------------------------


class PrintedViT(nn.Module):
    """Its blocks, which the tutorial does not print, are those of the notebook that it names: pre-norm, with GELU."""

    def __init__(
        self, width: int, inner: int, channels: int, heads: int, layers: int, patch: int, patches: int
    ) -> None:
        super().__init__()
        self.patch, self.into = patch, nn.Linear(channels * patch**2, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, inner, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 10)
        self.token, self.positions = (nn.Parameter(torch.randn(count, width)) for count in (1, 1 + patches))

    def forward(self, pixels: Tensor) -> Tensor:
        rows = pixels.shape[2] // self.patch
        x = F.unfold(pixels, self.patch, stride=self.patch).transpose(1, 2)
        assert x.shape[1] == rows**2
        x = torch.cat([self.token.expand(len(x), 1, -1), self.into(x)], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.out(self.norm(x[:, 0]))
        return scores


def test_the_vision_transformer_has_the_weights_of_the_printed_one() -> None:
    with torch.device("meta"):
        printed = PrintedViT(256, 512, 1, 8, 6, 4, 49)
    assert weights_in(network(DIGITS, classes=10)) == weights_in(printed) == 3_183_114


def test_the_vision_transformer_scores_images_as_the_printed_one_does() -> None:
    sizes = ("model.encoder.layers=1", "model.encoder.width=32", "model.encoder.inner=48")
    ours, printed = network(DIGITS, *sizes, classes=10, device="cpu"), PrintedViT(32, 48, 1, 8, 1, 4, 49).eval()
    (block,) = printed.blocks
    assert isinstance(block, nn.TransformerEncoderLayer)
    given = [
        printed.token, printed.positions[:1], *printed.into.parameters(), printed.positions[1:],
        block.self_attn.in_proj_weight, block.self_attn.in_proj_bias, *block.self_attn.out_proj.parameters(),
        *block.linear1.parameters(), *block.linear2.parameters(), *block.norm1.parameters(), *block.norm2.parameters(),
        *printed.norm.parameters(), *printed.out.parameters(),
    ]  # fmt: skip
    own = dict(ours.named_parameters())
    set_weights(ours, {name: weight.view_as(own[name]) for name, weight in zip(own, given, strict=True)})
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 28, 28, 1), dtype=np.uint8))
    found = ours(Images.of([*pixels], patch=4, class_token=True))
    torch.testing.assert_close(found, printed(pixels.permute(0, 3, 1, 2) / 127.5 - 1), atol=1e-4, rtol=1e-4)


# --- torch.nn.Transformer, called as printed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "activation", "first"),
    [
        ((), "silu", True),
        (("model.norm=post", "model.final_norm=true", "model.activation=relu"), "relu", False),
    ],
)
def test_a_translator_has_the_weights_of_the_printed_call(
    settings: Sequence[str], activation: str, first: bool
) -> None:
    with torch.device("meta"):
        act = F.silu if activation == "silu" else F.relu
        called = nn.Transformer(512, 8, 6, 6, 2048, 0.1, act, batch_first=True, norm_first=first)
    ours = network("tutorial-transformer", *settings)
    assert isinstance(ours, EncoderDecoder)
    vocabulary = 10_000 * 512
    assert weights_in(ours) - vocabulary == weights_in(called) == 44_140_544


@pytest.mark.parametrize("recipe", ["tutorial-gpt", "tutorial-gpt-bad"])
def test_a_gpt_has_the_weights_of_the_printed_blocks_without_attention_to_a_source(recipe: str) -> None:
    with torch.device("meta"):
        called = nn.Transformer(512, 8, 6, 6, 2048)
    ours = network(recipe)
    assert isinstance(ours, LanguageModel)
    assert weights_in(ours) - (10_000 + 256) * 512 == weights_in(called.encoder) == 18_915_328


def test_the_student_of_distilbert_has_six_tenths_of_its_teachers_weights() -> None:
    student, teacher = (weights_in(network(name)) for name in ("distilbert", "distilbert-teacher"))
    assert (student, teacher, round(student / teacher, 2)) == (6_992_960, 11_731_520, 0.6)
