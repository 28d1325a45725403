"""The Transformer equals `torch.nn.Transformer` with the same weights: what it computes, and every gradient."""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision

WIDTH, HEADS, INNER, LAYERS, DECODER_LAYERS = 16, 4, 24, 2, 3
SOURCE_WORDS, TARGET_WORDS = 19, 23
SOURCE_LENGTHS, TARGET_LENGTHS = (5, 1, 7, 3), (2, 6, 1, 4)
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5}


@pytest.mark.parametrize("final_norm", [True, False], ids=["final_norm", "no_final_norm"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_scores_and_all_gradients_equal_torch_nn_transformer(
    dtype: torch.dtype, norm: str, activation: str, final_norm: bool
) -> None:
    ours = our_model(dtype, norm, activation, final_norm)
    theirs = TheirModel(norm, activation, final_norm).to(dtype)
    names = dict(correspondence(norm, final_norm))
    copy_weights(ours, theirs, names)
    source, target = sentences(SOURCE_LENGTHS, SOURCE_WORDS), sentences(TARGET_LENGTHS, TARGET_WORDS)
    factors = torch.randn(sum(TARGET_LENGTHS), TARGET_WORDS, dtype=dtype)

    our_scores = ours(Packed.of(source), Packed.of(target))
    (our_scores * factors).sum().backward()
    their_scores = theirs(source, target)
    (their_scores * factors).sum().backward()

    assert_equal(our_scores, their_scores, "scores")
    for name, (their_name, rows) in names.items():
        gradient, expected = ours.get_parameter(name).grad, theirs.get_parameter(their_name).grad
        assert gradient is not None
        assert expected is not None
        assert gradient.abs().max() > 0, name
        assert_equal(gradient, expected[rows], name)


@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_comparison_covers_every_parameter_of_both_models(norm: str, final_norm: bool) -> None:
    ours = our_model(torch.float32, norm, "relu", final_norm)
    theirs = TheirModel(norm, "relu", final_norm)
    names = dict(correspondence(norm, final_norm))
    assert set(names) == {name for name, _ in ours.named_parameters()}
    counts = {name: torch.zeros(parameter.shape[0]) for name, parameter in theirs.named_parameters()}
    for their_name, rows in names.values():
        counts[their_name][rows] += 1
    for their_name, count in counts.items():
        assert (count == 1).all(), their_name


def our_model(dtype: torch.dtype, norm: str, activation: str, final_norm: bool) -> EncoderDecoder:
    torch.manual_seed(1)
    config = TransformerModel(
        width=WIDTH,
        heads=HEADS,
        layers=LAYERS,
        decoder_layers=DECODER_LAYERS,
        inner=INNER,
        norm=norm,  # type: ignore[arg-type]
        activation=activation,  # type: ignore[arg-type]
        final_norm=final_norm,
        tie="none",
        dropout=0.0,
    )
    model = build_model(config, SOURCE_WORDS, TARGET_WORDS).to(dtype)
    set_precision(model, dtype)
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


class TheirModel(nn.Module):
    """torch's encoder and decoder on padded rows, between plain embeddings and a plain output matrix."""

    def __init__(self, norm: str, activation: str, final_norm: bool) -> None:
        super().__init__()

        def layer(kind: type[nn.Module]) -> nn.Module:
            return kind(WIDTH, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm == "pre")

        def last() -> nn.LayerNorm | None:
            return nn.LayerNorm(WIDTH) if final_norm else None

        encoder_layer, decoder_layer = layer(nn.TransformerEncoderLayer), layer(nn.TransformerDecoderLayer)
        assert isinstance(encoder_layer, nn.TransformerEncoderLayer)
        assert isinstance(decoder_layer, nn.TransformerDecoderLayer)
        self.transformer = nn.Transformer(
            WIDTH,
            HEADS,
            custom_encoder=nn.TransformerEncoder(encoder_layer, LAYERS, last(), enable_nested_tensor=False),
            custom_decoder=nn.TransformerDecoder(decoder_layer, DECODER_LAYERS, last()),
            batch_first=True,
        )
        self.source = nn.Embedding(SOURCE_WORDS, WIDTH)
        self.target = nn.Embedding(TARGET_WORDS, WIDTH)
        self.output = nn.Linear(WIDTH, TARGET_WORDS, bias=False)

    def forward(self, source: list[list[int]], target: list[list[int]]) -> Tensor:
        """The scores of the real tokens, sentence after sentence."""
        source_ids, source_gaps = padded(source)
        target_ids, target_gaps = padded(target)
        length = target_ids.shape[1]
        states = self.transformer(
            self._embedded(self.source, source_ids),
            self._embedded(self.target, target_ids),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=source_gaps,
            tgt_key_padding_mask=target_gaps,
            memory_key_padding_mask=source_gaps,
        )
        return self.output(states)[~target_gaps]

    def _embedded(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        waves = [[wave(place, column) for column in range(WIDTH)] for place in range(ids.shape[1])]
        return embedding(ids) * math.sqrt(WIDTH) + torch.tensor(waves, dtype=torch.float32).to(embedding.weight.dtype)


def wave(place: int, column: int) -> float:
    angle = place / 10000 ** ((column - column % 2) / WIDTH)
    return math.cos(angle) if column % 2 else math.sin(angle)


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Token ids in a rectangle, and True where there is none."""
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1)
    return F.relu(ids), ids < 0


def sentences(lengths: tuple[int, ...], words: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(words)
    return [torch.randint(words, (length,), generator=generator).tolist() for length in lengths]


def correspondence(norm: str, final_norm: bool) -> Iterator[tuple[str, tuple[str, slice]]]:
    """Our parameter's name, then the name of theirs and which of its rows are the same numbers."""
    whole, queries, memory = slice(None), slice(0, WIDTH), slice(WIDTH, 3 * WIDTH)
    place = {"post": "after", "pre": "before"}[norm]
    residuals = {"encoder": ("attention", "network"), "decoder": ("attention", "cross", "network")}
    for side, layers in (("encoder", LAYERS), ("decoder", DECODER_LAYERS)):
        for layer in range(layers):
            here, there = f"{side}.blocks.{layer}", f"transformer.{side}.layers.{layer}"
            for kind in ("weight", "bias"):
                yield f"{here}.attention.project.{kind}", (f"{there}.self_attn.in_proj_{kind}", whole)
                yield f"{here}.attention.output.{kind}", (f"{there}.self_attn.out_proj.{kind}", whole)
                yield f"{here}.network.into.{kind}", (f"{there}.linear1.{kind}", whole)
                yield f"{here}.network.out.{kind}", (f"{there}.linear2.{kind}", whole)
                for number, sublayer in enumerate(residuals[side], start=1):
                    yield f"{here}.around_{sublayer}.{place}.{kind}", (f"{there}.norm{number}.{kind}", whole)
                if side == "decoder":
                    yield f"{here}.cross.project_query.{kind}", (f"{there}.multihead_attn.in_proj_{kind}", queries)
                    yield f"{here}.cross.project_memory.{kind}", (f"{there}.multihead_attn.in_proj_{kind}", memory)
                    yield f"{here}.cross.output.{kind}", (f"{there}.multihead_attn.out_proj.{kind}", whole)
        if final_norm:
            for kind in ("weight", "bias"):
                yield f"{side}.final.{kind}", (f"transformer.{side}.norm.{kind}", whole)
    yield "encoder.embedding.weight", ("source.weight", whole)
    yield "decoder.embedding.weight", ("target.weight", whole)
    yield "decoder.output.weight", ("output.weight", whole)


def assert_equal(found: Tensor, expected: Tensor, name: str) -> None:
    """Equal to the type's tolerance, on the scale of the largest value where that is above one."""
    assert found.shape == expected.shape, name
    error, scale = (found - expected).detach().abs().max(), expected.detach().abs().max().clamp(min=1)
    worst = float(error / scale)
    assert worst <= TOLERANCES[found.dtype], f"{name} is {worst:.1e} off"


@torch.no_grad()
def copy_weights(ours: EncoderDecoder, theirs: nn.Module, names: dict[str, tuple[str, slice]]) -> None:
    for name, (their_name, rows) in names.items():
        theirs.get_parameter(their_name)[rows] = ours.get_parameter(name)
