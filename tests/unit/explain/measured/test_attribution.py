"""Attributions against naive sums of gradients, brute force, and the differences of outputs that they sum to."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import Refusal, each, refuses
from torch import Tensor, nn

import heedful
from heedful.explain.attribution import KINDS, Attribution, AttributionKind
from heedful.nn.evaluation_mode import by_equation
from heedful.nn.layers.embedding import Embedding

BUNDLES = Path(__file__).parents[3] / "golden/bundles"
SENTENCE, REVIEW = "the dog sees the tree today.", "The film was dull."
PAIR = (REVIEW, "I liked it a lot.")
ASKED: dict[str, Any] = {
    "transformer-relative-silu": SENTENCE,
    "transformer-pre-norm-rope-separate": SENTENCE,
    "transformer-alibi-sparsemax": "the dog",
    "mixed": SENTENCE,
    "recurrent-cho": SENTENCE,
    "recurrent-bahdanau": "the dog",
    "recurrent-sutskever": SENTENCE,
    "language-transformer": "the dog sees the tree",
    "language-recurrent": "the dog sees the tree",
    "language-llama": "the dog",
    "classifier-transformer": REVIEW,
    "classifier-bag": REVIEW,
    "classifier-bert-several": REVIEW,
    "classifier-attention-pools": REVIEW,
    "classifier-hierarchical": "The film was dull. I liked it.",
    "classifier-gpt-pairs": PAIR,
    "classifier-parallel-pairs": PAIR,
    "classifier-recurrent-pairs": PAIR,
    "regressor-bag": REVIEW,
    "bert": "The [MASK] was [MASK].",
}


@cache
def model_named(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


@cache
def attributed(name: str) -> Attribution:
    found: Attribution = model_named(name).attribute(ASKED[name])
    return found


def sums_of(found: Attribution) -> Any:
    return sum(values.sum(axis=1, dtype=np.float64) for values in found.values.values())


@cache
def blank_words(name: str) -> Any:
    """The same model with embeddings whose every word is zero; output layers that share them keep their own."""
    silent: Any = heedful.load(BUNDLES / name, device="cpu", precision="float32")
    for module in silent.network.modules():
        if isinstance(module, Embedding):
            module.weight = nn.Parameter(torch.zeros_like(module.weight))
            module.markers = None if module.markers is None else nn.Parameter(torch.zeros_like(module.markers))
    return silent


def readings_of(name: str) -> tuple[Any, Any]:
    """How a model reads its text, and how one reads it to which words say nothing, with the same predictions."""
    model, text = model_named(name), ASKED[name]
    chosen = model._choose(text, None, True, None)
    return model._read(text, chosen, None), blank_words(name)._read(text, chosen, None)


@pytest.mark.parametrize("name", ASKED)
def test_integrated_gradients_sum_to_the_difference_of_outputs(name: str) -> None:
    found, (reading, silent) = attributed(name), readings_of(name)
    with reading.computing():
        expected = (reading.values() - silent.values())[0].double().numpy()
    np.testing.assert_allclose(found.differences, expected, atol=1e-4)
    np.testing.assert_allclose(sums_of(found), expected, atol=1e-3)
    assert found.shared.max() <= 0.05
    assert {key: len(one) for key, one in found.inputs.items()} == {k: v.shape[1] for k, v in found.values.items()}


@contextmanager
def embeddings_as(network: nn.Module, *given: Tensor) -> Iterator[None]:
    """Let the embeddings of a network, in the order of their calls, be these."""
    waiting = iter(given)
    modules = [module for module in network.modules() if isinstance(module, Embedding)]
    hooks = [module.register_forward_hook(lambda module, inputs, output: next(waiting)) for module in modules]
    yield
    for hook in hooks:
        hook.remove()


def embedded_by(reading: Any) -> list[Tensor]:
    """What the network of a reading embeds."""
    found: list[Tensor] = []
    modules = [module for module in reading.network.modules() if isinstance(module, Embedding)]
    hooks = [one.register_forward_hook(lambda module, inputs, output: found.append(output.detach())) for one in modules]
    with reading.computing():
        reading.run(1)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize(
    "name", ["classifier-transformer", pytest.param("recurrent-cho", marks=pytest.mark.wide), "bert"]
)
def test_integrated_gradients_are_the_naive_sum_of_gradients_along_the_path(name: str) -> None:
    steps, (reading, silent) = 200, readings_of(name)
    whole, blank = embedded_by(reading), embedded_by(silent)
    expected = [torch.zeros(len(reading.chosen), len(one)) for one in whole]
    for step in range(steps):
        share = (step + 0.5) / steps
        points = [(low + share * (high - low)).requires_grad_() for low, high in zip(blank, whole, strict=True)]
        with embeddings_as(reading.network, *points), by_equation():
            log_p_TC = reading.run(1)[0].log_softmax(dim=1)
        for row, token in enumerate(reading.chosen):
            gradients = torch.autograd.grad(log_p_TC[row, token], points, retain_graph=True)
            for sums, gradient, low, high in zip(expected, gradients, blank, whole, strict=True):
                for place in range(len(low)):
                    sums[row, place] += sum((gradient * (high - low))[place]) / steps
    found = attributed(name)
    for values, sums in zip(found.values.values(), expected, strict=True):
        np.testing.assert_allclose(values, sums.numpy(), atol=0.03)


def test_erasure_is_what_each_token_was_worth() -> None:
    model, (reading, silent) = model_named("classifier-transformer"), readings_of("classifier-transformer")
    (whole,), (blank,) = embedded_by(reading), embedded_by(silent)
    found, expected = model.attribute(REVIEW, kind="erasure"), []
    label = reading.chosen[0]
    with torch.no_grad(), by_equation():
        before = reading.run(1)[0, 0].log_softmax(0)[label]
        for place in range(len(whole)):
            erased = whole.clone()
            erased[place] = blank[place]
            with embeddings_as(model.network, erased):
                expected.append(float(before - reading.run(1)[0, 0].log_softmax(0)[label]))
    np.testing.assert_allclose(found.values["text"][0], expected, atol=1e-5)


def test_without_positions_gradients_have_the_sizes_of_those_of_explain() -> None:
    model = model_named("recurrent-cho")
    sizes = np.abs(model.attribute(SENTENCE, kind="gradient").values["source"])
    shares = model.explain(SENTENCE, gradients=True).attention("gradient").weights[0, 0]
    np.testing.assert_allclose(sizes / sizes.sum(axis=1, keepdims=True), shares, atol=1e-5)


@pytest.mark.parametrize("name", ["recurrent-cho", "transformer-relative-silu", "language-transformer"])
def test_no_token_is_attributed_to_later_ones(name: str) -> None:
    values = attributed(name).values
    later = values["text"] if "text" in values else values["target"]
    assert not np.triu(later, 1).any()
    assert np.tril(later).any()


@pytest.mark.parametrize("kind", ["gradient", "erasure"])
def test_a_contrast_is_the_difference_of_two_attributions(kind: Any) -> None:
    model = model_named("recurrent-cho")
    one, other = (model.attribute("the dog", text, kind=kind) for text in ("der Mann", "der Hund"))
    place = next(i for i, (a, b) in enumerate(zip(one.outputs.pieces, other.outputs.pieces, strict=False)) if a != b)
    both = model.attribute("the dog", "der Mann", kind=kind, against="der Hund")
    assert (both.outputs.pieces, both.against) == ((one.outputs.pieces[place],), (other.outputs.pieces[place],))
    for name, values in both.values.items():
        shared = one.values[name][place, : place + 1], other.values[name][place, : place + 1]
        np.testing.assert_allclose(values[0, : place + 1], shared[0] - shared[1], atol=1e-5)


def test_a_contrast_of_labels_sums_to_the_difference_of_their_scores() -> None:
    model = model_named("classifier-transformer")
    found = model.attribute(REVIEW, "bad", against="good")
    classes = model.classify(REVIEW).probabilities
    silent = blank_words("classifier-transformer").classify(REVIEW).probabilities
    expected = np.log(classes["bad"] / classes["good"]) - np.log(silent["bad"] / silent["good"])
    assert (found.outputs.pieces, found.against) == (("bad",), ("good",))
    np.testing.assert_allclose(sums_of(found), [expected], atol=1e-3)


def test_a_language_model_says_why_a_text_goes_on() -> None:
    model = model_named("language-transformer")
    found = model.attribute("the dog sees", " the tree", against=" a tree", kind="erasure")
    assert len(found.outputs) == len(found.against) == 1
    whole = model.attribute("the dog sees", " the tree", kind="erasure")
    assert "".join(whole.outputs.pieces).replace("\N{LOWER ONE EIGHTH BLOCK}", " ") == " the tree"
    own = model.attribute("the dog sees", against=" a", kind="erasure")
    assert len(own.outputs) == 1


def test_all_kinds_and_numbers_are_in_json() -> None:
    model = model_named("classifier-transformer")
    for kind in KINDS:
        found = model.attribute(REVIEW, kind=kind)
        written = found.to_json()
        assert written["kind"] == kind
        assert written["inputs"]["text"]["values"] == found.values["text"].tolist()
        assert written["differences"] == found.differences.tolist()


@pytest.mark.wide
def test_where_outputs_jump_what_is_shared_out_says_so() -> None:
    """Attention in a window that moves by whole tokens: no integral sums to the difference."""
    found = model_named("recurrent-luong-local").attribute("the dog")
    np.testing.assert_allclose(sums_of(found), found.differences, atol=1e-3)
    assert found.shared.max() > 0.05


@each([
    Refusal(
        "another kind",
        lambda: model_named("classifier-bag").attribute(REVIEW, kind="sum"),
        "`sum` is not a kind of attribution: use `integrated`, `gradient` or `erasure`.",
    ),
    Refusal(
        "a tolerance of nothing",
        lambda: model_named("classifier-bag").attribute(REVIEW, tolerance=0),
        "`tolerance` must be greater than 0, but is 0.",
    ),
    Refusal(
        "the same output twice",
        lambda: model_named("classifier-bag").attribute(REVIEW, "bad", against="bad"),
        "`against` is what is explained: give another output to compare with.",
    ),
    Refusal(
        "a continuation that is the start of another",
        lambda: model_named("language-transformer").attribute("the dog", " sees", against=" sees the"),
        "`against` begins with the whole output, or the reverse: there is no token to compare.",
    ),
    Refusal(
        "a label that is not there",
        lambda: model_named("classifier-transformer").attribute(REVIEW, "nice"),
        "`nice` is not a class of this model: it has bad, good.",
    ),
    Refusal(
        "an output of a regressor",
        lambda: model_named("regressor-bag").attribute(REVIEW, "3"),
        "This model predicts one number: leave out `output` and `against`.",
    ),
    Refusal(
        "a language of a classifier",
        lambda: model_named("classifier-bag").attribute(REVIEW, to="de"),
        "`to` is the language of a translation, but this model does not translate: leave it out.",
    ),
    Refusal(
        "a pair for a translator",
        lambda: model_named("recurrent-cho").attribute(PAIR),
        "This model reads single texts, but was given a pair: give one text.",
    ),
    Refusal(
        "no continuation",
        lambda: model_named("language-transformer").attribute("the dog", ""),
        "`output` is empty, but it is what follows the text: give some text.",
    ),
    Refusal(
        "too few pieces for masks",
        lambda: model_named("bert").attribute("The [MASK] was [MASK].", "a"),
        "`a` is 1 piece, but the text has 2 masks: give one piece for each.",
    ),
])  # fmt: skip
def test_wrong_questions_are_refused(refusal: Refusal) -> None:
    refusal.check()


def test_so_many_predictions_are_refused() -> None:
    with refuses("There are 300 predictions to attribute, but at most 256 are: shorten the text."):
        model_named("language-recurrent").attribute("dog " * 300)


def test_a_model_in_int8_is_explained_by_erasure_alone() -> None:
    model = heedful.load(BUNDLES / "transformer-relative-silu", heedful.Translator, device="cpu", precision="int8")
    message = "A model in int8 has no gradients: load it in the precision `float32`, or use the kind `erasure`."
    kinds: tuple[AttributionKind, ...] = ("integrated", "gradient")
    for kind in kinds:
        with refuses(message):
            model.attribute("the dog", kind=kind)
    assert model.attribute("the dog", kind="erasure").values["source"].any()
