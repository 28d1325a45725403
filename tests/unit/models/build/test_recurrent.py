"""Every key of a recurrent model's table does what it says."""

import math
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.attention import build_alignment, build_distance, build_distribution
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.recurrent.decoder import EachSentence, RecurrentDecoder
from heedful.models.recurrent.encoder import RecurrentEncoder
from heedful.models.recurrent.initial_state import Bridged, Handed
from heedful.models.recurrent.wirings import Bahdanau, Cho, Luong, Sutskever, Unfed
from heedful.nn.alignments.area import Area
from heedful.nn.alignments.distributions import (
    DeAttention,
    Entmax,
    GumbelHard,
    Hard,
    LearnedEntmax,
    l1_distance,
    softmax,
)
from heedful.nn.alignments.networks import Additive, Location
from heedful.nn.alignments.products import General
from heedful.nn.alignments.random_features import Kernel
from heedful.nn.attention.windows import GlobalView, MonotoneView, PredictedView
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.embedding import MixedEmbedding
from heedful.nn.recurrent.stack import RecurrentStack

WORDS = 11
Options = dict[str, Any]


def config_of(**options: Any) -> RecurrentModel:
    return RecurrentModel(family="recurrent", **({"width": 8} | options))


def model_of(**options: Any) -> EncoderDecoder:
    return build_model(config_of(**options), WORDS, WORDS)


def encoder_of(model: EncoderDecoder) -> RecurrentEncoder:
    assert isinstance(model.encoder, RecurrentEncoder)
    return model.encoder


def decoder_of(model: EncoderDecoder) -> RecurrentDecoder:
    assert isinstance(model.decoder, RecurrentDecoder)
    return model.decoder


# --- each value of each key -------------------------------------------------------------------------------------------

ONE_BY_ONE: list[Options] = [
    {},
    *({"wiring": wiring} for wiring in ("sutskever", "cho", "bahdanau", "luong")),
    *({"cell": cell} for cell in ("gru", "lstm", "tanh", "relu")),
    {"encoder_width": 4},
    {"embedding": 5},
    {"layers": 2},
    {"layers": 2, "decoder_layers": 1},
    {"bidirectional": False},
    {"reverse_source": True},
    *({"alignment": name, "encoder_width": 4} for name in ("content", "dot", "scaled_dot", "general", "additive")),
    *({"alignment": name, "encoder_width": 4} for name in ("biased_general", "activated_general", "deep")),
    {"alignment": "kernel", "encoder_width": 4, "features": 16},
    {"alignment": "location", "max_places": 5},
    {"alignment": "area", "encoder_width": 4, "area": 2},
    *({"window": window, "half_width": 2} for window in ("monotone", "predicted")),
    {"wiring": "luong", "input_feeding": False},
    *({"tie": tie} for tie in ("all", "decoder", "none")),
    {"embeddings": 2},
    {"dropout": 0.0},
    {"variational": True, "dropout": 0.3},
    *({"distribution": name} for name in ("sigmoid", "normalised_sigmoid", "sparsemax", "entmax15", "learned_entmax")),
    {"distribution": "entmax", "alpha": 1.2},
    {"distribution": "de_attention", "encoder_width": 4},
    {"choice": "hard"},
    {"choice": "gumbel", "temperature": 0.5},
]


@pytest.mark.parametrize("options", ONE_BY_ONE, ids=str)
def test_every_value_of_every_key_builds_trains_and_steps(options: Options) -> None:
    model = model_of(**options)
    source, target = Packed.of([[3, 4, 5], [6]]), Packed.of([[1, 7], [1, 8, 9]])
    model(source, target).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    model.eval()
    with torch.no_grad():
        whole = model(source, target)
        state = model.decoder.start(model.encoder(source), aligned=True)
        scores, state = model.decoder.step(torch.tensor([1, 1]), state)
        assert state.attention_RL is not None
        torch.testing.assert_close(scores, whole[[0, 2]])


# --- shapes -----------------------------------------------------------------------------------------------------------


def stacks_of(model: EncoderDecoder) -> tuple[RecurrentStack, RecurrentStack]:
    return encoder_of(model).stack, decoder_of(model).wiring.stack


def input_width(stack: RecurrentStack) -> int:
    return cast(int, stack.layers[0].input_size)


