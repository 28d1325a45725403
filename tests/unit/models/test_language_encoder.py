"""A language model as the encoder of a classifier: `<s> text <extract>`, read from left to right."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.model.pooled import ClassifierModel
from heedful.data.batches.texts import TextCollator
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import Classifier, LanguageEncoder, LanguageModel, reader_of, set_precision

WORDS, CLASSES = 12, 3
DECODERS: dict[str, dict[str, Any]] = {
    "gpt": {"family": "transformer", "width": 8, "heads": 2, "layers": 2, "inner": 12, "max_positions": 16},
    "rope": {"family": "transformer", "width": 8, "heads": 2, "layers": 2, "inner": 12, "positions": "rope"},
    "scaled": {"family": "transformer", "width": 8, "heads": 2, "layers": 1, "inner": 12, "embedding_scale": True},
    "lstm": {"family": "recurrent", "width": 8},
    "narrow": {"family": "recurrent", "width": 8, "embedding": 6, "last_width": 6},
    "convolution": {"family": "convolutional", "width": 8, "layers": 2, "kernel": 3},
}
TEXTS, SECONDS = [[4, 5, 6], [7], [8, 9, 4, 10]], [[5], [11, 4], [6, 6, 6]]


def classifier(decoder: str = "gpt", **encoder: Any) -> Classifier:
    """In float64, without dropout, every parameter of it random."""
    table = {"family": "language", "decoder": DECODERS[decoder], **encoder}
    made = build_classifier(
        ClassifierModel.model_validate({"family": "classifier", "encoder": table}), WORDS, CLASSES
    ).double()
    set_precision(made, torch.float64)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return made.eval()


def encoder_of(model: Classifier) -> LanguageEncoder:
    assert isinstance(model.encoder, LanguageEncoder)
    return model.encoder


def with_longer_vocabulary(model: Classifier, decoder: str) -> LanguageModel:
    """The language model of a classifier whose vocabulary has both markers: tokens 12 and 13."""
    config = ClassifierModel.model_validate(
        {"family": "classifier", "encoder": {"family": "language", "decoder": DECODERS[decoder]}}
    ).encoder
    longer = build_language_model(config, WORDS + 2).double().eval()  # type: ignore[arg-type]
    set_precision(longer, torch.float64)
    encoder = encoder_of(model)
    state = dict(encoder.decoder.named_parameters())  # type: ignore[attr-defined]
    scale: float = longer.decoder.embedding.scale  # type: ignore[attr-defined]
    with torch.no_grad():
        for name, parameter in longer.decoder.named_parameters():  # type: ignore[attr-defined]
            if name == "embedding.weight":
                parameter.copy_(torch.cat([state[name], encoder.markers / scale]))
            elif not name.startswith("output."):
                parameter.copy_(state[name])
    return longer


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("paired", [False, True])
def test_scores_are_a_map_of_the_last_state_of_a_language_model_whose_vocabulary_has_both_markers(
    decoder: str, paired: bool
) -> None:
    model = classifier(decoder)
    naive = with_longer_vocabulary(model, decoder)
    store = TokenStore.of(text=TEXTS, second=SECONDS)
    batch = TextCollator(16, paired=paired).batch([store], np.arange(3))
    for row, scores in enumerate(model(batch.inputs)):
        delimiter, extract = WORDS, WORDS + 1
        tokens = [BEGIN, *TEXTS[row], *([delimiter, *SECONDS[row]] if paired else []), extract]
        last = naive.decoder.states(Packed.of([tokens]), None)[-1]
        torch.testing.assert_close(scores, model.output.weight @ last + model.output.bias, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("decoder", DECODERS)
def test_later_text_does_not_change_the_states_before_it(decoder: str) -> None:
    encoder = encoder_of(classifier(decoder))
    one, other = (encoder(Packed.of([[BEGIN, 4, 5, last, END]])).values for last in (6, 7))
    torch.testing.assert_close(one[:3], other[:3], rtol=0, atol=1e-12)
    assert not torch.allclose(one[3], other[3])
    assert not torch.allclose(one[4], other[4])


def test_every_token_of_both_texts_reaches_the_last_state() -> None:
    model = classifier()
    base = model(Packed.of([[BEGIN, 4, 5, END, 6, END]]))
    for place in (1, 2, 4):
        changed = [BEGIN, 4, 5, END, 6, END]
        changed[place] = 9
        assert not torch.allclose(model(Packed.of([changed])), base)


def test_the_same_words_in_one_text_and_in_two_are_told_apart_by_the_delimiter() -> None:
    encoder = encoder_of(classifier())
    marked = encoder.marked(Packed.of([[BEGIN, 4, END, 5, END], [BEGIN, END]]))
    assert marked.values.tolist() == [BEGIN, 4, WORDS, 5, WORDS + 1, BEGIN, WORDS + 1]


def test_gradients_reach_both_markers_the_words_and_every_layer() -> None:
    model = classifier().train()
    model(Packed.of([[BEGIN, 4, END, 5, END]])).square().sum().backward()
    unused = {name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()}
    assert not unused
    words = encoder_of(model).decoder.embedding.weight.grad  # type: ignore[attr-defined]
    assert words.any(dim=1).nonzero().flatten().tolist() == [BEGIN, 4, 5]  # `</s>` itself is not read


def test_markers_are_parameters_of_the_encoder_and_no_part_of_what_a_language_model_fills() -> None:
    model = classifier()
    names = dict(model.named_parameters())
    reader = reader_of(model)
    assert isinstance(reader, nn.Module)
    own = {name for name in names if not name.startswith("pooled.encoder.decoder.")}
    assert own == {"pooled.encoder.markers", "output.weight", "output.bias"}
    assert names["pooled.encoder.markers"].shape == (2, 8)


def test_markers_are_never_dropped_as_words_are() -> None:
    table = {**DECODERS["lstm"], "dropout": 0.0, "dropout_words": 0.9, "variational": True}
    config = ClassifierModel.model_validate(
        {"family": "classifier", "encoder": {"family": "language", "decoder": table}}
    )
    model = build_classifier(config, WORDS, CLASSES).train()
    embedding = encoder_of(model).decoder.embedding  # type: ignore[attr-defined]
    text = encoder_of(model).marked(Packed.of([[BEGIN, 4, END, 5, END]] * 20))
    vectors: Tensor = embedding(text.values, text.layout)
    markers = text.values >= WORDS
    assert (vectors[markers] != 0).any(dim=1).all()
    assert not (vectors[~markers] != 0).any(dim=1).all()


def test_a_static_shape_and_a_ragged_batch_have_the_same_scores() -> None:
    model = classifier()
    store = TokenStore.of(text=TEXTS, second=SECONDS)
    collator = TextCollator(12, paired=True)
    ragged = model(collator.batch([store], np.arange(3)).inputs)
    static = collator.batch([store], np.arange(3), StaticShape.around(tokens=64, max_sentences=6, longest=12))
    torch.testing.assert_close(model(static.inputs)[:3], ragged, rtol=1e-9, atol=1e-9)


def test_an_output_layer_of_its_own_is_kept() -> None:
    model = classifier(tie=False, output_bias=True)
    output = encoder_of(model).decoder.output
    assert output.bias is not None
    assert output.weight is not encoder_of(model).decoder.embedding.weight  # type: ignore[attr-defined]


def test_initial_values_of_markers_are_those_of_other_vectors() -> None:
    table = {"family": "language", "decoder": {**DECODERS["gpt"], "width": 64, "heads": 4}}
    torch.manual_seed(1)
    made = build_classifier(ClassifierModel.model_validate({"family": "classifier", "encoder": table}), WORDS, CLASSES)
    assert 0.015 < encoder_of(made).markers.detach().std().item() < 0.025
