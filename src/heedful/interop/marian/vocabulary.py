"""Marian's vocabulary in Heedful's order: special pieces first, then the tags of languages, then all else as it stood.

Marian's `</s>` and `<unk>` become Heedful's. Its `<pad>` becomes two: `<pad>`, and `<s>`, as it begins translations
with it. A language that is asked for by `>>fr<<` is asked for by the tag `<2fr>`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heedful.data.tokenize.tokenizer import BEGIN, PAD
from heedful.errors import UserError
from heedful.files import read_json
from heedful.interop.sentencepiece.model_file import SentencePieceModel

_PAD, _END, _UNKNOWN = _SPECIALS = ("<pad>", "</s>", "<unk>")
_LANGUAGE: Final = re.compile(r">>(\w[\w-]*)<<")

Ids = Mapping[str, int]


@dataclass(frozen=True)
class MarianVocabulary:
    """What each of our ids is, and which row of Marian's matrices it takes."""

    languages: tuple[str, ...]
    pieces: tuple[str, ...]  # behind special ones and tags
    rows: tuple[int, ...]  # of all ids
    never: tuple[int, ...]  # ids that Marian does not have to write

    @classmethod
    def of(cls, ids: Ids, models: Sequence[SentencePieceModel]) -> "MarianVocabulary":
        """Put the pieces of a vocabulary in order, behind them those that only its SentencePiece models have.

        To Marian the latter are all `<unk>`: they are read as that, and never written.
        """
        ordered = sorted(ids, key=lambda piece: ids[piece])
        codes = {piece: found[1] for piece in ordered if (found := _LANGUAGE.fullmatch(piece))}
        pieces = [piece for piece in ordered if piece not in _SPECIALS and piece not in codes]
        cut = dict.fromkeys(piece for model in models for piece in (*model.scores, *model.byte_pieces))
        spare = [piece for piece in cut if piece not in ids]
        kept = [ids[piece] for piece in (_PAD, _PAD, _END, _UNKNOWN, *codes, *pieces)]
        rows = (*kept, *[ids[_UNKNOWN]] * len(spare))
        return cls(tuple(codes.values()), (*pieces, *spare), rows, (PAD, BEGIN, *range(len(kept), len(rows))))


def read_ids(path: Path, size: int) -> Ids:
    """Read a vocab.json that must have an id for each of so many rows."""
    ids = read_json(path)
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise UserError(f"{path} must hold pieces with their numbers, but holds something else: copy it again.")
    if sorted(ids.values()) != list(range(size)):
        raise UserError(
            f"{path} has {len(ids):,} pieces, but must have one for each number from 0 to {size - 1:,}, as config.json "
            "says: copy both again."
        )
    for special in _SPECIALS:
        if special not in ids:
            raise UserError(f"{path} lacks the piece `{special}`: it is not a vocabulary of Marian.")
    return ids
