"""N-best lists of other systems, ordered by a translator."""

import pytest
from tests.shared.refusals import refuses

from heedful.decode.hypothesis import Wu
from heedful.tasks.translate.model import Translator

SOURCE = "ant bee cat"
CANDIDATES = ["ant bee cat", "cat bee ant", "cat", "cat bee ant hen"]


def test_candidates_are_ordered_by_the_score_of_a_search(reversing: Translator) -> None:
    found = reversing.rerank(SOURCE, CANDIDATES)
    log_p = [one.log_probability for one in reversing.score([SOURCE] * 4, CANDIDATES)]
    penalty = Wu(reversing.recipe.decode.length_penalty)
    scores = [value / penalty(len(text.split()) + 1) for value, text in zip(log_p, CANDIDATES, strict=True)]
    assert [one.index for one in found] == sorted(range(4), key=lambda index: -scores[index])
    assert [one.score for one in found] == pytest.approx(sorted(scores, reverse=True))
    assert found[0].text == "cat bee ant"
    assert found[0].given is None
    (best,) = reversing.translate_detailed(SOURCE, beam=4)
    assert found[0].model_score == pytest.approx(best.score, abs=1e-4)


def test_another_length_penalty_changes_the_scores(reversing: Translator) -> None:
    assert all(one.score == one.log_probability for one in reversing.rerank(SOURCE, CANDIDATES, length_penalty=0.0))


def test_given_scores_count_by_their_weight(reversing: Translator) -> None:
    given = [10.0, 0.0, 0.0, -1.0]
    assert reversing.rerank(SOURCE, CANDIDATES, given)[0].index == 1  # a weight of 0 by default
    found = reversing.rerank(SOURCE, CANDIDATES, given, weight=100.0)
    assert found[0].index == 0
    assert found[-1].index == 3
    assert found[0].score == pytest.approx(found[0].model_score + 1000)


def test_equal_candidates_keep_their_order(reversing: Translator) -> None:
    assert [one.index for one in reversing.rerank(SOURCE, ["cat bee ant"] * 3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("candidates", "scores", "weight", "message"),
    [
        ([], None, 0.0, "`candidates` is empty: give at least one."),
        (["a", "b"], [1.0], 0.0, "2 candidates, but 1 score: each candidate needs one."),
        (
            ["ant"],
            None,
            0.5,
            "`candidates` has a candidate without a score, which 0.5 cannot weigh: leave out the weight.",
        ),
        (["ant"], None, float("nan"), "`weight` is nan, but must be a number."),
    ],
)
def test_mistakes_are_one_line(
    reversing: Translator, candidates: list[str], scores: list[float] | None, weight: float, message: str
) -> None:
    with refuses(message):
        reversing.rerank(SOURCE, candidates, scores, weight=weight)
