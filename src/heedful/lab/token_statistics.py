"""Statistics of the tokenized corpora: lengths, unknown pieces, and pieces that are rarely or never used."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnySide, ByteBpeSide, side_of
from heedful.data.corpora.pairs import Pair
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.lab.findings import Finding

Counts = NDArray[np.int64]

RARE: Final = 10  # a piece that occurs fewer times is hardly trained
_BYTES: Final = 256  # a byte-level vocabulary starts with all single bytes, after its markers
_BINS: Final = 12
_TAIL: Final = 99.5  # percentile of the lengths that the regular bins cover
_STEP: Final = 1 << 24  # pieces counted at once
_UNKNOWN_WARNING: Final = 0.01
_UNKNOWN_PROBLEM: Final = 0.2
_DROPPED_WARNING: Final = 0.05
_DROPPED_PROBLEM: Final = 0.5
_RARE_WARNING: Final = 0.5
_UNKNOWN_ADVICE: Final = 'Raise `tokenizer.size`, or choose `kind = "byte_bpe"`, which can encode any text.'
_KEPT_ADVICE: Final = (
    "The vocabulary comes from `train.start_from`: start from a model for this kind of text, or from scratch."
)
_REASONS: Final = {"empty": "an empty side", "too long": "`data.max_length`", "ratio": "`data.max_ratio`"}


@dataclass(frozen=True)
class SideTokens:
    """One side of the training and validation corpora."""

    side: Literal["source", "target"]
    pieces: int  # in the training corpora, tags included
    mean_length: float
    longest: int
    pieces_per_word: float  # in a sample; words are separated by spaces
    unknown: float  # fraction of `<unk>` in train
    unknown_valid: float | None
    byte_pieces: float | None  # fraction of single bytes that are not a character; byte-level vocabularies only


@dataclass(frozen=True)
class VocabularyUse:
    """How often the training corpora use the pieces of one vocabulary."""

    side: Literal["both", "source", "target"]
    asked: int  # the size in the recipe
    size: int
    markers: int  # special pieces and tags, which never occur inside a text
    never: int
    rare: int  # used fewer than `RARE` times, but at least once
    learned: int  # all pieces except markers and the single bytes of a byte-level vocabulary
    hardly: int  # learned pieces that are never used or rare


@dataclass(frozen=True)
class Histogram:
    """Lengths of the training sentences in pieces: bin i counts lengths from edges[i] to edges[i + 1] - 1."""

    edges: tuple[int, ...]  # the last bin has no upper edge
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class DroppedPairs:
    """The number of pairs that a training corpus keeps, and drops for each reason."""

    corpus: str
    kept: int
    empty: int
    too_long: int
    ratio: int


@dataclass(frozen=True)
class TokenStatistics:
    """The token statistics of a recipe's data."""

    sides: tuple[SideTokens, ...]
    vocabularies: tuple[VocabularyUse, ...]
    lengths: Histogram
    dropped: tuple[DroppedPairs, ...]
    kept: bool  # the vocabularies come from the model in `train.start_from`, not from the recipe


def count_tokens(recipe: Recipe, prepared: Prepared, names: Sequence[str], sample: Sequence[Pair]) -> TokenStatistics:
    """Count the tokens; `names` are the names of the training corpora, and `sample` contains pairs from them."""
    source, target = prepared.vocabularies["source"], prepared.vocabularies["target"]
    uses = [_uses(prepared.train, "source", source.size), _uses(prepared.train, "target", target.size)]
    texts = [pair[0] for pair in sample], [pair[1] for pair in sample]
    sides = (
        _side("source", recipe, prepared, source, uses[0], texts[0]),
        _side("target", recipe, prepared, target, uses[1], texts[1]),
    )
    config = recipe.tokenizer
    vocabularies = (
        (_vocabulary("both", config, source, uses[0] + uses[1]),)
        if source.fingerprint == target.fingerprint
        else (
            _vocabulary("source", side_of(config, "source"), source, uses[0]),
            _vocabulary("target", side_of(config, "target"), target, uses[1]),
        )
    )
    dropped = tuple(_dropped(name, store) for name, store in zip(names, prepared.train, strict=True))
    return TokenStatistics(sides, vocabularies, _histogram(prepared.train), dropped, bool(recipe.train.start_from))


def find_token_problems(pieces: TokenStatistics) -> Iterator[Finding]:
    """Yield a finding for each statistic that needs a decision."""
    for side in pieces.sides:
        for part, share in (("train", side.unknown), ("valid", side.unknown_valid)):
            if share is not None and share >= _UNKNOWN_WARNING:
                yield Finding(
                    "problem" if share >= _UNKNOWN_PROBLEM else "warning",
                    "unknown",
                    "tokens",
                    f"{share:.1%} of the {side.side} pieces of {part} are unknown",
                    _KEPT_ADVICE if pieces.kept else _UNKNOWN_ADVICE,
                )
    if not pieces.kept:
        for vocabulary in pieces.vocabularies:
            yield from _vocabulary_findings(vocabulary)
    for dropped in pieces.dropped:
        yield from _dropped_findings(dropped)


