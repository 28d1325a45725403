"""A trained tokenizer: text to token ids and back. How it is trained is `tokenizer_training.py`.

Markers are never parsed out of text: a text that holds "</s>" is a text about markup, not the end of a sentence.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import tokenizers

from heedful.errors import UserError

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")  # in the order of their ids
_TAG = re.compile(r"<2(?P<language>.+)>")


def tag_of(language: str) -> str:
    """The piece that asks for a target language, put before the source      Johnson et al. 2017"""
    return f"<2{language}>"


class Tokenizer:
    """Text to ids and back; ids 0 to 3 are `<pad>`, `<s>`, `</s>` and `<unk>` in every vocabulary, then come tags."""

    pad, begin, end, unknown = PAD, BEGIN, END, UNKNOWN

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.encode_special_tokens = True  # not kept in the JSON
        self._inner = inner
        self.tags = _tags(inner)  # the languages that can be asked for, in the order of their ids

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
        tokenizer = cls(inner)
        if list(tokenizer.tags.values()) != list(range(len(SPECIALS), tokenizer.markers)):
            raise UserError(f"{where}: its tags do not stand behind its special pieces: it is no tokenizer of Heedful.")
        return tokenizer

    def to_json(self) -> bytes:
        """Serialise; the same tokenizer always gives the same bytes."""
        return self._inner.to_str(pretty=False).encode()

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of the JSON."""
        return hashlib.sha256(self.to_json()).hexdigest()

    @property
    def markers(self) -> int:
        """How many ids are special pieces and tags: text is made of the ids from here on, and of `<unk>`."""
        return len(SPECIALS) + len(self.tags)

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
        return [_without_markers(encoding.ids, self.markers) for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; markers are left out, an unknown piece shows as `<unk>`."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """The texts of ids; markers are left out, an unknown piece shows as `<unk>`."""
        first = self.markers
        pieces = [[token for token in ids if token >= first or token == UNKNOWN] for ids in batch]
        return self._inner.decode_batch(pieces, skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids as they are written in the vocabulary."""
        return [self._inner.id_to_token(token) or SPECIALS[UNKNOWN] for token in ids]

    def words(self, ids: Sequence[int]) -> list[int]:
        """The number of the word that each piece is of, or begins; words stand between spaces, counted from 0."""
        texts = self.decode_batch([ids[:end] for end in range(1, len(ids) + 1)])
        return [max(0, len(text.split()) - 1) for text in texts]

    def tag(self, language: str) -> int:
        """The id that asks for a language; refuses one that the vocabulary does not have."""
        if language in self.tags:
            return self.tags[language]
        known = f"it has {', '.join(map(tag_of, self.tags))}" if self.tags else "it has no tags"
        raise UserError(f"{tag_of(language)} is not in the vocabulary: {known}.")


def _tags(inner: tokenizers.Tokenizer) -> Mapping[str, int]:
    added = sorted(inner.get_added_tokens_decoder().items())
    found = [(_TAG.fullmatch(token.content), number) for number, token in added]
    return {match["language"]: number for match, number in found if match}


def _without_markers(ids: list[int], first: int) -> list[int]:
    """A word vocabulary finds the word "</s>" in its table: in text it is an unknown word."""
    if ids and min(ids) < first:
        return [token if token >= first else UNKNOWN for token in ids]
    return ids


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
