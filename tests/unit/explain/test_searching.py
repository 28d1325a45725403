"""The life of a beam: the same search, with every hypothesis that was among the best."""

from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import heedful
from heedful.explain.explanation import Explanation
from heedful.explain.pages.trees import beam_svg
from heedful.tasks.translate.model import Translator

BEAM = 3
BUNDLES = Path(__file__).parents[2] / "golden/bundles"


@pytest.fixture(scope="module")
def found(reversing: Translator) -> Explanation:
    return reversing.explain("ant bee cat dog", search=True, beam=BEAM, length_penalty=0.6)


def test_the_marked_path_is_what_a_search_finds_with_its_score(found: Explanation, reversing: Translator) -> None:
    (best,) = reversing.translate_detailed(found.text, beam=BEAM, length_penalty=0.6)
    path = [node for node in found.search if node.best]
    assert [node.piece for node in path] == [*reversing.vocabularies["target"].pieces(best.tokens), "</s>"]
    assert path[-1].fate == "finished"
    assert path[-1].score == pytest.approx(best.score, abs=1e-5)
    assert path[-1].log_probability == pytest.approx(best.log_probability, abs=1e-5)
    assert all(node.fate == "continued" for node in path[:-1])


def test_log_probabilities_are_those_of_the_model(found: Explanation, reversing: Translator) -> None:
    for end, node in enumerate(found.search):
        if node.fate != "finished" or node.best:
            continue
        pieces, here = [], end
        while found.search[here].parent is not None:
            here = found.search[here].parent or 0
            pieces.append(found.search[here].piece)
        (scored,) = reversing.score([found.text], [" ".join(reversed(pieces))])
        assert node.log_probability == pytest.approx(sum(scored.log_probabilities), abs=1e-4)
        return
    pytest.fail("a beam of 3 finishes more than one hypothesis")


def test_a_beam_keeps_k_at_each_step_and_says_where_the_others_died(found: Explanation) -> None:
    going = Counter(node.step for node in found.search if node.fate in ("continued", "died", "open"))
    assert going[1] == BEAM
    assert set(going.values()) == {BEAM}
    last = max(node.step for node in found.search)
    kept = {node.parent for node in found.search if node.fate != "dropped"}
    for index, node in enumerate(found.search):
        assert node.parent is None or found.search[node.parent].step == node.step - 1
        assert (index in kept) == (node.fate == "continued")
        assert (node.fate == "open") <= (node.step == last)
    assert {node.fate for node in found.search} >= {"continued", "finished", "died", "dropped"}


def test_recording_changes_nothing_and_greedy_search_has_no_beam(reversing: Translator, found: Explanation) -> None:
    assert reversing.explain(found.text, beam=1, search=True).search == ()
    assert reversing.explain(found.text).search == ()
    before = reversing.translate_detailed(["ant bee", "cat dog eel"], beam=BEAM, nbest=2)
    reversing.explain("ant bee", search=True, beam=BEAM)
    assert reversing.translate_detailed(["ant bee", "cat dog eel"], beam=BEAM, nbest=2) == before


@pytest.mark.parametrize("name", ["captions-transformer", "captions-recurrent"])
def test_the_beam_of_a_caption_ends_in_the_caption(name: str) -> None:
    model: Any = heedful.load(BUNDLES / name, device="cpu", precision="float32")
    image = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (40, 72, 3)).astype(np.uint8)
    options = {"beam": BEAM, "max_extra": 12}
    found = model.explain(image, search=True, **options)
    best, second = model.caption_detailed(image, nbest=2, **options)
    path = [node for node in found.search if node.best]
    assert [node.piece for node in path] == [*best.pieces, *(["</s>"] if best.complete else [])]
    assert path[-1].log_probability == pytest.approx(best.log_probability, abs=1e-4)
    assert path[-1].score == pytest.approx(best.score, abs=1e-4)
    scores = [node.score for node in found.search if node.fate in ("finished", "open")]
    assert any(score == pytest.approx(second.score, abs=1e-4) for score in scores), "the other one was in the beam too"
    assert model.explain(image, **options).search == ()


def test_the_tree_has_every_kept_hypothesis_and_the_best_in_the_first_row(found: Explanation) -> None:
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.fromstring(beam_svg(found.search, "Beam"))
    groups = [group for group in root.iter(f"{svg}g") if group.find(f"{svg}title") is not None]
    assert len(groups) == sum(node.fate != "dropped" for node in found.search)
    best = {node.piece for node in found.search if node.best}
    top = [text for group in groups for text in group.iter(f"{svg}text") if text.get("y") == "28"]
    assert {text.text for text in top} == best
