from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.base.errors import UserError
from heedful.data.batches import next_sentences as module
from heedful.data.batches.next_sentences import SentencePairs
from heedful.data.batches.stretches import Spans, plan_spans
from heedful.data.token_store import TokenStore

Documents = list[list[int]]  # the lengths of their sentences

LONGEST = 23
documents = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=9), min_size=2, max_size=7).filter(
    lambda found: sum(map(bool, map(sum, found))) > 1 and max(map(len, found)) > 1
)


@dataclass(frozen=True)
class Pair:
    """Where A and B are."""

    first: tuple[int, int, int]  # document, begin and end
    second: tuple[int, int, int]
    drawn: int


def many(count: int, seed: int = 0, least: int = 2) -> Documents:
    random = np.random.default_rng(seed)
    return [random.integers(1, 40, random.integers(least, 40)).tolist() for _ in range(count)]


def planned(
    *lengths: Documents,
    weights: tuple[float, ...] = (),
    epoch: int = 0,
    seed: int = 1,
    longest: int = LONGEST,
    tokens: int = 500,
) -> list[Spans]:
    stores = [
        TokenStore.of(text=[list(range(sum(sentences))) for sentences in documents], sentences=documents)
        for documents in lengths
    ]
    cutting = SentencePairs(longest)
    weights = weights or (1.0,) * len(stores)
    return list(plan_spans(stores, weights, cutting, seed=seed, epoch=epoch, batch_tokens=tokens))


def pairs_of(batches: list[Spans]) -> list[Pair]:
    pairs = []
    for batch in batches:
        assert batch.second is not None
        assert batch.drawn is not None
        rows = [
            list(zip(run.documents.tolist(), run.begins.tolist(), run.ends.tolist(), strict=True))
            for run in (batch.first, batch.second)
        ]
        pairs += [Pair(*each) for each in zip(*rows, batch.drawn.tolist(), strict=True)]
    return pairs


@given(documents, st.integers(0, 3))
def test_the_second_follows_the_first_or_is_of_another_document(lengths: Documents, epoch: int) -> None:
    """What lies between A and B of one document was cut off: of the last sentence of A, or of the first of B."""
    for pair in pairs_of(planned(lengths, epoch=epoch)):
        (document, begin, end), (other, other_begin, other_end) = pair.first, pair.second
        assert 0 <= begin < end <= sum(lengths[document])
        assert 0 <= other_begin < other_end <= sum(lengths[other])
        assert (document == other) == (pair.drawn == 0)
        if not pair.drawn:
            assert end <= other_begin
            between = [edge for edge in np.cumsum(lengths[document]) if end <= edge <= other_begin]
            long = max(lengths[document]) > LONGEST - 3  # such a sentence can be parted itself
            assert len(set(between)) == 1 or (long and len(set(between)) <= 1)


@given(documents, st.integers(0, 3))
def test_every_sentence_is_seen(lengths: Documents, epoch: int) -> None:
    pairs = pairs_of(planned(lengths, epoch=epoch))
    for number, sentences in enumerate(lengths):
        seen = np.zeros(sum(sentences), np.bool_)
        for document, begin, end in (part for pair in pairs for part in (pair.first, pair.second)):
            if document == number:
                seen[begin:end] = True
        for begin, length in zip(np.cumsum(sentences) - sentences, sentences, strict=True):
            assert not length or seen[begin : begin + length].any()


@given(documents, st.integers(0, 3))
def test_pairs_keep_to_their_length_and_batches_to_their_budget(lengths: Documents, epoch: int) -> None:
    for batch in planned(lengths, epoch=epoch, tokens=60):
        assert batch.second is not None
        assert batch.lengths.tolist() == (batch.first.lengths + batch.second.lengths + 3).tolist()
        assert batch.lengths.max() <= LONGEST
        assert batch.lengths.sum() <= 60


@pytest.mark.parametrize("alone", [0.0, 0.2, 0.4])
def test_both_kinds_are_equally_many(alone: float) -> None:
    """Also where some documents have one sentence, which none follows."""
    random = np.random.default_rng(1)
    lengths = [[9] if random.random() < alone else random.integers(1, 12, 6).tolist() for _ in range(4000)]
    shares = []
    for epoch in range(3):
        drawn = np.array([pair.drawn for pair in pairs_of(planned(lengths, epoch=epoch))])
        assert abs(drawn.mean() - 0.5) < 3 * 0.5 / len(drawn) ** 0.5  # three standard deviations of fair coins
        shares.append(drawn.mean())
    assert len(set(shares)) == 3


