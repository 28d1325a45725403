"""The language-model loss that a classifier minimises as well, and which layers of its language model learn."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.packed import IGNORED
from heedful.config.model.pooled import ClassifierModel
from heedful.data.batches.texts import TextBatch, TextCollator
from heedful.data.batches.windows import PlannedWindows, collate_windows
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.networks import Classifier, LanguageEncoder, LanguageModel, set_precision
from heedful.tasks.classify.objective import OneLabel, SeveralLabels, WithLanguageLoss, next_tokens
from heedful.training.objectives import NextToken
from heedful.training.optimizers.build import freeze, layer_scales

TEXTS, SECONDS = [[4, 5, 6], [7], [8, 9, 4, 10]], [[5], [11, 4], [6, 6, 6]]
LABELS = [[2], [0], [1]]
STATIC = StaticShape.around(tokens=64, max_sentences=6, longest=12)
GPT = {"family": "transformer", "width": 8, "heads": 2, "layers": 2, "inner": 12, "max_positions": 16}


def classifier(decoder: dict[str, Any] = GPT, **encoder: Any) -> Classifier:
    """In float64, without dropout."""
    table = {"family": "language", "decoder": decoder, **encoder}
    made = build_classifier(ClassifierModel.model_validate({"family": "classifier", "encoder": table}), 12, 3).double()
    set_precision(made, torch.float64)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return made.eval()


def batch_of(rows: list[int], paired: bool = False, classes: int = 0, **shape: Any) -> TextBatch:
    store = TokenStore.of(text=TEXTS, second=SECONDS, label=LABELS)
    return TextCollator(12, paired=paired, classes=classes).batch([store], np.array(rows), **shape)


def language_loss(model: Classifier) -> Tensor:
    """The mean loss of the language model inside, on the same texts as windows of running text."""
    assert isinstance(model.encoder, LanguageEncoder)
    documents = TokenStore.of(text=[[BEGIN, *text, END] for text in TEXTS])
    offsets = documents.streams["text"].offsets
    planned = PlannedWindows(np.zeros(3, np.int64), offsets[:-1], np.diff(offsets) - 1)
    batch = collate_windows([documents], planned)
    objective = NextToken(0.0)
    return objective(LanguageModel(model.encoder.decoder), batch).loss / objective.units(batch)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "decoder", [GPT, {"family": "recurrent", "width": 8}, {"family": "convolutional", "width": 8}], ids=str
)
def test_the_auxiliary_loss_is_that_of_the_language_model_on_the_same_texts(decoder: dict[str, Any]) -> None:
    model, batch = classifier(decoder), batch_of([0, 1, 2])
    classes = OneLabel(0.0)
    alone, both = classes(model, batch), WithLanguageLoss(classes, 0.5)(model, batch)
    per_text = (both.loss - alone.loss) / batch.sentences
    torch.testing.assert_close(per_text, 0.5 * language_loss(model), rtol=1e-6, atol=1e-7)
    assert both.likelihood == alone.likelihood


def test_each_text_of_a_pair_and_its_end_are_predicted_and_nothing_after_it() -> None:
    labels = next_tokens(batch_of([0, 1], paired=True).inputs)  # type: ignore[arg-type]
    assert labels.tolist() == [4, 5, 6, END, 5, END, IGNORED, 7, END, 11, 4, END, IGNORED]


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("classes", [0, 3])
def test_what_fills_up_a_batch_counts_in_neither_loss(paired: bool, classes: int) -> None:
    model = classifier()
    objective = WithLanguageLoss((SeveralLabels if classes else OneLabel)(0.1), 0.5)
    ragged, static = (batch_of([0, 1, 2], paired, classes, **shape) for shape in ({}, {"static": STATIC}))
    assert static.inputs.layout.sentences > 3  # type: ignore[union-attr]
    torch.testing.assert_close(
        objective(model, static).loss, objective(model, ragged).loss, rtol=1e-6, atol=1e-6, check_dtype=False
    )
    assert objective.units(static) == objective.units(ragged) == 3
    assert objective.tokens(static) == ragged.tokens


def test_with_the_auxiliary_loss_an_output_layer_of_its_own_learns_and_without_it_not() -> None:
    for objective, learns in ((OneLabel(0.0), False), (WithLanguageLoss(OneLabel(0.0), 0.5), True)):
        model = classifier(tie=False, output_bias=True)
        objective(model, batch_of([0, 1, 2])).loss.backward()
        assert isinstance(model.encoder, LanguageEncoder)
        output = model.encoder.decoder.output
        assert [weight.grad is not None for weight in output.parameters()] == [learns, learns]


# --- layers -----------------------------------------------------------------------------------------------------------


def test_rates_fall_from_the_head_and_the_markers_down_to_the_embedding() -> None:
    model = classifier()
    scales = layer_scales(model, 0.5)
    found = {name: scales.get(weight, 1.0) for name, weight in model.named_parameters()}
    rates = {"embedding": 0.125, "blocks.0": 0.25, "blocks.1": 0.5, "final": 0.5}
    for name, rate in found.items():
        part = name.removeprefix("pooled.encoder.decoder.")
        assert rate == next((rate for start, rate in rates.items() if part.startswith(start)), 1.0), name


@pytest.mark.parametrize(
    ("what", "stays"),
    [("encoder", ("embedding.", "blocks.", "final.")), (1, ("embedding.", "blocks.0.")), (0, ("embedding.",))],
)
def test_frozen_layers_of_a_language_model_stay_and_the_markers_learn(what: Any, stays: tuple[str, ...]) -> None:
    model = classifier()
    freeze(model, what)
    for name, weight in model.named_parameters():
        assert weight.requires_grad != name.removeprefix("pooled.encoder.decoder.").startswith(stays), name


def test_a_language_model_of_another_kind_has_no_layers_to_freeze() -> None:
    with refuses("`train.freeze` needs a Transformer..."):
        freeze(classifier({"family": "recurrent", "width": 8}), 1)
