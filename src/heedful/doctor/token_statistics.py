"""Statistics of the tokenized corpora: lengths, unknown pieces, and pieces that are rarely or never used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnySide, ByteBpeSide, side_of
from heedful.data.corpora.pairs import Pair
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import UNKNOWN, Tokenizer
from heedful.doctor.chosen_values import is_set
from heedful.doctor.findings import Finding

Counts = NDArray[np.int64]

RARE: Final = 10  # a piece that occurs fewer times is hardly trained
_BYTES: Final = 256  # a byte-level vocabulary starts with all single bytes, after its markers
_BINS: Final = 12
_TENS: Final = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
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
_REASONS: Final = {
    "empty": "an empty side",
    "too long": "`data.max_length`",
    "ratio": "`data.max_ratio`",
    "line": "`data.max_line`",
}


@dataclass(frozen=True)
class SideTokens:
    """One side of the training and validation corpora."""

    side: str  # the name of its vocabulary
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

    side: str  # its name; "both" if two sides share it
    key: str  # of its size in a recipe
    asked: int  # the size in the recipe, or the default
    given: bool  # whether the recipe sets it; the default is only a maximum
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
    sides: Mapping[str, tuple[int, ...]]  # counts for each side


@dataclass(frozen=True)
class DroppedPairs:
    """The number of pairs that a training corpus keeps, and drops for each reason."""

    corpus: str
    kept: int
    empty: int
    too_long: int
    ratio: int
    line: int  # with more characters than `data.max_line`


@dataclass(frozen=True)
class TokenStatistics:
    """The token statistics of a recipe's data."""

    sides: tuple[SideTokens, ...]
    vocabularies: tuple[VocabularyUse, ...]
    lengths: Histogram
    dropped: tuple[DroppedPairs, ...]
    kept: bool  # the vocabularies come from the model in `train.start_from`, not from the recipe


def count_tokens(recipe: Recipe, prepared: Prepared, names: Sequence[str], sample: Sequence[Pair]) -> TokenStatistics:
    """Count the tokens; `names` are the names of the training corpora, and `sample` contains rows from them."""
    config, sides = recipe.tokenizer, recipe.rules.vocabularies
    tokenizers = {side: prepared.vocabularies[side] for side in sides}
    uses = {side: _uses(prepared.train, side, tokenizer.size) for side, tokenizer in tokenizers.items()}
    of_sides = tuple(
        _side(side, recipe, prepared, tokenizers[side], uses[side], [row[number] for row in sample])
        for number, side in enumerate(sides)
    )
    if len({tokenizer.fingerprint for tokenizer in tokenizers.values()}) == 1:
        shared = "both" if len(sides) > 1 else sides[0]
        vocabularies: tuple[VocabularyUse, ...] = (
            _vocabulary(shared, recipe, config, tokenizers[sides[0]], sum(uses.values(), np.zeros(1, np.int64))),
        )
    else:
        vocabularies = tuple(
            _vocabulary(side, recipe, _config(recipe, side), tokenizers[side], uses[side]) for side in sides
        )
    dropped = tuple(
        DroppedPairs(name, len(store), *(store.dropped.get(reason, 0) for reason in _REASONS))
        for name, store in zip(names, prepared.train, strict=True)
    )
    lengths = _histogram({side: _lengths(prepared.train, side) for side in sides})
    return TokenStatistics(of_sides, vocabularies, lengths, dropped, bool(recipe.train.start_from))


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
                    keys=("train.start_from",) if pieces.kept else ("tokenizer",),
                )
    if not pieces.kept:
        for vocabulary in pieces.vocabularies:
            yield from _vocabulary_findings(vocabulary)
    for dropped in pieces.dropped:
        counts = {"empty": dropped.empty, "too long": dropped.too_long, "ratio": dropped.ratio, "line": dropped.line}
        lost = sum(counts.values())
        total = dropped.kept + lost
        if lost >= _DROPPED_WARNING * total:
            reasons = ", ".join(f"{count:,} for {_REASONS[reason]}" for reason, count in counts.items() if count)
            yield Finding(
                "problem" if lost >= _DROPPED_PROBLEM * total else "warning",
                "dropped",
                "train",
                f"dropped: {lost:,} of {total:,} ({lost / total:.1%}), {reasons}",
                "Raise the limit, or split long lines into sentences.",
                corpus=dropped.corpus,
                count=lost,
                keys=() if dropped.empty else tuple(_REASONS[why].strip("`") for why in counts if counts[why]),
            )
        elif dropped.line:
            yield Finding(
                "note",
                "dropped",
                "train",
                f"dropped: {dropped.line:,} of {total:,} for `data.max_line`",
                "Such a line is rarely text: look at it, split it, or raise the limit.",
                corpus=dropped.corpus,
                count=dropped.line,
            )


