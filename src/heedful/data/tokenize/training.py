"""Training tokenizers: every kind a recipe can name, so that the same text always gives the same tokenizer.

The library assigns some ids and scores in the order of its hash tables, which changes from run to run
(huggingface/tokenizers issue 1794): only its byte-level training is reproducible as it is. The other kinds are counted
here and handed over in a form that leaves the library no choice.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, assert_never

from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from heedful.base.errors import UserError
from heedful.config.tokenizer import (
    AnySide,
    BpeSide,
    ByteBpeSide,
    CharactersSide,
    UnigramSide,
    WordPieceSide,
    WordsSide,
)
from heedful.data.tokenize.tokenizer import MASK, SPECIALS, Tokenizer, tag_of

VERSION = 1  # raise it when the same text would give another tokenizer

_WORD_END = "</w>"
_WORD_INSIDE = "##"
_WORD_START = "▁"
_UNKNOWN = SPECIALS[-1]
_REPEATS = 1000  # of a word in one text for the trainer
_SCORE_DIGITS = 6  # far more than segmentation needs, far fewer than what depends on the order of a sum
_UNLIKELY = -10_000.0  # a score below that of any sequence of pieces of a word
_SCORE_STEP = 0.0001  # between the characters that the unigram trainer adds at the end

Markers = Sequence[str]  # the special pieces, the tags and the kept words, in the order of their ids


def train_tokenizer(
    config: AnySide, texts: Iterable[str], languages: Iterable[str] = (), mask: bool = False
) -> Tokenizer:
    """Train a tokenizer; its size is smaller than asked where the texts do not support more.

    After the special tokens come a mask, where one is asked for, and a tag for each of the `languages`; after these the
    words that are kept whole.
    """
    kept = tuple(dict.fromkeys(config.keep))
    markers = (*SPECIALS, *((MASK,) if mask else ()), *map(tag_of, sorted(languages)), *kept)
    if config.size <= len(markers):
        raise UserError(
            f"`{config.table}.size` is {config.size}, but must be more than {len(markers)}, the number of special "
            "pieces."
        )
    trained = _trained(config, markers, _without(kept, texts) if kept else texts)
    return _keeping(trained, kept) if kept else trained


def _trained(config: AnySide, markers: Markers, texts: Iterable[str]) -> Tokenizer:
    match config:
        case ByteBpeSide():
            return _byte_bpe(config.size, markers, texts)
        case BpeSide():
            return _bpe(config.size, markers, _words(texts))
        case WordPieceSide():
            return _wordpiece(config.size, markers, _words(texts))
        case UnigramSide():
            return _unigram(config.size, markers, _words(texts))
        case WordsSide():
            return _word(config.size, markers, config.min_count, _words(texts))
        case CharactersSide():
            letters = _counted(texts, list)
            library = Library(models.BPE(_vocabulary(letters, config.size, markers), [], unk_token=_UNKNOWN))
            library.decoder = decoders.Fuse()
            library.add_special_tokens(list(markers))
            return Tokenizer(library)
        case _:
            assert_never(config)


# --- words that are kept whole ----------------------------------------------------------------------------------------
#
# They are trained as markers are, which gives them ids in a fixed order, and then made pieces of text: the library
# finds them in it before it splits anything, where no letter, digit or _ touches them.


def _without(kept: Sequence[str], texts: Iterable[str]) -> Iterator[str]:
    """Yield what is between kept words, which is encoded by itself: no other piece is learned from them."""
    longest_first = sorted(kept, key=len, reverse=True)
    found = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
    for text in texts:
        yield from found.split(text)


def _keeping(tokenizer: Tokenizer, kept: Sequence[str]) -> Tokenizer:
    """Return the tokenizer with these markers as words of text."""
    described = json.loads(tokenizer.to_json())
    for token in described["added_tokens"]:
        if token["content"] in kept:
            token.update(special=False, single_word=True, normalized=False)
    if described["model"]["type"] == "Unigram":  # they are worse than any other pieces of a longer word
        described["model"]["vocab"] = [
            [piece, _UNLIKELY if piece in kept else score] for piece, score in described["model"]["vocab"]
        ]
    if described["decoder"] is not None and described["decoder"]["type"] == "BPEDecoder":  # a space ends each word
        ends = [{"type": "Replace", "pattern": {"String": word}, "content": word + _WORD_END} for word in kept]
        described["decoder"] = {"type": "Sequence", "decoders": [*ends, described["decoder"]]}
    return Tokenizer(Library.from_str(json.dumps(described)))


# --- kinds ------------------------------------------------------------------------------------------------------------


def _byte_bpe(size: int, markers: Markers, texts: Iterable[str]) -> Tokenizer:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(markers),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer)
    return Tokenizer(library)


def _bpe(size: int, markers: Markers, words: Counter[str]) -> Tokenizer:
    library = Library(models.BPE(unk_token=_UNKNOWN, end_of_word_suffix=_WORD_END))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.decoder = decoders.BPEDecoder(suffix=_WORD_END)
    words = _with_room(words, lambda word: [*word, word[-1] + _WORD_END], size - len(markers))
    marked = sorted({word[-1] + _WORD_END for word in words})
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[*markers, *marked], end_of_word_suffix=_WORD_END, show_progress=False
    )
    return _trained_on_words(library, trainer, words, markers)


def _wordpiece(size: int, markers: Markers, words: Counter[str]) -> Tokenizer:
    library = Library(models.WordPiece(unk_token=_UNKNOWN))
    library.pre_tokenizer = splitter = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix=_WORD_INSIDE, cleanup=True)
    words = _split_further(words, splitter)
    words = _with_room(
        words, lambda word: [*word, *(_WORD_INSIDE + letter for letter in word[1:])], size - len(markers)
    )
    marked = sorted({_WORD_INSIDE + letter for word in words for letter in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=[*markers, *marked],
        continuing_subword_prefix=_WORD_INSIDE,
        show_progress=False,
    )
    return _trained_on_words(library, trainer, words, markers)


def _unigram(size: int, markers: Markers, words: Counter[str]) -> Tokenizer:
    library = Library(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace(replacement=_WORD_START, prepend_scheme="always")
    library.decoder = decoders.Metaspace(replacement=_WORD_START, prepend_scheme="always")
    words = _with_room(words, lambda word: [_WORD_START, *word], size - len(markers))
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=list(markers), unk_token=_UNKNOWN, show_progress=False
    )
    return _trained_on_words(library, trainer, words, markers, lambda model: _canonical_unigram(model, size, markers))


def _word(size: int, markers: Markers, min_count: int, words: Counter[str]) -> Tokenizer:
    frequent = Counter({word: count for word, count in words.items() if count >= min_count and word not in markers})
    library = Library(models.WordLevel(_vocabulary(frequent, size, markers), unk_token=_UNKNOWN))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens(list(markers))
    return Tokenizer(library)


def _words(texts: Iterable[str]) -> Counter[str]:
    return _counted(texts, str.split)


def _counted(texts: Iterable[str], split: Callable[[str], list[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(split(text))
    if not counts:
        raise UserError("There is no text to train a tokenizer on: the training files are empty or blank.")
    return counts


def _by_frequency(counts: Counter[str]) -> list[str]:
    """Return the most frequent first; ties in the order of the alphabet."""
    return sorted(counts, key=lambda symbol: (-counts[symbol], symbol))


def _vocabulary(counts: Counter[str], size: int, markers: Markers) -> dict[str, int]:
    symbols = [*markers, *_by_frequency(counts)[: size - len(markers)]]
    return {symbol: number for number, symbol in enumerate(symbols)}


def _split_further(words: Counter[str], splitter: Any) -> Counter[str]:
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for part, _ in splitter.pre_tokenize_str(word):
            parts[part] += count
    return parts


def _with_room(words: Counter[str], symbols: Callable[[str], Iterable[str]], room: int) -> Counter[str]:
    """Leave out words of the rarest characters where the vocabulary cannot hold all of them: they will be unknown."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for symbol in symbols(word):
            counts[symbol] += count
    if len(counts) <= room:
        return words
    kept = set(_by_frequency(counts)[:room])
    return Counter({word: count for word, count in words.items() if kept.issuperset(symbols(word))})


