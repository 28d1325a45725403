"""The text of a proposed recipe: keys with the reasons for them, and as comments what training chooses itself."""

import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.config.reading.draft import draft_of, overrides_of, with_overrides
from heedful.config.reading.load import flat, load_recipe
from heedful.config.reading.toml import toml_item, toml_key, toml_value
from heedful.config.recipe import Recipe
from heedful.data.corpora.formats.detection import Detected
from heedful.data.corpora.formats.lines import locate, read_lines, split_member
from heedful.defaults.apply import with_followed_defaults
from heedful.first_recipe.corpora import Corpus
from heedful.first_recipe.names import Split
from heedful.first_recipe.proposal import Proposal

_WIDTH: Final = 110
_FEW: Final = 60  # rows: of fewer, a tenth could be nothing
_FILES: Final = ("csv", "tsv", "jsonl", "conll", "trees", "squad", "images", "idx", "labels", "npz", "text", "tmx")
_TABLES: Final = ("data", "tokenizer", "model", "train", "decode", "evaluate")


@dataclass(frozen=True)
class Draft:
    """A recipe that was checked, its text, and the names that the next commands need."""

    recipe: Recipe
    text: str
    values: Mapping[str, Any]
