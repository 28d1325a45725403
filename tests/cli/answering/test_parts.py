"""Inputs in parts: what is answered together never depends on how many parts are answered, nor on which."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.shared.refusals import refuses

from heedful.cli.answering import parts
from heedful.cli.answering.inputs import Inputs, Source
from heedful.cli.answering.parts import Parts, in_parts
from heedful.cli.input import open_inputs
from heedful.data.corpora.formats.lines import Passed
from heedful.tasks.shared.answering.answers import Given

BUNDLE = Path(__file__).parents[2] / "golden" / "bundles" / "transformer"
Found = list[tuple[str, int, list[str]]]


def source(name: str, count: int) -> Source:
    def inputs(passed: Passed) -> Iterator[Given]:
        return passed.over(Given({"text": f"{name}{number}"}) for number in range(count))

    return Source(name, inputs)


def texts(inputs: Iterator[Given]) -> list[str]:
    return [each.values["text"] for each in inputs]


def undisturbed(sources: Sequence[Source]) -> Found:
    return [(section.source.name, section.before, texts(section.inputs)) for section in in_parts(sources)]


@settings(deadline=None)
@given(counts=st.lists(st.integers(0, 7), max_size=4), order=st.randoms())
def test_parts_in_any_order_have_the_sections_of_an_undisturbed_run(counts: list[int], order: object) -> None:
    sources = [source(name, count) for name, count in zip("abcd", counts, strict=False)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parts, "SIZE", 3)
        whole = undisturbed(sources)
    numbers = list(range(-(-sum(counts) // 3)))
    order.shuffle(numbers)  # type: ignore[attr-defined]
    some, found = Parts(sources, counts, 3), dict[int, Found]()
    for part in numbers:
        found[part] = [(each.source.name, each.before, texts(each.inputs)) for each in some.sections(part)]
    assert [each for part in sorted(found) for each in found[part]] == whole
    starts = [0, *accumulate(len(inputs) for _, _, inputs in whole)]
    assert [before for _, before, _ in whole] == starts[:-1]
    assert all(before // 3 == (before + len(inputs) - 1) // 3 for _, before, inputs in whole)


def test_lines_keep_their_numbers_wherever_a_part_begins(tmp_path: Path) -> None:
    (tmp_path / "it.txt").write_text("".join(f"{number}\n" for number in range(1, 12)))
    entries = open_inputs([str(tmp_path / "it.txt"), "a text"])
    sources = Inputs(str(BUNDLE)).lines(entries, lambda line, where: {"text": line})
    found = Parts(sources, [11, 1], 4)
    for part, numbers in ((2, [9, 10, 11]), (0, [1, 2, 3, 4]), (1, [5, 6, 7, 8])):
        lines = next(found.sections(part)).inputs
        given = list(lines)
        assert [each.place["line"] for each in given] == numbers == [int(each.values["text"]) for each in given]
        assert given[0].where == f"{tmp_path / 'it.txt'}, line {numbers[0]}"


def test_a_file_that_loses_lines_while_it_is_read_is_told() -> None:
    found = Parts([source("a", 5)], [7], 3)
    (section,) = found.sections(1)
    with refuses("a has 5 inputs, but had more before: leave it as it is while it is read."):
        list(section.inputs)
