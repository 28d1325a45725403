"""A lexicon for shortlists, learned from the pairs that a translator was trained on.

For each source token: the target tokens with the greatest t(target token | source token), as `links.py` learns it from
the ids of both sides, and those that spell the source token itself, for what is copied. On every shortlist are the most
frequent target tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np

from heedful.base.arguments import check_path, check_whole
from heedful.base.errors import UserError, by_caller
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.recipe import Recipe
from heedful.data.collate import gather, lengths_of
from heedful.data.epochs.plan import Indices
from heedful.data.prepare.pairs import prepare
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import SHORTLIST, read_description
from heedful.tasks.shared.line import sample_rows
from heedful.tasks.translate.lexicon import Lexicon, Tokens
from heedful.tasks.translate.links import Links, learn
from heedful.tasks.translate.rules import TRANSLATE

CANDIDATES: Final = 50
FREQUENT: Final = 1000
_MOST_LINKS: Final = 40_000_000  # pairs of a source and a target token, 16 bytes each: of more pairs, some are sampled
_PART: Final = 1_000_000  # links that are made at once, in 100 bytes each


@dataclass(frozen=True)
class Learned:
    """A lexicon, and which pairs it was learned from, in words."""

    path: Path
    lexicon: Lexicon
    pairs: str


def learn_shortlist(
    model: str | PathLike[str],
    *,
    source: str | PathLike[str] | None = None,
    target: str | PathLike[str] | None = None,
    to: str = "",
    candidates: int = CANDIDATES,
    frequent: int = FREQUENT,
    say: Callable[[str], None] = lambda message: None,
) -> Learned:
    """Learn the lexicon of a translator's shortlists, and write it into the model's folder: see `Translator.translate`.

    It is learned from the corpora that the model was trained on, or from two files aligned by line; `to` is their
    target language, for a model that has several. A shortlist has the `candidates` most likely translations of each
    source token, and the `frequent` most frequent target tokens.
    """
    candidates, frequent = check_whole("candidates", candidates, least=1), check_whole("frequent", frequent, least=0)
    folder = check_path("model", model)
    recipe, vocabularies = read_description(folder)
    if recipe.rules.name != TRANSLATE.name:
        raise UserError(f"{folder} {recipe.rules.does}, but shortlists are for models that translate.")
    stores = prepare(_with_corpora(recipe, source, target, to), say, vocabularies).train
    rows, pairs = sample_pairs(stores)
    lexicon = make_lexicon(stores, rows, vocabularies, candidates, frequent)
    lexicon.write(folder, vocabularies)
    return Learned(folder / SHORTLIST, lexicon, pairs)


def _with_corpora(
    recipe: Recipe, source: str | PathLike[str] | None, target: str | PathLike[str] | None, to: str
) -> Recipe:
    """Return the recipe with its training corpora alone, or with the files that are given."""
    if (source is None) != (target is None):
        names = by_caller("--source and --target", "`source` and `target`")
        raise UserError(f"A shortlist is learned from pairs: give both {names}, or neither.")
    only = {"valid": (), "test": ()}
    if source is None or target is None:
        if to:
            which = by_caller(
                "--to is the language of --source and --target", "`to` is the language of `source` and `target`"
            )
            raise UserError(f"{which}, but the recipe's corpora have their own: leave it out.")
        return recipe.model_copy(update={"data": recipe.data.model_copy(update=only)})
    sides = [str(check_path(name, path).absolute()) for name, path in (("source", source), ("target", target))]
    corpus = AlignedFiles(source=sides[0], target=sides[1], to=to)
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={**only, "train": (corpus,)})})


def sample_pairs(stores: Sequence[TokenStore]) -> tuple[Indices, str]:
    """Return the rows that a lexicon is learned from, at equal distances where there are too many, and how many."""
    count = sum(map(len, stores))
    every, _ = sample_rows(count, 10_000, "pair")
    links = float(np.mean(lengths_of(stores, "source", every) * lengths_of(stores, "target", every)))
    return sample_rows(count, max(1, int(_MOST_LINKS / max(1.0, links))), "pair")


def make_lexicon(
    stores: Sequence[TokenStore], rows: Indices, vocabularies: Vocabularies, candidates: int, frequent: int
) -> Lexicon:
    """Learn from these rows."""
    sizes = vocabularies.sizes
    keys, t = learn(list(_links(stores, rows, sizes["target"])))
    source = keys // sizes["target"]
    ranked = np.lexsort((keys, -t, source))  # by source token, the most likely first
    first = np.searchsorted(source, source)
    best = ranked[np.arange(len(keys)) - first < candidates]
    found = np.unique(np.concatenate([keys[best], _copies(vocabularies)]))
    ends = np.searchsorted(found, np.arange(1, sizes["source"] + 1) * sizes["target"])
    tokens, _ = gather(stores, "target", rows)
    counts = np.bincount(tokens, minlength=sizes["target"])
    usual = np.argsort(-counts, kind="stable")[:frequent]
    return Lexicon(found % sizes["target"], ends, np.sort(usual[counts[usual] > 0]))


def _links(stores: Sequence[TokenStore], rows: Indices, target_units: int) -> Iterator[Links]:
    """Yield the links of rows, about `_PART` at a time; a pair with an empty side has none."""
    many = lengths_of(stores, "source", rows) * lengths_of(stores, "target", rows)
    rows, many = rows[many > 0], many[many > 0]
    parts = np.cumsum(many) // _PART
    for some in np.split(rows, np.flatnonzero(np.diff(parts)) + 1):
        yield Links.of_rows(*gather(stores, "source", some), *gather(stores, "target", some), target_units)


def _copies(vocabularies: Vocabularies) -> Tokens:
    """Return the keys of source tokens with the target tokens that spell the same: names and numbers are copied."""
    source, target = vocabularies["source"], vocabularies["target"]
    own = range(source.markers, source.size)
    if vocabularies.joint:
        return np.array([token * target.size + token for token in own], np.int64)
    alike = dict(zip(target.pieces(range(target.size)), range(target.size), strict=True))
    spelled = target.encode_batch(source.decode_batch([[token] for token in own]))
    pairs = [
        (token, [alike[piece]] if piece in alike else ids)
        for token, piece, ids in zip(own, source.pieces(own), spelled, strict=True)
    ]
    return np.array(
        [token * target.size + one for token, ids in pairs for one in ids if one >= target.markers], np.int64
    )
