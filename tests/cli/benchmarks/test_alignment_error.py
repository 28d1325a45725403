"""The alignment error rate."""

import pytest
from benchmarks.shared.alignment_error import LinkCounts, add_up, count_links
from tests.shared.refusals import refuses

SURE, POSSIBLE = {(0, 0), (1, 2)}, {(0, 0), (1, 2), (2, 1)}


@pytest.mark.parametrize(("found", "rate"), [
    ([(0, 0), (1, 2)], 0),  # the sure links
    ([(0, 0), (1, 2), (2, 1)], 0),  # a possible one besides them is not an error
    ([(0, 0)], 1 - 2 / 3),  # a sure one is missing
    ([(0, 0), (1, 2), (0, 1)], 1 - 4 / 5),  # one is wrong
    ([(0, 1)], 1),
])  # fmt: skip
def test_missing_sure_links_and_wrong_links_are_errors(found: list[tuple[int, int]], rate: float) -> None:
    assert count_links(found, SURE, POSSIBLE).error_rate == pytest.approx(rate)


def test_links_are_counted_over_all_sentences() -> None:
    both = add_up([count_links([(0, 0)], SURE, POSSIBLE), count_links([(0, 1)], SURE, POSSIBLE)])
    assert both == LinkCounts(2, 4, 1, 1)
    assert both.error_rate == pytest.approx(1 - 2 / 6)


def test_no_links_have_no_error_rate() -> None:
    with refuses("...There are no links: neither found nor sure ones..."):
        _ = LinkCounts().error_rate
