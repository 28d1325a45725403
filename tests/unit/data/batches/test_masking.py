import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from heedful.config.train.table import Masking
from heedful.data.batches.masked import Masked, mask, most_chosen

MASK, VOCABULARY = 4, range(10, 500)

Inputs = list[list[int]]  # of each word the number of its pieces

inputs = st.lists(st.lists(st.integers(1, 6), min_size=0, max_size=30), min_size=1, max_size=12)


class Packing:
    """Inputs between markers, packed."""

    def __init__(self, inputs: Inputs, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        tokens, maskable, owners, words = [], [], [], []
        for owner, sizes in enumerate(inputs):
            for place in (-1, *(number for number, size in enumerate(sizes) for _ in range(size)), -2):
                tokens.append(int(random.integers(10, 500)) if place >= 0 else 1)
                maskable.append(place >= 0)
                owners.append(owner)
                words.append(1000 * owner + (place if place >= -1 else 999))
        self.tokens, self.owners, self.words = np.array(tokens), np.array(owners), np.array(words)
        self.maskable = np.array(maskable, np.bool_)

    def masked(self, masking: Masking, seed: int = 0) -> Masked:
        words = self.words if masking.whole_words else None
        random = np.random.default_rng(seed)
        return mask(self.tokens, self.maskable, self.owners, words, masking, VOCABULARY, MASK, random)

    def quota(self, owner: int, share: float) -> int:
        count = int((self.maskable & (self.owners == owner)).sum())
        return max(1, round(share * count)) if count else 0

    def chosen(self, masked: Masked, owner: int) -> NDArray[np.int64]:
        return masked.places_P[self.owners[masked.places_P] == owner]


@given(inputs, st.sampled_from([0.01, 0.15, 0.5, 0.99]), st.booleans())
def test_markers_and_unchosen_tokens_stay_and_labels_are_what_stood_there(
    inputs: Inputs, share: float, whole_words: bool
) -> None:
    packing = Packing(inputs)
    before = packing.tokens.copy()
    masked = packing.masked(Masking(share=share, whole_words=whole_words))
    assert packing.tokens.tolist() == before.tolist()
    assert packing.maskable[masked.places_P].all()
    assert masked.places_P.tolist() == sorted(set(masked.places_P.tolist()))
    assert masked.labels_P.tolist() == before[masked.places_P].tolist()
    rest = np.setdiff1d(np.arange(len(before)), masked.places_P)
    assert masked.inputs_N[rest].tolist() == before[rest].tolist()


@given(inputs, st.sampled_from([0.01, 0.15, 0.5, 0.99]))
def test_each_input_has_its_share_rounded_and_one_at_least(inputs: Inputs, share: float) -> None:
    packing = Packing(inputs)
    masked = packing.masked(Masking(share=share))
    for owner in range(len(inputs)):
        assert len(packing.chosen(masked, owner)) == packing.quota(owner, share)


@given(inputs, st.sampled_from([0.01, 0.15, 0.5, 0.99]), st.integers(0, 3))
def test_words_are_chosen_whole_until_no_other_fits(inputs: Inputs, share: float, seed: int) -> None:
    packing = Packing(inputs)
    masked = packing.masked(Masking(share=share, whole_words=True), seed)
    for owner, sizes in enumerate(inputs):
        quota, chosen = packing.quota(owner, share), packing.chosen(masked, owner)
        taken = np.bincount(packing.words[chosen] - 1000 * owner, minlength=len(sizes)).tolist()
        if sizes and min(sizes) > quota:  # a stretch of one word
            assert len(chosen) == quota
            assert np.ptp(chosen) == quota - 1
            assert sorted(taken)[-1] == quota
            continue
        assert all(pieces in (0, size) for pieces, size in zip(taken, sizes, strict=True))
        left = quota - len(chosen)
        assert left >= 0
        assert all(size > left for pieces, size in zip(taken, sizes, strict=True) if not pieces)
        assert bool(taken and sum(taken)) == bool(sizes)


def test_words_are_tried_in_random_order() -> None:
    """Of words of one length all are chosen equally often; a plain loop over shuffled words agrees."""
    times = _times_chosen([2] * 20, 2000)
    assert times.sum() == 2000 * 6
    assert np.abs(times - 600).max() < 4.5 * (2000 * 0.3 * 0.7) ** 0.5
    sizes, loop = [1, 2, 3, 4, 5, 6, 7], np.zeros(7)
    random = np.random.default_rng(1)
    for _ in range(2000):
        left = 8
        for word in random.permutation(7):
            if sizes[word] <= left:
                left -= sizes[word]
                loop[word] += 1
    assert np.abs(_times_chosen(sizes, 2000) - loop).max() < 4.5 * (2 * 2000 * 0.25) ** 0.5


def _times_chosen(sizes: list[int], times: int) -> NDArray[np.int64]:
    """How often each word of an input is chosen when three tenths are."""
    packing = Packing([sizes] * times)
    masked = packing.masked(Masking(share=0.3, whole_words=True))
    return np.bincount(np.unique(packing.words[masked.places_P]) % 1000)


@pytest.mark.parametrize("whole_words", [False, True])
def test_most_become_masks_some_are_random_and_some_stay(whole_words: bool) -> None:
    packing = Packing([[1, 2, 1, 3, 1, 1] * (5 + number % 17) for number in range(400)])
    masked = packing.masked(Masking(whole_words=whole_words))
    count = len(masked.places_P)
    assert abs(count / packing.maskable.sum() - 0.15) < 0.002
    seen = masked.inputs_N[masked.places_P]
    share = {
        "masked": (seen == MASK).mean(),
        "stay": (seen == masked.labels_P).mean(),
        "random": ((seen != MASK) & (seen != masked.labels_P)).mean(),
    }
    error = 4 * (0.8 * 0.2 / count) ** 0.5
    assert share == pytest.approx({"masked": 0.8, "stay": 0.1, "random": 0.1}, abs=error)
    random = seen[(seen != MASK) & (seen != masked.labels_P)]
    assert random.min() >= 10
    assert random.max() < 500
    assert len(set(random.tolist())) > 300


@pytest.mark.parametrize(("masked", "random"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.5, 0.5)])
def test_other_shares_can_be_asked_for(masked: float, random: float) -> None:
    packing = Packing([[1] * 100 for _ in range(50)])
    made = packing.masked(Masking(masked=masked, random=random))
    seen = made.inputs_N[made.places_P]
    assert (seen == MASK).mean() == pytest.approx(masked, abs=0.08)
    assert (seen == made.labels_P).mean() == pytest.approx(1 - masked - random, abs=0.02)