@pytest.mark.parametrize(
    ("wiring", "options", "inputs"),
    [
        ("sutskever", {}, 5),
        ("cho", {}, 5 + 8),
        ("bahdanau", {}, 5 + 2 * 3),
        ("bahdanau", {"bidirectional": False}, 5 + 3),
        ("luong", {}, 5 + 8),
        ("luong", {"input_feeding": False}, 5),
    ],
)
def test_stacks_are_as_wide_and_deep_as_the_table_says(wiring: str, options: Options, inputs: int) -> None:
    model = model_of(wiring=wiring, embedding=5, encoder_width=3, layers=2, decoder_layers=4, cell="lstm", **options)
    encoder, decoder = stacks_of(model)
    assert (encoder.kind, encoder.width, len(encoder.layers), input_width(encoder)) == ("lstm", 3, 2, 5)
    assert encoder.directions == (1 if options.get("bidirectional") is False else 2)
    assert (decoder.kind, decoder.width, len(decoder.layers), input_width(decoder)) == ("lstm", 8, 4, inputs)
    assert decoder.directions == 1
    assert [
        tuple(matrix.shape) for matrix in (encoder_of(model).embedding.weight, decoder_of(model).embedding.weight)
    ] == [(WORDS, 5)] * 2
    assert decoder_of(model).output.weight.shape == (WORDS, 8)


@pytest.mark.parametrize(
    ("cell", "kind"), [("gru", "gru"), ("lstm", "lstm"), ("tanh", "rnn_tanh"), ("relu", "rnn_relu")]
)
def test_both_sides_have_the_tables_cell(cell: str, kind: str) -> None:
    assert [stack.kind for stack in stacks_of(model_of(cell=cell))] == [kind, kind]


@pytest.mark.parametrize(
    ("tie", "shared"), [("all", (True, True)), ("decoder", (False, True)), ("none", (False, False))]
)
def test_matrices_are_tied_as_the_table_says(tie: str, shared: tuple[bool, bool]) -> None:
    model = model_of(tie=tie)
    source, target = encoder_of(model).embedding.weight, decoder_of(model).embedding.weight
    assert (source is target, decoder_of(model).output.weight is target) == shared


def test_several_embeddings_are_mixed_on_both_sides() -> None:
    model = model_of(embeddings=3)
    for embedding in (encoder_of(model).embedding, decoder_of(model).embedding):
        assert isinstance(embedding, MixedEmbedding)
        assert len(embedding.others) == 2


# --- wirings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"wiring": "sutskever"}, Sutskever),
        ({"wiring": "cho"}, Cho),
        ({"wiring": "bahdanau"}, Bahdanau),
        ({"wiring": "luong"}, Luong),
        ({"wiring": "luong", "input_feeding": False}, Unfed),
    ],
    ids=str,
)
def test_each_wiring_is_the_one_named(options: Options, kind: type[nn.Module]) -> None:
    assert type(decoder_of(model_of(**options)).wiring) is kind


@pytest.mark.parametrize(
    ("options", "handed"),
    [
        ({"bidirectional": False}, True),
        ({"bidirectional": False, "cell": "lstm", "layers": 2}, True),
        ({"bidirectional": True}, False),
        ({"bidirectional": True, "encoder_width": 4}, False),
        ({"bidirectional": False, "encoder_width": 4}, False),
        ({"bidirectional": False, "layers": 2, "decoder_layers": 1}, False),
    ],
    ids=str,
)
def test_a_state_is_handed_on_where_both_sides_are_alike(options: Options, handed: bool) -> None:
    wiring = decoder_of(model_of(wiring="sutskever", **options)).wiring
    assert isinstance(wiring, Sutskever)
    assert isinstance(wiring.first, Handed if handed else Bridged)


def test_only_an_lstm_has_a_bridge_for_its_memory() -> None:
    for cell in ("gru", "lstm"):
        wiring = decoder_of(model_of(cell=cell, layers=2)).wiring
        assert isinstance(wiring, Bahdanau)
        assert isinstance(wiring.first, Bridged)
        assert wiring.first.bridge.hidden.weight.shape == (2 * 8, 16)
        assert (wiring.first.bridge.cell is not None) == (cell == "lstm")


@pytest.mark.parametrize(
    ("options", "alignment"),
    [({"wiring": "bahdanau"}, Additive), ({"wiring": "luong"}, General), ({"alignment": "general"}, General)],
    ids=str,
)
def test_the_papers_alignment_is_the_default(options: Options, alignment: type[nn.Module]) -> None:
    wiring = decoder_of(model_of(**options)).wiring
    assert isinstance(wiring, Bahdanau | Luong)
    assert type(wiring.reader.alignment) is alignment


@pytest.mark.parametrize(
    ("window", "view"), [("global", GlobalView), ("monotone", MonotoneView), ("predicted", PredictedView)]
)
def test_windows_are_as_wide_as_the_table_says(window: str, view: type[nn.Module]) -> None:
    wiring = decoder_of(model_of(window=window, half_width=3)).wiring
    assert isinstance(wiring, Bahdanau)
    assert type(wiring.reader.view) is view
    if isinstance(wiring.reader.view, MonotoneView):
        assert wiring.reader.view.window.half_width == 3
    if isinstance(wiring.reader.view, PredictedView):
        assert wiring.reader.view.predicted.window.half_width == 3


