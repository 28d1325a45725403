"""BPE-dropout: with p = 0 it is BPE, else the algorithm of its paper, drawn by (seed, epoch, row) alone."""

from collections import Counter

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.config.tokenizer import Bpe, ByteBpe, Words
from heedful.data.batches.pairs import PairBatch, PairCollator
from heedful.data.epochs.bpe_dropout import EpochStores, Merges, Redrawing, RedrawnFeed, Symbols, merge
from heedful.data.epochs.loader import Loader, RowFeed
from heedful.data.token_store import Ragged, TokenStore
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.data.tokenize.training import train_tokenizer

TEXTS = [
    "the lower the newest of the widest lowest towers, they're slower!",
    "Der niedrigste Turm ist niedriger als der neueste; größer ist keiner.",
    "lower  slower   newest 12345 tower's “widest”",
    "low",
    "",
]
KINDS: dict[str, ByteBpe | Bpe] = {"byte_bpe": ByteBpe(size=340), "bpe": Bpe(kind="bpe", size=90)}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(KINDS[request.param], TEXTS * 5)


def rows_of(stream: Ragged) -> list[list[int]]:
    return [stream[row].tolist() for row in range(len(stream))]


def test_nothing_dropped_is_the_tokenizers_own_encoding(tokenizer: Tokenizer) -> None:
    plain = Ragged.of(tokenizer.encode_batch(TEXTS))
    assert rows_of(Redrawing(tokenizer, 0.0).draw(plain, 1, 0, 0, 1000)) == rows_of(plain)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999999])
def test_other_pieces_spell_the_same_text(tokenizer: Tokenizer, share: float) -> None:
    plain = Ragged.of(tokenizer.encode_batch(TEXTS))
    drawing = Redrawing(tokenizer, share)
    epochs = [rows_of(drawing.draw(plain, 1, epoch, 0, 1000)) for epoch in range(3)]
    for rows in epochs:
        assert tokenizer.decode_batch(rows) == tokenizer.decode_batch(rows_of(plain))
    if share < 0.9:
        assert epochs[0] != epochs[1] != epochs[2]
    else:
        letters = [len("".join(text.split())) for text in TEXTS]
        assert [len(row) for row in epochs[0]][3] == letters[3]


def naive(symbols: list[int], merges: Merges, share: float, chance: np.random.Generator) -> list[int]:
    """Algorithm 1 of the paper, one word at a time."""
    while True:
        found = []
        for place in range(len(symbols) - 1):
            rank = int(merges.ranks(np.array([symbols[place]]), np.array([symbols[place + 1]]))[0])
            if rank < len(merges.merged) and chance.random() >= share:
                found.append((rank, place))
        if not found:
            return symbols
        rank, place = min(found)
        symbols = [*symbols[:place], int(merges.merged[rank]), *symbols[place + 2 :]]


def test_pieces_are_as_frequent_as_by_the_algorithm_of_the_paper(tokenizer: Tokenizer) -> None:
    merges, share, count = Merges(tokenizer), 0.3, 1000
    word = "lowest"
    letters = [*word[:-1], word[-1] + merges.suffix]
    ids = [int(tokenizer._inner.token_to_id(letter) or 0) for letter in letters]
    chance = np.random.default_rng(0)
    expected = Counter(tuple(naive(ids, merges, share, chance)) for _ in range(count))
    hashes = chance.integers(0, 2**63, count * len(ids)).astype(np.uint64)
    pieces, owners = merge(Symbols(np.tile(ids, count), np.repeat(np.arange(count), len(ids)), hashes), merges, share)
    found = Counter(tuple(part.tolist()) for part in np.split(pieces, np.flatnonzero(np.diff(owners)) + 1))
    assert sum(found.values()) == count
    for cut in expected | found:
        assert abs(found[cut] - expected[cut]) < 5 * np.sqrt(max(expected[cut], 20))


def test_a_rows_pieces_depend_on_seed_epoch_and_row_alone(tokenizer: Tokenizer) -> None:
    plain = tokenizer.encode_batch(TEXTS * 3)
    whole = rows_of(Redrawing(tokenizer, 0.4).draw(Ragged.of(plain), 7, 3, 0, 1000))
    other = [*plain[:2], *tokenizer.encode_batch(["slow slow low"] * 2), *plain[4:]]
    changed = rows_of(Redrawing(tokenizer, 0.4).draw(Ragged.of(other), 7, 3, 0, 1000))
    assert changed[:2] == whole[:2]
    assert changed[4:] == whole[4:]
    drawn = {
        str(rows_of(Redrawing(tokenizer, 0.4).draw(Ragged.of(plain), seed, epoch, number, 1000)))
        for seed, epoch, number in ((7, 3, 0), (8, 3, 0), (7, 4, 0), (7, 3, 1))
    }
    assert len(drawn) == 4
    assert whole[0] != whole[len(TEXTS)]  # the same text in another row


def test_rows_that_would_be_too_long_and_unknown_characters_stay(tokenizer: Tokenizer) -> None:
    plain = Ragged.of([*tokenizer.encode_batch(TEXTS[:2]), [UNKNOWN, tokenizer.size - 1]])
    drawn = rows_of(Redrawing(tokenizer, 0.6).draw(plain, 1, 0, 0, len(plain[0])))
    assert drawn[0] == plain[0].tolist()
    assert all(len(row) <= max(len(plain[0]), len(plain[1])) for row in drawn)
    assert drawn[2][0] == UNKNOWN


def test_a_vocabulary_without_merges_is_refused() -> None:
    words = train_tokenizer(Words(kind="word"), TEXTS)
    with refuses("...`train.bpe_dropout` needs the merges of a vocabulary that Heedful trained..."):
        Merges(words)


def test_a_feed_serves_the_same_batches_from_any_point_of_any_epoch(tokenizer: Tokenizer) -> None:
    plain = tokenizer.encode_batch(TEXTS[:4] * 4)
    store = TokenStore.of(source=plain, target=plain[::-1])

    def feed() -> RedrawnFeed[PairBatch]:
        drawing = Redrawing(tokenizer, 0.3)
        rows = RowFeed([store], [1.0], PairCollator(), 3, 150, 8)
        return RedrawnFeed(rows, EpochStores([store], {"source": drawing, "target": drawing}, 3, 60))

    with Loader(feed()) as loader:
        served = {}
        for made in loader:
            served[made.epoch, made.index] = made.batch
            if made.epoch == 2:
                break
    epoch, index = 1, 1
    with Loader(feed(), (epoch, index)) as resumed:
        again = next(resumed).batch
    before = served[epoch, index]
    assert again.source.values.tolist() == before.source.values.tolist()
    assert again.labels.tolist() == before.labels.tolist()
    assert max(int(batch.source.layout.lengths.max()) for batch in served.values()) <= 61
