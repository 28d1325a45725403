"""The lexicon that shortlists are made of: for each source token, the target tokens that most likely translate it.

It is a file in the folder of a model, `shortlist.safetensors`, of whole numbers:

    tokens      target tokens of the first source token, then those of the second, and so on
    ends        where those of each source token end
    frequent    target tokens that are on every shortlist
    sha256      hash of all these, and of the tokenizers that the ids are of
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from heedful.base.errors import UserError, by_caller
from heedful.base.files import read_bytes, write_bytes
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.decode.query import Query, token_ids
from heedful.decode.shortlist import SPECIAL
from heedful.models.bundle import SHORTLIST

Tokens = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Target tokens for each source token, and those that any sentence may need."""

    tokens: Tokens
    ends: Tokens
    frequent: Tokens

    def of(self, source: int) -> Tokens:
        """Return the target tokens of a source token."""
        return self.tokens[self.ends[source - 1] if source else 0 : self.ends[source]]

    def shortlist(self, source: Sequence[int], prefix: Sequence[int] = ()) -> Tokens:
        """Return all tokens that the translation of a source may have, sorted: see `Query.shortlist`."""
        given = np.asarray(prefix, np.int64)
        tokens = np.concatenate([SPECIAL, given, self.frequent, *map(self.of, set(source))])
        listed = np.zeros(tokens.max() + 1, bool)  # faster than sorting
        listed[tokens] = True
        return np.flatnonzero(listed)

    def add_to(self, queries: Sequence[Query]) -> list[Query]:
        """Return queries with their shortlists."""
        lists = [self.shortlist(token_ids(query.source), query.prefix) for query in queries]
        return [replace(query, shortlist=some) for query, some in zip(queries, lists, strict=True)]

    def write(self, folder: Path, vocabularies: Vocabularies) -> None:
        """Write the lexicon into the folder of a model."""
        parts = {"tokens": self.tokens, "ends": self.ends, "frequent": self.frequent}
        parts = {name: np.ascontiguousarray(part, np.int32) for name, part in parts.items()}
        write_bytes(folder / SHORTLIST, save({**parts, "sha256": _digest(parts, vocabularies)}))


def read_lexicon(folder: Path | None, vocabularies: Vocabularies) -> Lexicon:
    """Read the lexicon of a model, or say in one line what is wrong with it."""
    named = folder or "the model"
    way_out = by_caller(f"`heedful shortlist {named}`", f'`heedful.learn_shortlist("{named}")`')
    if folder is None or not (folder / SHORTLIST).exists():
        raise UserError(f"{named} has no {SHORTLIST}, which a shortlist is made of: learn it by {way_out}.")
    try:
        parts = load(read_bytes(folder / SHORTLIST))
        stated = parts.pop("sha256")
        sound = np.array_equal(stated, _digest(parts, vocabularies))
        sound = sound and _fits(vocabularies.sizes["source"], vocabularies.sizes["target"], **parts)
    except (SafetensorError, ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise UserError(
            f"{folder / SHORTLIST} is damaged, or was learned for another model (its sha256 is not the stated one): "
            f"learn it again by {way_out}."
        )
    return Lexicon(**{name: part.astype(np.int64) for name, part in parts.items()})


def _fits(sources: int, targets: int, tokens: NDArray[Any], ends: NDArray[Any], frequent: NDArray[Any]) -> bool:
    """Whether no index or id of a file is outside of what it is an index of."""
    if any(part.dtype != np.int32 or part.ndim != 1 for part in (tokens, ends, frequent)) or len(ends) != sources:
        return False
    ids, bounds = np.concatenate([tokens, frequent]), np.concatenate([[0], ends])
    in_order = bool((np.diff(bounds) >= 0).all()) and bounds[-1] == len(tokens)
    return in_order and bool(((ids >= 0) & (ids < targets)).all())


def _digest(parts: dict[str, NDArray[Any]], vocabularies: Vocabularies) -> NDArray[np.uint8]:
    digest = hashlib.sha256()
    for name in ("source", "target"):
        digest.update(vocabularies[name].fingerprint.encode())
    for name, part in sorted(parts.items()):
        digest.update(f"{name} {part.dtype} {part.shape}".encode())
        digest.update(part.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)
