"""Vocabularies of SentencePiece's pieces in a tokenizer.json, such as those of Pegasus and NLLB, in Heedful's order.

The rows of a folder's matrices are reordered, and none is lost: first the four markers, then the tags of target
languages, then all others in their old order. A decoder there may start with `<pad>` or `</s>`: `<s>` is then a copy of
that row, which is never predicted. Markers become pieces that no text can produce, as markers are never parsed out of
text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.files import read_bytes
from heedful.data.tokenize.tokenizer import BEGIN, SPECIALS, UNKNOWN, Tokenizer, tag_of
from heedful.interop.transformers.model_folder import ModelFolder
from heedful.interop.transformers.tokenizers.vocabulary_files import UNNAMED, load_library, refuse_other_size

NEVER: Final = -100.0  # bias of copies: a factor of e^-100 makes them impossible
_FILE: Final = "tokenizer.json"
_DIGITS: Final = 9  # of scores: more than float32 has, and few enough for the library to read what it wrote


@dataclass(frozen=True, eq=False)
class PieceVocabulary:
    """A tokenizer, and the row of a folder's matrices that belongs to each of its ids."""

    tokenizer: Tokenizer
    kind: str  # of [tokenizer]
    rows: tuple[int, ...]
    copied: bool  # whether `<s>` is a copy of another row

    def matrix(self, theirs: Tensor) -> Tensor:
        """Return a matrix of theirs with rows in our order."""
        return theirs[torch.tensor(self.rows)]

    def bias(self, theirs: Tensor) -> Tensor:
        """Return the bias of the output layer in our order, which makes a copy impossible."""
        bias = theirs[torch.tensor(self.rows)]
        if self.copied:
            bias[BEGIN] = NEVER
        return bias


class PieceFile:
    """A tokenizer.json of SentencePiece's pieces, checked."""

    def __init__(self, folder: ModelFolder) -> None:
        self.path, self._folder = folder.require(_FILE), folder
        self._theirs = load_library(read_bytes(self.path), self.path)
        self._described: dict[str, Any] = json.loads(self._theirs.to_str())
        _refuse_other_parts(self._described, self.path)
        self.pieces: Mapping[int, str] = {row: piece for piece, row in self._theirs.get_vocab().items()}
        refuse_other_size(self.path, max(self.pieces) + 1, folder)

    def row(self, piece: str) -> int | None:
        """Return the row of a piece; None if there is none."""
        found: int | None = self._theirs.token_to_id(piece)
        return found

    def around(self) -> tuple[list[int], list[int]]:
        """Return the markers that the folder's tokenizer puts before a text, and after it."""
        alone, marked = (self._theirs.encode("a", add_special_tokens=added).ids for added in (False, True))
        for start in range(len(marked) - len(alone) + 1):
            if alone and marked[start : start + len(alone)] == alone:
                return marked[:start], marked[start + len(alone) :]
        raise UserError(f"{self.path}: `post_processor` changes the text itself, which Heedful does not support.")

    def ordered(self, pad: int, start: int, end: int, tags: Mapping[str, int]) -> PieceVocabulary:
        """Return the vocabulary in our order; the numbers are rows, and `tags` are those of languages."""
        size = self._folder.config.number("vocab_size")
        unknown = self._unknown()
        named = [pad, end, unknown, *tags.values(), *([] if start in (pad, end) else [start])]
        others = [row for row in range(size) if row not in set(named)]
        names = [*SPECIALS, *map(tag_of, tags), *(self._name(row) for row in others)]
        return PieceVocabulary(
            tokenizer=self._tokenizer(names, [*SPECIALS, *map(tag_of, tags)]),
            kind=_MODELS[self._described["model"]["type"]],
            rows=(pad, start, end, unknown, *tags.values(), *others),
            copied=start in (pad, end),
        )

    def _unknown(self) -> int:
        model = self._described["model"]
        found = model["unk_id"] if model["type"] == "Unigram" else self.row(str(model["unk_token"]))
        if found is None:
            raise UserError(f"{self.path} has no piece for what is unknown, which a SentencePiece vocabulary has.")
        return int(found)

    def _name(self, row: int) -> str:
        """Return the name of a row's piece; one that we use for another row, or none, is named by its number."""
        piece = self.pieces.get(row, SPECIALS[UNKNOWN])
        return f"{UNNAMED}{row}]" if piece in SPECIALS else piece

    def _tokenizer(self, names: list[str], markers: list[str]) -> Tokenizer:
        """Build a tokenizer that splits text as theirs does, with ids in our order."""
        described = self._described | {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
        special = {token.content for token in self._theirs.get_added_tokens_decoder().values()}
        model = dict(described["model"])
        if model["type"] == "Unigram":
            scores = {piece: score for piece, score in model["vocab"] if piece not in special}
            least = min(scores.values(), default=-1.0)
            # Markers cost more than their characters do.
            model["vocab"] = [(name, round(scores.get(name, (len(name) + 1) * least), _DIGITS)) for name in names]
            model["unk_id"] = UNKNOWN
        else:
            model |= {"vocab": {name: number for number, name in enumerate(names)}, "unk_token": SPECIALS[UNKNOWN]}
        library = load_library(json.dumps(described | {"model": model}).encode(), self.path)
        library.add_special_tokens(markers)
        return Tokenizer(library)


_MODELS: Final = {"Unigram": "unigram", "BPE": "bpe"}  # of the library, and values of `tokenizer.kind`


def _refuse_other_parts(described: Mapping[str, Any], path: Path) -> None:
    """Refuse a tokenizer that does not split text into SentencePiece's pieces."""
    kind = described["model"]["type"]
    if kind not in _MODELS or described["model"].get("byte_fallback"):
        spelled = " that spells unknown characters by their bytes" if kind in _MODELS else ""
        raise UserError(f"{path}: `model` is {kind}{spelled}, but must be {' or '.join(_MODELS)}.")
    for part in ("pre_tokenizer", "decoder"):
        steps = described[part] or {"type": "missing"}
        last = steps.get("pretokenizers", [steps])[-1]["type"]
        if last != "Metaspace":
            raise UserError(f"{path}: `{part}` is {last}, but must be Metaspace, as SentencePiece writes spaces.")
    for token in described["added_tokens"]:
        if not token["special"]:
            raise UserError(
                f"{path} adds `{token['content']}` to the vocabulary, which is looked for in texts, but Heedful "
                "supports only pieces of SentencePiece, and markers."
            )