# --- attention --------------------------------------------------------------------------------------------------------


def test_options_of_alignments_reach_them() -> None:
    kernel = build_alignment(config_of(features=12), "kernel", 8, 8, seed=4)
    assert isinstance(kernel, Kernel)
    assert kernel.directions.shape == (1, 12, 8)
    assert torch.equal(kernel.directions, Kernel(8, 8, 1, 12, seed=4).directions)
    area = build_alignment(config_of(area=5), "area", 8, 8)
    assert isinstance(area, Area)
    assert area.largest == 5
    location = build_alignment(config_of(alignment="location", max_places=7), "location", 8, 8)
    assert isinstance(location, Location)
    assert location.weight.shape == (1, 7, 8)


def test_options_of_distributions_reach_them() -> None:
    assert build_distribution(config_of(), 8) is softmax
    assert build_distribution(config_of(distribution="entmax", alpha=1.25), 8) == Entmax(1.25)
    learned = build_distribution(config_of(distribution="learned_entmax"), 8)
    assert isinstance(learned, LearnedEntmax)
    assert learned.a_H.shape == (1,)
    distant = config_of(distribution="de_attention", encoder_width=4)
    assert build_distribution(distant, 16) == DeAttention(distance_factor=0.25)
    assert build_distance(distant) is l1_distance
    assert build_distance(config_of()) is None
    hard = build_distribution(config_of(choice="hard", distribution="sparsemax"), 8)
    assert type(hard) is Hard
    gumbel = build_distribution(config_of(choice="gumbel", temperature=0.3), 8)
    assert isinstance(gumbel, GumbelHard)
    assert (gumbel.distribution, gumbel.temperature) == (softmax, 0.3)


# --- dropout ----------------------------------------------------------------------------------------------------------


def test_dropout_is_of_embeddings_between_layers_and_before_the_output_layer() -> None:
    model = model_of(dropout=0.3, layers=2)
    shares = {name: module.share for name, module in model.named_modules() if isinstance(module, Dropout)}
    assert {name: share for name, share in shares.items() if share} == {
        "encoder.embedding.drop": 0.3,
        "encoder.stack.drop": 0.3,
        "decoder.embedding.drop": 0.3,
        "decoder.wiring.stack.drop": 0.3,
        "decoder.drop.drop": 0.3,
    }


def test_whole_words_are_dropped_of_what_the_encoder_reads() -> None:
    for model in (
        model_of(dropout_words=0.2),
        build_model(TransformerModel(width=8, heads=2, dropout_words=0.2), 9, 9),
    ):
        found = {name: module.share for name, module in model.named_modules() if name.endswith("drop_words")}
        assert found == {"encoder.embedding.drop_words": 0.2, "decoder.embedding.drop_words": 0.0}


def test_variational_masks_stand_in_for_those_of_embeddings() -> None:
    model = model_of(dropout=0.3, variational=True)
    assert encoder_of(model).embedding.drop.share == decoder_of(model).embedding.drop.share == 0
    assert all(stack.variational and stack.drop.share == 0.3 for stack in stacks_of(model))
    assert isinstance(decoder_of(model).drop, EachSentence)
    assert not isinstance(decoder_of(model_of()).drop, EachSentence)


# --- how weights start ------------------------------------------------------------------------------------------------


def test_recurrent_matrices_start_orthogonal_and_an_lstm_remembers() -> None:
    for stack in stacks_of(model_of(cell="lstm", layers=2)):
        for layer in stack.layers:
            for weight_x, weight_h, bias_x, bias_h in cast(nn.RNNBase, layer).all_weights:
                for matrix in weight_h.detach().chunk(4):
                    torch.testing.assert_close(matrix @ matrix.t(), torch.eye(8), atol=1e-5, rtol=0)
                for matrix in weight_x.detach().chunk(4):
                    assert float(matrix.abs().max()) <= math.sqrt(6 / sum(matrix.shape))
                assert bias_x.tolist() == 8 * [0] + 8 * [1] + 16 * [0]
                assert (bias_h == 0).all()


def test_alignments_start_as_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Tensor] = []
    start = Additive.__init__

    def keep(self: Additive, *given: Any, **options: Any) -> None:
        start(self, *given, **options)
        made.extend(parameter.detach().clone() for parameter in self.parameters())

    monkeypatch.setattr(Additive, "__init__", keep)
    wiring = decoder_of(model_of()).wiring
    assert isinstance(wiring, Bahdanau)
    for parameter, before in zip(wiring.reader.alignment.parameters(), made, strict=True):
        assert torch.equal(parameter, before)
