"""A trained tokenizer: text to token ids and back. How it is trained is `tokenizer_training.py`.

Markers are never parsed out of text: a text that holds "</s>" is a text about markup, not the end of a sentence.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property

import tokenizers

from heedful.errors import UserError

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")  # in the order of their ids


class Tokenizer:
    """Text to ids and back; ids 0 to 3 are `<pad>`, `<s>`, `</s>` and `<unk>` in every vocabulary."""

    pad, begin, end, unknown = PAD, BEGIN, END, UNKNOWN

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.encode_special_tokens = True  # not kept in the JSON
        self._inner = inner

    @classmethod
    def from_json(cls, data: bytes, where: str) -> "Tokenizer":
        """Load what `to_json` gave; `where` names the file in messages."""
        try:
            inner = tokenizers.Tokenizer.from_str(data.decode())
        except Exception as error:  # the library raises bare Exception
            raise UserError(f"{where} is not a tokenizer ({_one_line(error)}): restore it from a copy.") from error
        for expected, special in enumerate(SPECIALS):
            if inner.token_to_id(special) != expected:
                raise UserError(
                    f"{where}: {special} has id {inner.token_to_id(special)}, but must have id {expected}: "
                    "it is not a tokenizer of Heedful."
                )
        return cls(inner)

    def to_json(self) -> bytes:
        """Serialise; the same tokenizer always gives the same bytes."""
        return self._inner.to_str(pretty=False).encode()

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of the JSON."""
        return hashlib.sha256(self.to_json()).hexdigest()

    @property
    def size(self) -> int:
        """How many ids there are, special ones included."""
        return self._inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without markers."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts, without markers, on all cores."""
        encodings = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [_without_markers(encoding.ids) for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; markers are left out, an unknown piece shows as `<unk>`."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """The texts of ids; markers are left out, an unknown piece shows as `<unk>`."""
        pieces = [[token for token in ids if token >= UNKNOWN] for ids in batch]
        return self._inner.decode_batch(pieces, skip_special_tokens=False)


def _without_markers(ids: list[int]) -> list[int]:
    """A word vocabulary finds the word "</s>" in its table: in text it is an unknown word."""
    if ids and min(ids) < UNKNOWN:
        return [max(token, UNKNOWN) for token in ids]
    return ids


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
