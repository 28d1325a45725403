import itertools
from dataclasses import FrozenInstanceError, replace

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedful.base.packed import IGNORED, Layout, Packed

# Empty sentences and a bound above the longest: what a static layout has.
lengths = st.lists(st.integers(0, 6), min_size=1, max_size=6)
slack = st.integers(0, 3)
CPU = torch.device("cpu")


# --- layouts ----------------------------------------------------------------------------------------------------------


@given(lengths)
def test_a_layout_lays_sentences_end_to_end(lengths: list[int]) -> None:
    layout = Layout.of(lengths)
    assert layout.offsets.tolist() == [0, *itertools.accumulate(lengths)]
    assert layout.offsets.dtype == torch.int32  # what flash attention asks for
    assert layout.positions.tolist() == [place for length in lengths for place in range(length)]
    assert layout.lengths.tolist() == lengths
    assert layout.bound == max(lengths)
    assert layout.sentences == len(lengths)
    assert layout.tokens == sum(lengths)


def test_a_layout_of_nothing_has_no_sentences() -> None:
    layout = Layout.of([])
    assert (layout.sentences, layout.tokens, layout.bound) == (0, 0, 0)


@given(lengths, slack)
def test_keep_is_true_at_as_many_first_places_as_a_sentence_is_long(lengths: list[int], slack: int) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + slack)
    expected = [[place < length for place in range(layout.bound)] for length in layout.lengths.tolist()]
    assert layout.keep.tolist() == expected


@given(lengths, slack)
def test_gather_names_the_token_of_each_place_that_holds_one(lengths: list[int], slack: int) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + slack)
    starts = layout.offsets.tolist()
    for row, (start, length) in enumerate(zip(starts, layout.lengths.tolist(), strict=False)):
        assert layout.gather[row, :length].tolist() == list(range(start, start + length))


@given(lengths.filter(any), slack)
def test_gather_names_valid_tokens_everywhere(lengths: list[int], slack: int) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + slack)
    assert ((layout.gather >= 0) & (layout.gather < layout.tokens)).all()


@given(lengths, slack)
def test_scatter_is_the_inverse_of_gather(lengths: list[int], slack: int) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + slack)
    assert layout.gather.flatten()[layout.scatter].tolist() == list(range(layout.tokens))
    assert torch.equal(layout.scatter, layout.keep.flatten().nonzero().squeeze(1))


@given(lengths, slack)
def test_even_says_that_no_place_is_left_open(lengths: list[int], slack: int) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + slack)
    assert layout.even == bool(layout.keep.all())


@given(lengths, slack)
def test_a_copied_layout_is_the_same(lengths: list[int], slack: int) -> None:
    layout = replace(Layout.of(lengths), bound=max(lengths) + slack)
    copy = layout.to(CPU, non_blocking=True)
    assert torch.equal(copy.offsets, layout.offsets)
    assert torch.equal(copy.positions, layout.positions)
    assert copy.bound == layout.bound


# --- packed values ----------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 1000), max_size=5), min_size=1, max_size=5))
def test_packed_sentences_come_back_as_they_were(sentences: list[list[int]]) -> None:
    packed = Packed.of(sentences)
    assert packed.values.dtype == torch.int64
    assert [values.tolist() for values in packed.split()] == sentences
    assert [values.tolist() for values in packed.to(CPU).split()] == sentences


def test_other_values_keep_layout_and_segments() -> None:
    ids = replace(Packed.of([[1, 2], [3]]), segments=torch.tensor([0, 0, 1]))
    vectors = ids.with_values(torch.randn(3, 4))
    assert vectors.layout is ids.layout
    assert vectors.segments is ids.segments
    assert vectors.values.shape == (3, 4)
    moved = vectors.to(CPU)
    assert moved.segments is not None
    assert moved.segments.tolist() == [0, 0, 1]


def test_a_packed_batch_does_not_change() -> None:
    packed = Packed.of([[1, 2], [3]])
    with pytest.raises(FrozenInstanceError):
        packed.values = torch.zeros(3)  # type: ignore[misc]


def test_ignored_is_the_label_that_torch_ignores() -> None:
    loss = torch.nn.functional.cross_entropy(torch.randn(1, 3), torch.tensor([IGNORED]), reduction="sum")
    assert float(loss) == 0


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_shapes_are_checked_in_every_test() -> None:
    """If the import hook of conftest.py were lost, wrong shapes would pass everywhere."""
    from heedful.models.networks import EncoderDecoder
    from heedful.nn.layers.residual import Residual

    with pytest.raises(jaxtyping.TypeCheckError):
        Layout(torch.zeros(2, dtype=torch.int32), torch.zeros(2, 2, dtype=torch.int64), 2)
    with pytest.raises(jaxtyping.TypeCheckError):
        Residual(torch.nn.Identity(), torch.nn.Identity(), 0.0)(torch.zeros(2, 3, 4), torch.relu)
    with pytest.raises(jaxtyping.TypeCheckError):
        EncoderDecoder(torch.nn.Identity(), torch.nn.Identity())(torch.zeros(3), torch.zeros(3))


def test_sentences_given_as_tensors_are_joined() -> None:
    rows = [torch.randn(2, 3), torch.empty(0, 3), torch.randn(1, 3)]
    joined = Packed.join(rows)
    assert torch.equal(joined.values, torch.cat(rows))
    assert joined.layout.lengths.tolist() == [2, 0, 1]
    ids = Packed.join([torch.tensor([5, 6]), torch.tensor([7])])
    assert torch.equal(ids.values, Packed.of([[5, 6], [7]]).values)
