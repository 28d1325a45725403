"""Explanations of every family: weights with names, probabilities, and networks that stay as they were."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.shared.refusals import Refusal, each, refuses

import heedful
from heedful.explain.explanation import Explanation
from heedful.tasks.translate.model import Translator

BUNDLES = Path(__file__).parents[2] / "golden/bundles"
PAIRS = ("The film was dull.", "I liked it.")
# The attentions of each family: kind, layers, heads, and the names of its sequences.
READERS: Mapping[str, set[tuple[str, str, str]]] = {
    "classifier-transformer": {("encoder", "text", "text")},
    "classifier-attention-pools": {("words", "sentences", "text"), ("pool", "vectors", "sentences")},
    "classifier-hierarchical": {("words", "sentences", "text"), ("pool", "vectors", "sentences")},
    "classifier-parallel-pairs": {("pool", "vectors", "text")},
    "classifier-gpt-pairs": {("decoder", "text", "text")},
    "bert": {("encoder", "text", "text")},
    "language-transformer": {("decoder", "text", "text")},
    "language-llama": {("decoder", "text", "text")},
    "language-recurrent": set(),
}
SELF = {("encoder", "source", "source"), ("decoder", "target", "target")}
CROSS = {("cross", "output", "source")}
TRANSLATORS: Mapping[str, set[tuple[str, str, str]]] = {
    "transformer": SELF | CROSS,
    "transformer-pre-norm-rope-separate": SELF | CROSS,
    "transformer-relative-silu": SELF | CROSS,
    "transformer-alibi-sparsemax": SELF | CROSS,
    "transformer-additive-entmax": SELF | CROSS,
    "transformer-kernel": SELF | CROSS,
    "recurrent-bahdanau": CROSS,
    "recurrent-luong-local": CROSS,
    "recurrent-cho": set(),
}


@cache
def _model(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


@cache
def _explained(name: str) -> Explanation:
    asked = json.loads((BUNDLES / f"{name}.json").read_text(encoding="utf-8"))["asked"]
    model = _model(name)
    if "sources" in asked:
        return model.explain(asked["sources"][0], max_extra=1)
    if name == "bert":
        return model.explain("The [MASK] was dull.")
    return model.explain(*PAIRS) if getattr(model, "paired", False) else model.explain(" ".join(PAIRS))


@pytest.mark.parametrize("name", [*READERS, *TRANSLATORS])
def test_every_attention_of_a_family_is_explained_with_the_names_of_its_axes(name: str) -> None:
    found = _explained(name)
    expected = {**READERS, **TRANSLATORS}[name]
    assert {(one.kind, one.queries, one.keys) for one in found.attentions} >= expected
    assert bool(found.attentions) == bool(expected)
    for one in found.attentions:
        queries, keys = found.sequences[one.queries], found.sequences[one.keys]
        assert one.weights.shape == (one.layers, one.heads, len(queries), len(keys))
        assert one.weights.dtype == np.float32


NORMALISED = {*READERS, *TRANSLATORS} - {"recurrent-luong-local", "classifier-attention-pools"}  # a Gaussian; areas


@pytest.mark.parametrize("name", sorted(NORMALISED))
def test_the_weights_of_a_query_sum_to_one(name: str) -> None:
    for one in _explained(name).attentions:
        np.testing.assert_allclose(one.weights.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_probabilities_of_tokens_are_those_of_the_score(name: str) -> None:
    found, model = _explained(name), _model(name)
    (scored,) = model.score([found.text], [found.output])
    explained = model.explain(found.text, found.output)
    assert [one.piece for one in explained.predictions] == list(scored.pieces)
    np.testing.assert_allclose(
        np.log([one.probability for one in explained.predictions]), scored.log_probabilities, atol=1e-4
    )


@pytest.mark.parametrize("name", [name for name, kinds in TRANSLATORS.items() if kinds >= CROSS])
def test_the_alignment_is_the_one_that_a_search_finds(name: str) -> None:
    found, model = _explained(name), _model(name)
    best = model.translate_detailed(found.text, aligned=True, max_extra=1)[0]
    pairs = {pair for pair in found.hard_alignment() if pair[0] < len(best.alignment.source_pieces)}
    assert found.alignment is not None
    np.testing.assert_allclose(found.alignment.sum(axis=1), 1, atol=1e-5)
    assert {pair for pair in pairs if pair[1] < len(best.tokens)} == set(best.alignment.pieces)


def test_runners_up_are_the_most_likely_other_tokens() -> None:
    for one in _explained("transformer").predictions:
        shares = [share for _, share in one.runners_up]
        assert len(shares) == 5
        assert shares == sorted(shares, reverse=True)
        assert one.piece not in dict(one.runners_up)
        assert sum(shares) + one.probability <= 1 + 1e-5


def test_the_classes_of_a_text_are_those_of_classify() -> None:
    found, model = _explained("classifier-transformer"), _model("classifier-transformer")
    expected = model.classify(found.text).probabilities
    assert found.classes == pytest.approx(expected, abs=1e-5)
    assert found.output == max(expected, key=lambda label: expected[label])


def test_the_candidates_of_a_mask_are_those_of_fill() -> None:
    found, model = _explained("bert"), _model("bert")
    (mask,) = found.predictions
    candidates = model.fill(found.text, top=6).masks[0]
    assert [mask.piece, *(piece for piece, _ in mask.runners_up)] == [one.piece for one in candidates]
    assert mask.probability == pytest.approx(candidates[0].probability, abs=1e-5)
    assert found.sequences["text"].pieces[mask.index] == "<mask>"
    assert model.explain("The film was dull.").predictions == ()


def test_a_language_model_explains_each_token_of_a_text() -> None:
    found, model = _explained("language-transformer"), _model("language-transformer")
    (scored,) = model.score([found.text])
    log_p = np.log([one.probability for one in found.predictions])
    np.testing.assert_allclose(log_p, scored.log_probabilities[: len(log_p)], atol=1e-4)
    assert [one.piece for one in found.predictions] == list(scored.pieces[: len(log_p)])


def test_explaining_changes_nothing_of_a_network(reversing: Translator) -> None:
    texts = ["ant bee cat", "dog dog eel fox gnu"]
    before = reversing.translate_detailed(texts, nbest=2)
    attention: Any = reversing.network.encoder.blocks[0].attention  # type: ignore[attr-defined]
    backend = attention.backend
    reversing.explain("ant bee")
    assert attention.backend is backend
    assert not any(module._forward_hooks for module in reversing.network.modules())
    assert reversing.translate_detailed(texts, nbest=2) == before


def test_attention_crosses_where_words_are_turned_round(reversing: Translator) -> None:
    found = reversing.explain("ant bee cat dog")
    assert found.output == "dog cat bee ant"
    assert found.alignment is not None
    assert found.alignment[:4, :4].argmax(axis=1).tolist() == [3, 2, 1, 0]


def test_rollout_multiplies_the_head_means_of_layers() -> None:
    one = _explained("classifier-transformer").attention("encoder")
    expected = np.eye(one.weights.shape[2])
    for layer, rolled in enumerate(one.rollout()):
        mean = sum(one.weights[layer, head] for head in range(one.heads)) / one.heads
        expected = (mean / 2 + np.eye(len(mean)) / 2) @ expected
        np.testing.assert_allclose(rolled, expected, atol=1e-5)
    with refuses("...Rollout is for self-attention, but `cross` attends from one..."):
        _explained("transformer").attention("cross").rollout()


def test_an_explanation_as_json_holds_every_number_exactly() -> None:
    found = _explained("transformer")
    read = json.loads(json.dumps(found.to_json()))
    for one, written in zip(found.attentions, read["attentions"], strict=True):
        assert written["axes"] == ["layer", "head", "query", "key"]
        assert np.array_equal(np.array(written["weights"], np.float32), one.weights)
    assert read["sequences"]["source"]["pieces"] == list(found.sequences["source"].pieces)
    assert read["predictions"][0]["probability"] == found.predictions[0].probability


def test_pieces_are_numbered_by_word_and_markers_are_words_of_their_own() -> None:
    source = _explained("transformer").sequences["source"]
    assert source.texts[-1] == "</s>"
    assert " ".join(source.texts[:-1]) == _explained("transformer").text
    assert list(source.words) == sorted(source.words)
    assert len(set(source.words)) == len(source.texts)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("transformer", " ", "The text is blank: there is nothing to explain."),
    ("bert", "", "The text is blank:"),
    ("language-transformer", "the dog " * 500, "The text has .* tokens, but the model sees at most .*: shorten it."),
])  # fmt: skip
def test_a_text_that_cannot_be_explained_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(heedful.UserError, match=message):
        _model(name).explain(text)


REFUSALS = [
    Refusal(
        "attention to a source, of a classifier",
        lambda: _explained("classifier-transformer").attention("cross"),
        "...This model has no attention `cross`: it has `encoder`, `pool`...",
    ),
    Refusal(
        "attention of a model without any",
        lambda: _explained("language-recurrent").attention("decoder"),
        "...it has no attention at all...",
    ),
    Refusal(
        "an alignment without a source",
        lambda: _explained("language-transformer").hard_alignment(),
        "...This model does not attend to a source: it has no alignment...",
    ),
]


@each(REFUSALS)
def test_a_kind_of_attention_that_a_model_does_not_have_is_refused(refusal: Refusal) -> None:
    refusal.check()