def _trained_on_words(
    library: Library,
    trainer: Any,
    words: Counter[str],
    markers: Markers,
    canonical: Callable[[Any], None] = lambda model: None,
) -> Tokenizer:
    """Train on counted words.

    Marked letters ("e</w>", "##e") came in as special tokens, which gives them ids in a fixed order before the library
    meets them in the order of its hash table; afterwards they are pieces like all others.
    """
    library.train_from_iterator(_repeated(words), trainer)
    trained = json.loads(library.to_str())
    trained["added_tokens"] = trained["added_tokens"][: len(markers)]
    canonical(trained["model"])
    return Tokenizer(Library.from_str(json.dumps(trained)))


def _repeated(words: Counter[str]) -> Iterator[str]:
    """Yield texts in which each word occurs as often as it was counted."""
    for word in sorted(words):
        whole, rest = divmod(words[word], _REPEATS)
        yield from [" ".join([word] * _REPEATS)] * whole
        if rest:
            yield " ".join([word] * rest)


def _canonical_unigram(model: dict[str, Any], size: int, markers: Markers) -> None:
    """Put the unigram trainer's pieces in an order, with scores, that do not depend on its hash tables.

    Letters that pruning removed come back with scores a small step apart, in arbitrary order: deal these scores out
    again in the order of the alphabet. The other scores differ between runs in their last bits only. Where these
    letters made the vocabulary too large, the least likely longer pieces make room.
    """
    specials, trained = model["vocab"][: len(markers)], model["vocab"][len(markers) :]
    lowest = min((score for _, score in trained), default=0.0)
    letters = {piece: score for piece, score in trained if len(piece) == 1}
    returned = {piece: score for piece, score in letters.items() if _is_step(score - lowest, len(letters))}
    dealt = dict(zip(sorted(returned), sorted(returned.values(), reverse=True), strict=True))
    scores = {piece: round(dealt.get(piece, score), _SCORE_DIGITS) for piece, score in trained}
    ranked = sorted(scores, key=lambda piece: (-scores[piece], piece))
    longer = [piece for piece in ranked if len(piece) > 1]
    kept = {*letters, *longer[: max(0, size - len(markers) - len(letters))]}
    model["vocab"] = [*specials, *([piece, scores[piece]] for piece in ranked if piece in kept)]


def _is_step(above_lowest: float, most: int) -> bool:
    steps = above_lowest / _SCORE_STEP
    return steps < most and abs(steps - round(steps)) < 1e-6