def test_every_token_is_chosen_equally_often() -> None:
    packing = Packing([[1] * 30, [1] * 10])
    times = np.zeros(len(packing.tokens))
    for seed in range(1000):
        times[packing.masked(Masking(share=0.3), seed).places_P] += 1
    assert np.abs(times[packing.maskable] - 300).max() < 4.5 * (1000 * 0.3 * 0.7) ** 0.5


def test_masks_are_those_of_the_generator() -> None:
    packing = Packing([[1, 2, 3] * 10] * 5)
    for whole_words in (False, True):
        masking = Masking(whole_words=whole_words)
        first, again, other = packing.masked(masking, 1), packing.masked(masking, 1), packing.masked(masking, 2)
        assert first.inputs_N.tolist() == again.inputs_N.tolist()
        assert first.places_P.tolist() == again.places_P.tolist() != other.places_P.tolist()


@given(inputs, st.sampled_from([0.01, 0.15, 0.5, 0.99]), st.booleans())
def test_no_more_are_chosen_than_there_is_room_for(inputs: Inputs, share: float, whole_words: bool) -> None:
    packing = Packing(inputs)
    masked = packing.masked(Masking(share=share, whole_words=whole_words))
    assert len(masked.places_P) <= most_chosen(len(packing.tokens), len(inputs), share)


def test_nothing_is_chosen_of_nothing() -> None:
    for whole_words in (False, True):
        assert not len(Packing([[]]).masked(Masking(whole_words=whole_words)).places_P)
