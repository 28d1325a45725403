"""The map of texts: principal components, against distances."""

from xml.etree import ElementTree

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.explain.pages.images import map_page, map_svg, map_vectors


def test_a_flat_cloud_keeps_all_its_distances() -> None:
    random = np.random.default_rng(0)
    flat = random.standard_normal((6, 2)) * (3, 1)
    turned, _ = np.linalg.qr(random.standard_normal((5, 5)))
    vectors = (flat @ turned[:2] + 7).astype(np.float32)
    found = map_vectors(vectors)
    mapped, true = (np.linalg.norm(some[:, None] - some[None], axis=2) for some in (found.positions, vectors))
    np.testing.assert_allclose(mapped, true, atol=1e-4)
    assert sum(found.shares) == pytest.approx(1)
    spread = found.positions.std(axis=0)
    assert spread[0] > spread[1]


def test_a_map_has_a_dot_for_every_text_inside_of_it() -> None:
    found = map_vectors(np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32))
    texts = ["a <dog>", "b", "c", "a very long text that goes on and on and on until it is cut"]
    root = ElementTree.fromstring(map_svg(found, texts))
    dots = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(dots) == 4
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert all(0 < float(dot.get("cx", -1)) < width and 0 < float(dot.get("cy", -1)) < height for dot in dots)
    assert "a very long text" in map_page(found, texts, "model")


def test_what_cannot_be_mapped_is_refused() -> None:
    with refuses("...A map needs at least 3 texts, but there are 2: give more..."):
        map_vectors(np.eye(2, dtype=np.float32))
    with refuses("...The vectors of all texts are equal: there is nothing to map..."):
        map_vectors(np.ones((3, 4), np.float32))
