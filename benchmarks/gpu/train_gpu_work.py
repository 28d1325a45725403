"""The work of benchmarks.gpu.train_gpu: how large everything is, and the sentences that models are trained on."""

from dataclasses import dataclass

import numpy as np
from benchmarks.shared.gpu_work import FIRST_PIECE, Shape
from numpy.typing import NDArray

from heedful.data.token_store import Ragged, TokenStore

DROPOUT, SMOOTHING = 0.1, 0.1
SHORTEST, LONGEST = 3, 128  # tokens of a sentence, `</s>` included
LEARNED_LONGEST = 32  # in the task that can be learned

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class Stretches:
    """How long a rate is measured: stretches of `steps` steps, after `warm` steps to warm up."""

    warm: int
    count: int
    steps: int


@dataclass(frozen=True)
class Scale:
    """The sizes of everything in the benchmark."""

    shape: Shape
    batch_tokens: int
    pairs: int
    ours: Stretches
    compiled: Stretches
    eager: Stretches
    peer_batches: int
    widths: tuple[Shape, ...]  # besides that of `shape`
    lengths: tuple[int, ...]
    curve: Stretches
    curve_compiled: Stretches
    curve_batches: int  # of the peer at a point of a curve
    loss_shape: Shape
    loss_batch_tokens: int
    loss_steps: int
    loss_log_every: int
    product: int  # the side of the matrices that the ceiling is measured with


FULL = Scale(
    shape=Shape(),
    batch_tokens=24_576,
    pairs=60_000,
    ours=Stretches(40, 6, 20),
    compiled=Stretches(40, 4, 10),  # every shape is compiled before the first stretch
    eager=Stretches(4, 4, 5),
    peer_batches=40,
    widths=(Shape(256, 1024, 4), Shape(1024, 4096, 16)),
    lengths=(32, 128, 512),
    curve=Stretches(20, 3, 10),
    curve_compiled=Stretches(12, 3, 12),
    curve_batches=12,
    loss_shape=Shape(256, 1024, 4, 3, 8000),
    loss_batch_tokens=8192,
    loss_steps=500,
    loss_log_every=20,
    product=8192,
)
_SMALL = Shape(32, 64, 2, 1, 100)
TINY = Scale(
    shape=_SMALL,
    batch_tokens=512,
    pairs=400,
    ours=Stretches(2, 2, 2),
    compiled=Stretches(3, 1, 2),
    eager=Stretches(1, 1, 2),
    peer_batches=3,
    widths=(Shape(16, 64, 2, 1, 100), Shape(48, 64, 2, 1, 100)),
    lengths=(16, 64),
    curve=Stretches(2, 1, 2),
    curve_compiled=Stretches(2, 1, 2),
    curve_batches=2,
    loss_shape=_SMALL,
    loss_batch_tokens=512,
    loss_steps=12,
    loss_log_every=4,
    product=256,
)


# --- sentences --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A model's shape and the sentences that it is trained on."""

    shape: Shape
    store: TokenStore
    batch_tokens: int
    longest: int  # tokens of a sentence, `</s>` included

    def operations(self, target_tokens: float) -> float:
        """Count the operations for this many target tokens and their source tokens."""
        sides = [self.store.tokens(stream) + len(self.store) for stream in ("source", "target")]
        return self.shape.operations(target_tokens * sides[0] / sides[1], target_tokens)


def like_wmt(scale: Scale, shape: Shape) -> Work:
    """Random pieces in sentences whose lengths are like those of news, targets 0.85 to 1.25 times as long."""
    random = np.random.default_rng(0)
    source = random.lognormal(np.log(24), 0.55, scale.pairs).clip(SHORTEST, LONGEST).astype(np.int64)
    target = (source * random.uniform(0.85, 1.25, scale.pairs)).clip(SHORTEST, LONGEST).astype(np.int64)
    store = TokenStore({name: _drawn(n, shape, random) for name, n in (("source", source), ("target", target))})
    return Work(shape, store, scale.batch_tokens, LONGEST)


def all_of_length(scale: Scale, length: int) -> Work:
    """Random pieces in sentences of one length."""
    random = np.random.default_rng(0)
    lengths = np.full(64 * scale.batch_tokens // length, length, np.int64)
    store = TokenStore({name: _drawn(lengths, scale.shape, random) for name in ("source", "target")})
    return Work(scale.shape, store, scale.batch_tokens, length)


def to_be_learned(scale: Scale) -> Work:
    """Pieces by Zipf's law; a target is its source in other pieces, one for one."""
    random, shape = np.random.default_rng(0), scale.loss_shape
    lengths = random.lognormal(np.log(16), 0.5, scale.pairs).clip(SHORTEST, LEARNED_LONGEST).astype(np.int64)
    cumulated = np.cumsum(1 / np.arange(1, shape.vocabulary - FIRST_PIECE + 1))
    ranks = np.searchsorted(cumulated / cumulated[-1], random.random((lengths - 1).sum()))
    offsets = _offsets(lengths)
    in_other_pieces = random.permutation(shape.vocabulary - FIRST_PIECE)
    sides = {"source": ranks, "target": in_other_pieces[ranks]}
    store = TokenStore({name: Ragged((side + FIRST_PIECE).astype(np.uint32), offsets) for name, side in sides.items()})
    return Work(shape, store, scale.loss_batch_tokens, LEARNED_LONGEST)


def _drawn(lengths: Lengths, shape: Shape, random: np.random.Generator) -> Ragged:
    """Random pieces; each sentence leaves room for its marker."""
    offsets = _offsets(lengths)
    return Ragged(random.integers(FIRST_PIECE, shape.vocabulary, offsets[-1], np.uint32), offsets)


def _offsets(lengths: Lengths) -> Lengths:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths - 1)))
