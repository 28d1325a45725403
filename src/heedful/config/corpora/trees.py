"""Corpora of constituency trees."""

from typing import Literal

from heedful.config.corpora.corpus import Corpus

Leaves = Literal["symbol", "tag", "word"]


class TreeCorpus(Corpus):
    """Bracketed trees, as treebanks have them: a parser reads their words, and writes their brackets."""

    frozen_kind = "TreeCorpus"
    file_keys = ("trees",)

    trees: str
    """File with one bracketed tree per line; traces and function tags (the -SBJ of NP-SBJ) are removed."""
    leaves: Leaves = "symbol"
    """What a parser writes in place of each word: one symbol for all of them, its tag, or the word itself."""