def _vocabulary_findings(vocabulary: VocabularyUse) -> Iterator[Finding]:
    of = f" of the {vocabulary.side} side" if vocabulary.side in ("source", "target") else ""
    if vocabulary.given and vocabulary.size < vocabulary.asked:
        yield Finding(
            "note",
            "small_vocabulary",
            "tokens",
            f"the vocabulary{of} has {vocabulary.size:,} pieces, not the {vocabulary.asked:,} asked for",
            f"The text does not yield more pieces: do nothing, or lower `{vocabulary.key}`.",
        )
    if vocabulary.hardly and vocabulary.hardly >= _RARE_WARNING * vocabulary.learned:
        yield Finding(
            "warning",
            "rare_pieces",
            "tokens",
            f"{vocabulary.hardly:,} of {vocabulary.learned:,} learned pieces of the vocabulary{of} are used fewer than "
            f"{RARE} times",
            f"Lower `{vocabulary.key}`: rare pieces are hardly learned.",
            keys=(vocabulary.key,),
        )


def _uses(stores: Sequence[TokenStore], side: str, size: int) -> Counts:
    """Count each piece on a side; stores are memory-mapped, so only a slice is in memory at a time."""
    uses = np.zeros(size, np.int64)
    for store in stores:
        for stream in _streams(store, side):
            values = store.streams[stream].values
            for start in range(0, len(values), _STEP):
                uses += np.bincount(values[start : start + _STEP], minlength=size)
    return uses


def _streams(store: TokenStore, side: str) -> list[str]:
    """Return the streams whose tokens are of a side's vocabulary: second texts share that of the first.

    The words of questions about images are called by another name.
    """
    if side not in store.streams:
        return ["words"]
    return [side, "second"] if side == "text" and "second" in store.streams else [side]


def _lengths(stores: Sequence[TokenStore], side: str) -> Counts:
    """Return the number of tokens of each row on a side."""
    rows = [np.sum([store.lengths(stream) for stream in _streams(store, side)], axis=0) for store in stores]
    return np.concatenate(rows).astype(np.int64)


def _config(recipe: Recipe, side: str) -> AnySide:
    return side_of(recipe.tokenizer, "target" if side == "target" else "source")


def _side(
    side: str,
    recipe: Recipe,
    prepared: Prepared,
    tokenizer: Tokenizer,
    uses: Counts,
    sample: Sequence[str],
) -> SideTokens:
    lengths = _lengths(prepared.train, side)
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
        float(uses[_lone_bytes(tokenizer)].sum()) / pieces if isinstance(_config(recipe, side), ByteBpeSide) else None,
    )


def _lone_bytes(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of single bytes that are not a character: they spell what has no piece."""
    ids = range(tokenizer.markers, tokenizer.size)
    texts = tokenizer.decode_batch([[i] for i in ids])
    pieces = zip(ids, tokenizer.pieces(ids), texts, strict=True)
    return [i for i, piece, text in pieces if len(piece) == len("<0xFF>") and text == "\ufffd"]  # two bytes are longer


def _vocabulary(side: str, recipe: Recipe, config: AnySide, tokenizer: Tokenizer, uses: Counts) -> VocabularyUse:
    ordinary = uses[tokenizer.markers :]
    learned = ordinary[_BYTES:] if isinstance(config, ByteBpeSide) else ordinary
    return VocabularyUse(
        side,
        f"{config.table}.size",
        config.size,
        is_set(recipe, f"{config.table}.size"),
        tokenizer.size,
        tokenizer.markers,
        never=int((ordinary == 0).sum()),
        rare=int(((ordinary > 0) & (ordinary < RARE)).sum()),
        learned=len(learned),
        hardly=int((learned < RARE).sum()),
    )


def _histogram(lengths: Mapping[str, Counts]) -> Histogram:
    """Build bins of equal, round width that cover nearly all rows; the longest rows share the last bin."""
    if not lengths:
        return Histogram((), {})
    reach = float(np.percentile(np.concatenate([*lengths.values()]), _TAIL))
    width = next(step * ten for ten in _TENS for step in (1, 2, 5) if step * ten * _BINS > reach)
    edges = np.arange(1, reach + width + 1, width, dtype=np.int64)
    bins = {
        side: np.bincount(np.searchsorted(edges, of_side, "right") - 1, minlength=len(edges))
        for side, of_side in lengths.items()
    }
    return Histogram(tuple(edges.tolist()), {side: tuple(counts.tolist()) for side, counts in bins.items()})
