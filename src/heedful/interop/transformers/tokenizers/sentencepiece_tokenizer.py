"""Builds a tokenizer from a SentencePiece model and a vocabulary, without the sentencepiece package.

The model splits text into its own pieces; the vocabulary gives their ids. The two need not have the same pieces: in
Marian, two models share a vocabulary. The caller adds pieces that only the model has to the vocabulary. A piece that
only the vocabulary has must not be found in text, but keeps its id, so that it can be written. There is one exception:
sentencepiece returns a run of unknown characters unchanged, and if the vocabulary has exactly this run, it is read.
Therefore such pieces are enclosed in marks, and so is every unknown run.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from heedful.data.tokenize.tokenizer import SPECIALS, UNKNOWN, Tokenizer, tag_of
from heedful.interop.transformers.tokenizers.sentencepiece_file import SentencePieceModel

SPACE: Final = "▁"
_MARK: Final = "\ufdd0"  # a Unicode noncharacter: no text contains it
_COMPOSED: Final = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")  # rules whose results are composed characters
_DIGITS: Final = 9  # of scores: more than float32 has, and few enough for the library to read what it wrote
_ENDS: Final = r"\A +| +\z"  # spaces at both ends


def build_tokenizer(model: SentencePieceModel, pieces: Sequence[str], languages: Sequence[str] = ()) -> Tokenizer:
    """Build a tokenizer of these pieces, which follow the special ones and the tags of these languages."""
    markers = [*SPECIALS, *map(tag_of, languages)]
    # The names of the pieces in the library: those that must not match text are enclosed in marks.
    cut = {*model.scores, *model.byte_pieces}.difference(markers)
    named = [piece if piece in cut else f"{_MARK}{piece}{_MARK}" for piece in pieces]
    library = Library(_MODELS[model.algorithm](model, [*markers, *named]))
    marking = list(_mark_unknown_runs(model, [*markers, *named]))
    library.normalizer = normalizers.Sequence([*_normalisers(model), *marking])
    if marking:
        library.pre_tokenizer = pre_tokenizers.Split(Regex(f"{_MARK}[^{_MARK}]*{_MARK}"), "isolated")
    library.decoder = decoders.Sequence(
        [
            decoders.Replace(_MARK, ""),
            decoders.Replace(SPACE, " "),
            *([decoders.ByteFallback()] if model.byte_pieces else []),
            decoders.Fuse(),
            decoders.Replace(Regex(_ENDS), ""),
        ]
    )
    library.add_special_tokens(markers)
    return Tokenizer(library)


# --- splitting --------------------------------------------------------------------------------------------------------


def _unigram(model: SentencePieceModel, names: Sequence[str]) -> Any:
    """Split text into the most probable pieces      Kudo 2018, 3.2

    Markers and byte names must not match text: they cost more than their characters do.
    """
    least = min(model.scores.values())

    def score(name: str) -> float:
        if name in model.scores:
            return model.scores[name]
        return 0.0 if name.startswith(_MARK) else (len(name) + 1) * least

    return models.Unigram(
        [(name, round(score(name), _DIGITS)) for name in names], unk_id=UNKNOWN, byte_fallback=bool(model.byte_pieces)
    )


def _bpe(model: SentencePieceModel, names: Sequence[str]) -> Any:
    """Merge neighbouring pieces, the best-scored result first      Sennrich et al. 2016

    A whole word that is a piece need not be merged, and a run between marks cannot be.
    """
    return models.BPE(
        {name: number for number, name in enumerate(names)},
        list(_merges(model)),
        unk_token=SPECIALS[UNKNOWN],
        fuse_unk=True,
        ignore_merges=True,
        byte_fallback=bool(model.byte_pieces),
    )


def _merges(model: SentencePieceModel) -> Iterator[tuple[str, str]]:
    """Yield every split of a piece into two; sentencepiece has no list of merges and joins any that form a piece."""
    for piece in sorted(model.scores, key=lambda piece: -model.scores[piece]):
        for middle in range(1, len(piece)):
            if piece[:middle] in model.scores and piece[middle:] in model.scores:
                yield piece[:middle], piece[middle:]


_MODELS: Final = {"unigram": _unigram, "bpe": _bpe}


# --- normalisation ----------------------------------------------------------------------------------------------------


def _normalisers(model: SentencePieceModel) -> Iterator[Any]:
    rules = model.normalisation
    if rules.rules:
        composed = [normalizers.NFC()] if _composes(model) else []
        yield from (*composed, normalizers.Precompiled(rules.rules), *composed)
    if rules.extra_spaces_removed:
        yield normalizers.Replace(Regex(_ENDS), "")
        yield normalizers.Replace(Regex(" {2,}"), " ")
    if rules.dummy_prefix:
        yield normalizers.Prepend(SPACE)
    yield normalizers.Replace(" ", SPACE)


def _composes(model: SentencePieceModel) -> bool:
    """Whether to compose text (NFC) before and after the rules, which fixes only what the library misses.

    The library looks up one character with its marks at a time: it handles only the first of two marks on a letter,
    and no decomposed Korean. But composing also sorts marks, which sentencepiece does not, and text in scripts whose
    marks have their own classes (10 to 199: Hebrew, Arabic, Thai) is often typed unsorted.
    """
    sorted_marks = any(9 <= unicodedata.combining(letter) < 200 for letter in model.letters)
    return model.normalisation.name in _COMPOSED and not sorted_marks


def _mark_unknown_runs(model: SentencePieceModel, names: Sequence[str]) -> Iterator[Any]:
    """Put marks around each run of unknown characters, if the name of a piece or marker contains such a run.

    This must be the last normaliser: the library loses track of characters if another one follows. With byte
    pieces there are no unknown characters.
    """
    inside, outside = f"[{_letters(model)}]", f"[^{_letters(model)}]"
    run = re.compile(rf"{_MARK}{outside}+{_MARK}|(?!{_MARK}).*{outside}.*")
    if not model.byte_pieces and any(map(run.fullmatch, names)):
        begins = rf"(?<={inside})(?={outside})|\A(?={outside})"
        ends = rf"(?<={outside})(?={inside})|(?<={outside})\z"
        yield normalizers.Replace(Regex(f"{begins}|{ends}"), _MARK)


def _letters(model: SentencePieceModel) -> str:
    """Return the known characters as the inside of a regular-expression class."""
    return "".join(map(re.escape, sorted(model.letters)))
