"""Where the sentences of a batch begin, against their definition; for one side as for several."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses

from heedful.base.packed import Layout
from heedful.data.collate import Lengths, StaticShape, layout_of, layouts, ragged_layouts, static_layouts

sizes = st.lists(st.integers(0, 9), min_size=1, max_size=8)


def lengths_of(values: list[int]) -> Lengths:
    return np.array(values, np.int64)


def same(one: Layout, two: Layout) -> bool:
    return torch.equal(one.offsets, two.offsets) and torch.equal(one.positions, two.positions)


@given(sizes)
def test_a_layout_is_its_sentences_end_to_end(values: list[int]) -> None:
    made = layout_of(lengths_of(values), bound=9)
    assert same(made, Layout.of(values))
    assert made.bound == 9
    assert (made.offsets.dtype, made.positions.dtype) == (torch.int32, torch.int64)


@examples(50)
@given(sizes, sizes, st.sampled_from([1, 4, 16]))
def test_sides_are_filled_up_to_a_multiple_by_the_same_number_of_dummies(
    one: list[int], two: list[int], multiple: int
) -> None:
    count = min(len(one), len(two))
    sides = [lengths_of(one[:count]), lengths_of(two[:count])]
    made = ragged_layouts(sides, multiple)
    assert made[0].sentences == made[1].sentences
    for layout, side in zip(made, sides, strict=True):
        assert layout.lengths[:count].tolist() == side.tolist()
        assert layout.tokens % multiple == 0
        assert layout.tokens - side.sum() < multiple
        assert layout.bound == max(1, side.max())
        assert int(layout.lengths.max()) <= layout.bound
    if multiple == 1:
        assert made[0].sentences == count


@examples(50)
@given(sizes)
def test_one_shape_holds_whatever_fits_it(values: list[int]) -> None:
    shape = StaticShape.around(tokens=90, max_sentences=8, longest=9)
    (layout,) = static_layouts([lengths_of(values)], shape)
    assert (layout.tokens, layout.sentences, layout.bound) == (90, 8 + 10, 9)
    lengths = layout.lengths.tolist()
    assert lengths[: len(values)] == values
    dummies = [length for length in lengths[len(values) :] if length]
    assert max(dummies, default=0) <= 9
    assert max(dummies, default=0) - min(dummies, default=0) <= 1  # dealt out evenly
    assert lengths[len(values) + len(dummies) :] == [0] * (18 - len(values) - len(dummies))


def test_a_shape_is_chosen_by_its_absence() -> None:
    side = lengths_of([3, 4])
    assert layouts([side], None, 8)[0].tokens == 8
    assert layouts([side], StaticShape(20, 5, 6), 8)[0].tokens == 20


@pytest.mark.parametrize(
    ("shape", "room"),
    [(StaticShape(6, 9, 4), 7), (StaticShape(20, 5, 4), 0), (StaticShape(20, 9, 3), 2)],
    ids=["tokens", "sentences", "bound"],
)
def test_what_does_not_fit_a_shape_is_refused(shape: StaticShape, room: int) -> None:
    with pytest.raises(
        ValueError, match=r"^2 sentences of 7 tokens, the longest of 4, do not fit StaticShape\("
    ) as one:
        static_layouts([lengths_of([3, 4])], shape)
    assert str(one.value).endswith(f"which has room for {room}")
    with refuses("2 sentences of 3 and 7 tokens, the longest of 4, do not fit ...", ValueError):
        static_layouts([lengths_of([1, 2]), lengths_of([3, 4])], shape)