def test_the_form_of_a_pair_does_not_tell_its_kind() -> None:
    """Lengths, and how often a stretch begins or ends with a sentence, are the same but for a little."""
    lengths = many(1500, least=10)
    edges = [{0, *np.cumsum(sentences).tolist()} for sentences in lengths]

    def form(pair: Pair) -> list[float]:
        whole = [
            place in edges[document] for document, begin, end in (pair.first, pair.second) for place in (begin, end)
        ]
        sizes = [end - begin for _, begin, end in (pair.first, pair.second)]
        return [*map(float, whole), *map(float, sizes)]

    pairs = pairs_of(planned(lengths, longest=128))
    kinds = [np.array([form(pair) for pair in pairs if pair.drawn == drawn]) for drawn in (0, 1)]
    difference = np.abs(kinds[0].mean(axis=0) - kinds[1].mean(axis=0))
    assert (difference[:4] < 0.06).all()
    assert (difference[4:] < 2).all()


def test_most_pairs_are_full_and_some_are_short() -> None:
    random = np.random.default_rng(0)
    batches = planned([random.integers(1, 40, 600).tolist() for _ in range(20)], longest=128)
    sizes = np.concatenate([batch.lengths for batch in batches])
    assert 0.87 < (sizes == 128).mean() < 0.93  # but for the tenth that is filled up to less
    assert sizes.min() < 20


def test_the_drawn_begin_anywhere_in_any_other_document() -> None:
    lengths = [[5] * 8 for _ in range(6)]
    drawn = [pair for epoch in range(60) for pair in pairs_of(planned(lengths, epoch=epoch, longest=43)) if pair.drawn]
    seen = {(pair.first[0], pair.second[0]) for pair in drawn}
    assert seen == {(own, other) for own in range(6) for other in range(6) if own != other}
    assert {pair.second[1] // 5 for pair in drawn} == set(range(8))


def test_the_longer_is_cut_first() -> None:
    """Against cutting token by token, as the authors' program does."""
    random = np.random.default_rng(0)
    first, second = random.integers(1, 50, (2, 500))
    over = np.minimum(random.integers(0, 40, 500), first + second - 2)
    for lost, a, b, rest in zip(module._of_longer(first, second, over), first, second, over, strict=True):
        left = [a, b]
        for _ in range(rest):
            left[0 if left[0] > left[1] else 1] -= 1
        assert a - lost == left[0]


def test_cuts_are_at_both_ends() -> None:
    pairs = pairs_of(planned([[30, 30] for _ in range(300)], longest=33))
    for begins in (
        [part[1] % 30 for part in parts] for parts in zip(*((p.first, p.second) for p in pairs), strict=True)
    ):
        assert 7 < np.mean(begins) < 8  # half of the 15 that are cut of 30
        assert len(set(begins)) > 8


def test_another_document_is_another_one_also_where_a_weight_repeats_it() -> None:
    for epoch in range(5):
        pairs = pairs_of(planned([[3, 4, 5]], [[6, 7]], weights=(9.0, 1.0), epoch=epoch))
        assert all((pair.first[0] != pair.second[0]) == (pair.drawn == 1) for pair in pairs)


def test_a_pool_of_one_document_is_joined_with_its_neighbour() -> None:
    """Documents larger than a pool."""
    lengths = [[7] * 2000 for _ in range(5)]
    pairs = pairs_of(planned(lengths, tokens=60))
    assert {pair.first[0] for pair in pairs} == set(range(5))
    assert abs(np.mean([pair.drawn for pair in pairs]) - 0.5) < 0.05


def test_the_plan_is_a_pure_function_of_stores_seed_and_epoch() -> None:
    lengths = many(60)
    assert pairs_of(planned(lengths, epoch=2)) == pairs_of(planned(lengths, epoch=2))
    assert pairs_of(planned(lengths, epoch=2)) != pairs_of(planned(lengths, epoch=3))
    assert pairs_of(planned(lengths, epoch=2)) != pairs_of(planned(lengths, epoch=2, seed=2))


@pytest.mark.parametrize(
    ("lengths", "weights"), [([[3, 4, 5]], (1.0,)), ([[3, 4], [5, 6]], (0.5,)), ([[1, 2], [0]], (1.0,))]
)
def test_a_single_document_is_refused(lengths: Documents, weights: tuple[float, ...]) -> None:
    message = (
        r"^There is one document, but next sentences are also drawn from others: add some, or set "
        r"`model.next_sentence = false` in training\.$"
    )
    with pytest.raises(UserError, match=message):
        planned(lengths, weights=weights)


def test_documents_of_one_sentence_are_refused() -> None:
    message = (
        r"^There is no document of two sentences, so none follows another: add some, or set "
        r"`model.next_sentence = false` in training\.$"
    )
    with pytest.raises(UserError, match=message):
        planned([[3], [4], [50]])


def test_a_length_without_room_for_two_tokens_is_refused() -> None:
    message = r"^`data.max_length` is 4, but must be at least 5: an input is `<s> A </s> B </s>`, markers included\.$"
    with pytest.raises(UserError, match=message):
        planned([[3, 4], [5, 6]], longest=4)
    assert {int(size) for batch in planned([[3, 4], [5, 6]], longest=5) for size in batch.lengths} == {5}
