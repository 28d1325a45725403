"""Marian's vocabulary in Heedful's order: special pieces first, then language tags, then all others in the old order.

Marian's `</s>` and `<unk>` become Heedful's. Its `<pad>` becomes both `<pad>` and `<s>`, because Marian starts
translations with it. A target language written as `>>fr<<` becomes the tag `<2fr>`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heedful.base.errors import UserError
from heedful.base.files import read_json
from heedful.data.tokenize.tokenizer import BEGIN, PAD
from heedful.interop.sentencepiece.model_file import LONGEST_PIECE, SentencePieceModel

_PAD, _END, _UNKNOWN = _SPECIALS = ("<pad>", "</s>", "<unk>")
_LANGUAGE: Final = re.compile(r">>(\w[\w-]*)<<")

Ids = Mapping[str, int]


@dataclass(frozen=True)
class MarianVocabulary:
    """The piece of each of our ids, and its row in Marian's matrices."""

    languages: tuple[str, ...]
    pieces: tuple[str, ...]  # after the special ones and the tags
    rows: tuple[int, ...]  # one per id
    never: tuple[int, ...]  # ids that Marian cannot output

    @classmethod
    def of(cls, ids: Ids, models: Sequence[SentencePieceModel]) -> "MarianVocabulary":
        """Order the pieces of a vocabulary, followed by those that only its SentencePiece models have.

        To Marian the latter are all `<unk>`: they are read as `<unk>` and never written.
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
    """Read a vocab.json, which must have exactly the ids from 0 to `size` - 1."""
    ids = read_json(path)
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise UserError(f"{path} must map pieces to numbers, but contains something else: copy it again.")
    longest = max(map(len, ids), default=0)
    if longest > LONGEST_PIECE:
        raise UserError(
            f"{path} has a piece of {longest:,} characters, but the longest may have {LONGEST_PIECE:,}: copy it again."
        )
    if len(ids) != size or sorted(ids.values()) != list(range(size)):
        raise UserError(
            f"{path} has {len(ids):,} pieces, but config.json requires one for each number from 0 to {size - 1:,}: "
            "copy both again."
        )
    for special in _SPECIALS:
        if special not in ids:
            raise UserError(f"{path} lacks the piece `{special}`: it is not a Marian vocabulary.")
    return ids