def _vocabulary_findings(vocabulary: VocabularyUse) -> Iterator[Finding]:
    of = "" if vocabulary.side == "both" else f" of the {vocabulary.side} side"
    if vocabulary.size < vocabulary.asked:
        yield Finding(
            "note",
            "small_vocabulary",
            "tokens",
            f"the vocabulary{of} has {vocabulary.size:,} pieces, not the {vocabulary.asked:,} asked for",
            "The text does not yield more pieces: do nothing, or lower `tokenizer.size`.",
        )
    if vocabulary.hardly and vocabulary.hardly >= _RARE_WARNING * vocabulary.learned:
        yield Finding(
            "warning",
            "rare_pieces",
            "tokens",
            f"{vocabulary.hardly:,} of {vocabulary.learned:,} learned pieces of the vocabulary{of} are used fewer than "
            f"{RARE} times",
            "Lower `tokenizer.size`: rare pieces are hardly learned.",
        )


def _dropped_findings(dropped: DroppedPairs) -> Iterator[Finding]:
    counts = {"empty": dropped.empty, "too long": dropped.too_long, "ratio": dropped.ratio}
    lost = sum(counts.values())
    total = dropped.kept + lost
    if lost >= _DROPPED_WARNING * total:
        reasons = ", ".join(f"{count:,} for {_REASONS[reason]}" for reason, count in counts.items() if count)
        yield Finding(
            "problem" if lost >= _DROPPED_PROBLEM * total else "warning",
            "dropped",
            "train",
            f"dropped pairs: {lost:,} of {total:,} ({lost / total:.1%}), {reasons}",
            "Raise the limit, or split long lines into sentences.",
            corpus=dropped.corpus,
            count=lost,
        )


def _uses(stores: Sequence[TokenStore], side: str, size: int) -> Counts:
    """Count each piece on a side; stores are memory-mapped, so only a slice is in memory at a time."""
    uses = np.zeros(size, np.int64)
    for store in stores:
        values = store.streams[side].values
        for start in range(0, len(values), _STEP):
            uses += np.bincount(values[start : start + _STEP], minlength=size)
    return uses


def _side(
    side: Literal["source", "target"],
    recipe: Recipe,
    prepared: Prepared,
    tokenizer: Tokenizer,
    uses: Counts,
    sample: Sequence[str],
) -> SideTokens:
    lengths = np.concatenate([store.lengths(side) for store in prepared.train])
    pieces = int(uses.sum())
    valid = _uses(prepared.valid, side, tokenizer.size)
    words = sum(len(text.split()) for text in sample)
    return SideTokens(
        side,
        pieces,
        float(lengths.mean()),
        int(lengths.max()),
        sum(map(len, tokenizer.encode_batch(sample))) / max(1, words),
        float(uses[UNKNOWN]) / pieces,
        float(valid[UNKNOWN] / valid.sum()) if prepared.valid else None,
        float(uses[_lone_bytes(tokenizer)].sum()) / pieces
        if isinstance(side_of(recipe.tokenizer, side), ByteBpeSide)
        else None,
    )


def _lone_bytes(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of single bytes that are not a character: they spell what has no piece."""
    ids = range(tokenizer.markers, tokenizer.size)
    texts = tokenizer.decode_batch([[i] for i in ids])
    return [i for i, piece, text in zip(ids, tokenizer.pieces(ids), texts, strict=True) if _is_lone_byte(piece, text)]


def _is_lone_byte(piece: str, text: str) -> bool:
    return len(piece) == len("<0xFF>") and text == "\ufffd"  # two bytes are shown as twelve characters


def _vocabulary(
    side: Literal["both", "source", "target"], config: AnySide, tokenizer: Tokenizer, uses: Counts
) -> VocabularyUse:
    ordinary = uses[tokenizer.markers :]
    learned = ordinary[_BYTES:] if isinstance(config, ByteBpeSide) else ordinary
    return VocabularyUse(
        side,
        config.size,
        tokenizer.size,
        tokenizer.markers,
        never=int((ordinary == 0).sum()),
        rare=int(((ordinary > 0) & (ordinary < RARE)).sum()),
        learned=len(learned),
        hardly=int((learned < RARE).sum()),
    )


def _dropped(name: str, store: TokenStore) -> DroppedPairs:
    of = store.dropped
    return DroppedPairs(name, len(store), of.get("empty", 0), of.get("too long", 0), of.get("ratio", 0))


def _histogram(stores: Sequence[TokenStore]) -> Histogram:
    """Build bins of equal, round width that cover nearly all sentences; the longest sentences share the last bin."""
    source, target = (np.concatenate([store.lengths(side) for store in stores]) for side in ("source", "target"))
    reach = float(np.percentile(np.concatenate((source, target)), _TAIL))
    width = next(step * ten for ten in (1, 10, 100, 1000, 10_000) for step in (1, 2, 5) if step * ten * _BINS > reach)
    edges = np.arange(1, reach + width + 1, width, dtype=np.int64)
    bins = [np.bincount(np.searchsorted(edges, side, "right") - 1, minlength=len(edges)) for side in (source, target)]
    return Histogram(tuple(edges.tolist()), tuple(bins[0].tolist()), tuple(bins[1].tolist()))
