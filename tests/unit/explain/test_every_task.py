"""Explanations of taggers, parsers, readers and models of images: against their answers, and naive products."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.explain.capture import kind_of
from heedful.explain.explanation import Explanation
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention

BUNDLES = Path(__file__).parents[2] / "golden/bundles"
WORDS = "the dog sees a small fish today ."
TEXT = "On Monday, Clara Dale found 17 keys in the cave. It was Emil Holm who hid two cups at the zoo in June."
IMAGE = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (40, 72, 3)).astype(np.uint8)
ASKED: Mapping[str, tuple[Any, ...]] = {
    "tagger-transformer": (WORDS,),
    "tagger-recurrent-letters-crf": (WORDS,),
    "parser": ("the dog sees a small fish today",),
    "reader": (TEXT, "Who found keys?"),
    "images-vit": (IMAGE,),
    "images-convolutional": (IMAGE,),
    "captions-transformer": (IMAGE,),
    "captions-recurrent": (IMAGE,),
    "answers-about-images": (IMAGE, "is there a red circle ?"),
}
KINDS: Mapping[str, set[str]] = {
    "tagger-transformer": {"encoder"},
    "tagger-recurrent-letters-crf": set(),  # its letters have a pool, which is not one of the text
    "parser": {"encoder", "decoder", "cross"},
    "reader": {"span", "encoder"},
    "images-vit": {"encoder"},
    "images-convolutional": {"pool"},
    "captions-transformer": {"encoder", "decoder", "cross"},
    "captions-recurrent": {"cross"},
    "answers-about-images": {"encoder", "question", "cross", "words", "patches"},
}

SHORT: Mapping[str, dict[str, int]] = {"captions-recurrent": {"max_extra": 4}, "captions-transformer": {"max_extra": 4}}


@cache
def _model(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu", precision="float32")


@cache
def _explained(name: str) -> Explanation:
    found: Explanation = _model(name).explain(*ASKED[name], gradients=True, **SHORT.get(name, {}))
    return found


@pytest.mark.parametrize("name", ASKED)
def test_weights_and_gradients_are_shares_along_named_sequences(name: str) -> None:
    found = _explained(name)
    assert {one.kind for one in found.attentions} == KINDS[name] | {"gradient"}
    for one in found.attentions:
        sizes = len(found.sequences[one.queries]), len(found.sequences[one.keys])
        assert one.weights.shape == (one.layers, one.heads, *sizes)
        np.testing.assert_allclose(one.weights.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("name", [name for name, kinds in KINDS.items() if kinds & {"encoder", "cross"}])
def test_captured_weights_are_the_softmax_of_products(name: str) -> None:
    seen: dict[str, list[np.ndarray[Any, Any]]] = {}

    def keep(part: str) -> Callable[..., None]:
        def multiply(module: Any, inputs: tuple[Any, ...]) -> None:
            x, layout, *memory = inputs
            if memory:
                q = module.project_query(x).unflatten(1, (module.heads, -1))
                k = module.project_memory(memory[0]).unflatten(1, (2, module.heads, -1))[:, 0]
            else:
                q, k, _ = module.project(x).unflatten(1, (3, module.heads, -1)).unbind(1)
            scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[2] ** 0.5
            of_query, of_key = (
                torch.repeat_interleave(torch.arange(one.sentences), one.lengths.long())
                for one in (layout, memory[1] if memory else layout)
            )
            hidden = of_query[:, None] != of_key[None]
            if not memory and module.causal:
                hidden |= torch.ones_like(hidden).triu(1)
            seen.setdefault(part, []).append(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1).numpy())

        return multiply

    model, hooks = _model(name), []
    for place, module in model.network.named_modules():
        if isinstance(module, SelfAttention | CrossAttention):
            hooks.append(module.register_forward_pre_hook(keep(kind_of(place, module))))
    found = model.explain(*ASKED[name], **SHORT.get(name, {}))
    for hook in hooks:
        hook.remove()
    if name == "captions-recurrent":  # its attention has no products: see below
        assert not seen
        return
    assert set(seen) == {one.kind for one in found.attentions} & {"encoder", "decoder", "cross", "question"}
    for kind, layers in seen.items():
        weights = found.attention(kind).weights
        np.testing.assert_allclose(
            weights, np.stack([one for one in layers if one.shape == weights.shape[1:]][-len(weights) :]), atol=1e-5
        )


def test_tags_are_those_of_tag() -> None:
    for name in ("tagger-transformer", "tagger-recurrent-letters-crf"):
        found, tagged = _explained(name), _model(name).tag(WORDS)
        assert tuple(one.piece for one in found.predictions) == tagged.labels
        assert [one.probability for one in found.predictions] == pytest.approx(tagged.probabilities, abs=1e-5)
        assert found.sequences["words"].texts == tagged.words
        read = found.sequences["text"]  # a long sentence is read in parts, with markers
        assert [text for text in read.texts if text not in ("<s>", "</s>")] == list(tagged.words)
        assert len(found.predictions[0].runners_up) == len(_model(name).labels) - 1


def test_a_parse_has_its_tree_and_its_alignment() -> None:
    found = _explained("parser")
    assert found.tree == found.output == str(_model("parser").parse(found.text))
    assert found.alignment is not None
    assert found.alignment.shape == (len(found.sequences["output"]), len(found.sequences["source"]))


def test_the_ends_of_an_answer_are_those_of_its_probability() -> None:
    found, answer = _explained("reader"), _model("reader").answer(ASKED["reader"][1], TEXT, n_best=6)
    assert (found.text, found.question) == (TEXT, "Who found keys?")
    assert found.output == (answer.text or "(no answer)")
    assert found.classes == pytest.approx(
        {**{span.text: span.probability for span in answer.spans}, "(no answer)": answer.no_answer}, abs=1e-5
    )
    starts, ends = found.attention("span").weights[0, 0]
    assert starts[0] * ends[0] == pytest.approx(answer.no_answer, abs=1e-5)
    texts = found.sequences["text"].pieces
    assert starts[texts.index("</s>")] == 0, "an answer is not a part of the question"


def test_the_class_of_an_image_is_that_of_classify() -> None:
    for name in ("images-vit", "images-convolutional"):
        found = _explained(name)
        assert found.classes == pytest.approx(_model(name).classify(IMAGE).probabilities, abs=1e-5)
    image = _explained("images-vit").image
    assert image is not None
    assert (image.rows, image.columns, image.class_token) == (3, 5, True)  # 40 x 72 pixels, patches of 16
    assert _explained("images-vit").sequences["patches"].texts[:3] == ("class", "1,1", "1,2")
    grid = image.on_grid(_explained("images-vit").attention("encoder").weights[-1, 0, 0])
    assert grid.shape == (3, 5)
    assert np.array_equal(image.pixels, IMAGE)


def test_the_words_of_a_caption_look_where_a_search_says() -> None:
    for name in ("captions-transformer", "captions-recurrent"):
        found, (best, *_) = _explained(name), _model(name).caption_detailed(IMAGE, aligned=True, max_extra=4)
        assert found.output == best.text
        assert found.alignment is not None
        assert found.image is not None
        names = found.sequences["patches"].texts
        looked = [names[place] for place in found.alignment.argmax(axis=1)][: len(best.tokens)]
        assert looked == ["class" if at is None else f"{at[0] + 1},{at[1] + 1}" for at in best.patches]


def test_coattention_is_that_of_the_network() -> None:
    found, model = _explained("answers-about-images"), _model("answers-about-images")
    answer = model.answer(ASKED["answers-about-images"][1], IMAGE)
    assert found.output == answer.text
    assert found.classes == pytest.approx(answer.probabilities, abs=1e-5)
    sides: list[Any] = []
    hook = model.network.attention.register_forward_pre_hook(lambda module, inputs: sides.append(inputs))
    model.explain(*ASKED["answers-about-images"])
    hook.remove()
    with torch.no_grad():
        words, patches = model.network.attention.weights(*sides[0])
    np.testing.assert_allclose(found.attention("words").weights[0, 0], words.numpy(), atol=1e-6)
    np.testing.assert_allclose(found.attention("patches").weights[0, 0], patches.numpy(), atol=1e-6)


def test_heads_that_read_a_question_are_silenced_apart_from_those_of_the_image() -> None:
    model = _model("answers-about-images")
    with model.silenced(("question", 1, 0)):
        found = model.explain(*ASKED["answers-about-images"])
    plain = _explained("answers-about-images")
    np.testing.assert_array_equal(found.attention("encoder").weights, plain.attention("encoder").weights)
    assert found.classes != plain.classes


@pytest.mark.parametrize(("name", "asked", "message"), [
    ("tagger-recurrent-letters-crf", (" ",), "The text is blank:"),
    ("parser", (" ",), "The text is blank:"),
    ("reader", (" ", "Who?"), "The text is blank:"),
    ("reader", (TEXT, " "), "`question`: the question is empty"),
    ("answers-about-images", (IMAGE, " "), "`question`: the question is empty:"),
    ("images-vit", (7,), "`image` is int, but must be a path"),
])  # fmt: skip
def test_what_cannot_be_explained_is_refused(name: str, asked: tuple[Any, ...], message: str) -> None:
    with pytest.raises(heedful.UserError, match=message):
        _model(name).explain(*asked)
