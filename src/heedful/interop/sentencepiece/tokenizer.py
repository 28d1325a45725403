"""From a SentencePiece model and a vocabulary to a tokenizer that needs neither the program nor its file.

The model cuts text by its own pieces; the vocabulary says which ids there are. Both need not have the same pieces: two
models share a vocabulary in Marian. A piece that only the model has is for the caller to put into the vocabulary. A
piece that only the vocabulary has must not be found in text, but has its id, so that it can be written. One exception
is the program's: what a model does not know it hands out as it stands, a whole run of unknown characters at a time, and
where the vocabulary has just this run, it is read. So such pieces stand between marks, and so does every unknown run.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from heedful.data.tokenize.tokenizer import SPECIALS, UNKNOWN, Tokenizer, tag_of
from heedful.interop.sentencepiece.model_file import SentencePieceModel

SPACE: Final = "▁"
_MARK: Final = "\ufdd0"  # no character, by Unicode's promise: no text has it
_COMPOSED: Final = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")  # rules whose results are composed characters
_DIGITS: Final = 9  # of scores: more than their float32 has, and few enough that the library reads what it wrote
_ENDS: Final = r"\A +| +\z"  # spaces there


def build_tokenizer(model: SentencePieceModel, pieces: Sequence[str], languages: Sequence[str] = ()) -> Tokenizer:
    """A tokenizer of these pieces, which stand behind the special ones and the tags of these languages."""
    markers = [*SPECIALS, *map(tag_of, languages)]
    named = _named(model, pieces, markers)
    library = Library(_MODELS[model.algorithm](model, [*markers, *named]))
    marking = list(_runs_marked(model, [*markers, *named]))
    library.normalizer = normalizers.Sequence([*_normalised(model), *marking])
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


def _named(model: SentencePieceModel, pieces: Sequence[str], markers: Sequence[str]) -> list[str]:
    """The pieces as the library gets to know them: those that are not to be found in text stand between marks."""
    cut = {*model.scores, *model.byte_pieces}.difference(markers)
    return [piece if piece in cut else f"{_MARK}{piece}{_MARK}" for piece in pieces]


# --- cutting ----------------------------------------------------------------------------------------------------------


def _unigram(model: SentencePieceModel, names: Sequence[str]) -> Any:
    """The most probable pieces      Kudo 2018, 3.2

    A marker and the name of a byte are no pieces of text: they cost more than their characters do.
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
    """Pieces merged two by two, the best-scored result first      Sennrich et al. 2016

    What stands alone and is a piece need not be merged, and a run between marks cannot.
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
    """Every way to make a piece of two; the program has no list, and takes whichever neighbours make a piece."""
    for piece in sorted(model.scores, key=lambda piece: -model.scores[piece]):
        for place in range(1, len(piece)):
            if piece[:place] in model.scores and piece[place:] in model.scores:
                yield piece[:place], piece[place:]


_MODELS: Final = {"unigram": _unigram, "bpe": _bpe}


# --- text before it is cut --------------------------------------------------------------------------------------------


def _normalised(model: SentencePieceModel) -> Iterator[Any]:
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
    """Whether text is composed around the rules, which can change nothing but what the library leaves undone.

    It looks rules up for one character with its marks at a time: of a letter with two marks it finds the first alone,
    and of Korean in parts nothing. But composing also sorts marks, which the program does not, and of scripts whose
    marks have classes of their own (10 to 199: Hebrew, Arabic, Thai) typed text is often not sorted.
    """
    sorted_marks = any(9 <= unicodedata.combining(letter) < 200 for letter in model.letters)
    return model.normalisation.name in _COMPOSED and not sorted_marks


def _runs_marked(model: SentencePieceModel, names: Sequence[str]) -> Iterator[Any]:
    """Marks around each run of unknown characters, where a name has such a run: a piece to read, or a marker not to.

    It must come last: the library loses count of characters that something else changes behind it. Where bytes spell
    what is unknown, there are no such runs.
    """
    inside, outside = f"[{_letters(model)}]", f"[^{_letters(model)}]"
    run = re.compile(rf"{_MARK}{outside}+{_MARK}|(?!{_MARK}).*{outside}.*")
    if not model.byte_pieces and any(map(run.fullmatch, names)):
        begins = rf"(?<={inside})(?={outside})|\A(?={outside})"
        ends = rf"(?<={outside})(?={inside})|(?<={outside})\z"
        yield normalizers.Replace(Regex(f"{begins}|{ends}"), _MARK)


def _letters(model: SentencePieceModel) -> str:
    """The known characters, for a class of a pattern."""
    return "".join(map(re.escape, sorted(model.letters)))
