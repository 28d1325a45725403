"""Explanations as SVG."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
from tests.shared.refusals import refuses

from heedful.explain.explanation import AttentionWeights, Explanation, TokenSequence
from heedful.explain.pages.images import attention_svg, by_words
from heedful.explain.pages.page import explorer_page

SVG = "{http://www.w3.org/2000/svg}"
SOURCE = TokenSequence(("a", "<b>&", "c", "</s>"), (0, 1, 1, 2), ("a", "<b>&c", "</s>"))
OUTPUT = TokenSequence(("x", "</s>"), (0, 1), ("x", "</s>"))
WEIGHTS = np.array([[0.1, 0.2, 0.6, 0.1], [0.0, 0.0, 0.0, 1.0]], np.float32)
FOUND = Explanation(
    "translate", "transformer", "a <b>&c", "x", {"source": SOURCE, "output": OUTPUT},
    (AttentionWeights("cross", np.stack([WEIGHTS, WEIGHTS])[None], "output", "source"),), alignment=WEIGHTS,
)  # fmt: skip


def test_words_gather_the_weights_of_their_pieces() -> None:
    across, back = by_words(WEIGHTS, OUTPUT, SOURCE), by_words(WEIGHTS.T.copy(), SOURCE, OUTPUT)
    np.testing.assert_allclose(across, np.array([[0.1, 0.8, 0.1], [0, 0, 1]]), rtol=1e-6)
    np.testing.assert_allclose(back, np.array([[0.1, 0], [0.4, 0], [0.1, 1]]), rtol=1e-6)


def test_an_image_has_every_layer_and_head_and_all_words() -> None:
    root = ElementTree.fromstring(attention_svg(FOUND))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"Alignment", "a", "<b>&c", "x", "Layer 1, head 1", "Layer 1, head 2"} <= set(texts)
    values = [float(title.text or "nan") for rect in root.iter(f"{SVG}rect") for title in rect.iter(f"{SVG}title")]
    assert sorted(values)[-3:] == [1, 1, 1]
    assert len(list(root.iter(f"{SVG}circle"))) == 2  # the hard alignment of both words


def test_what_cannot_be_drawn_is_refused() -> None:
    with refuses("...This model has no attention: there are no weights to draw..."):
        attention_svg(replace(FOUND, attentions=()))
    long = TokenSequence.named([str(number) for number in range(121)])
    wide = AttentionWeights("cross", np.zeros((1, 1, 2, 121), np.float32), "output", "source")
    with refuses("...The text has 121 words, but an image shows at most 120..."):
        attention_svg(replace(FOUND, attentions=(wide,), sequences={"source": long, "output": OUTPUT}))
    huge = AttentionWeights("cross", np.broadcast_to(np.float32(0), (100, 100, 2, 2001)), "output", "source")
    with refuses("...The page would have 40,020,000 weights, but at most 40,000,000 fit..."):
        explorer_page([replace(FOUND, attentions=(huge,))], "m")
