"""Every corpus that a recipe can name, told apart by its keys."""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Discriminator, Tag

from heedful.config.corpora.containers import (
    AlignedFiles,
    Builtin,
    Conll,
    Csv,
    Idx,
    ImageFolder,
    Jsonl,
    Npz,
    PlainText,
    Squad,
    Trees,
    Tsv,
)
from heedful.config.section import as_tuple

# The key that a corpus has decides its container; without one, it is running text or two files.
FORMS: Final = ("tsv", "csv", "jsonl", "conll", "trees", "builtin", "squad", "images", "idx", "npz")


def _container(value: Any) -> str:
    def has(key: str) -> bool:
        return key in value if isinstance(value, dict) else hasattr(value, key)

    form = next((form for form in FORMS if has(form)), "")
    if not form and has("label"):
        return "tsv"  # the usual form of texts with labels, so that the message names the missing key
    return form or ("text" if has("text") else "pairs")


SPLITS: Final = ("train", "valid", "test")  # keys of [data]
AnyCorpus = Annotated[
    Annotated[AlignedFiles, Tag("pairs")]
    | Annotated[Tsv, Tag("tsv")]
    | Annotated[Csv, Tag("csv")]
    | Annotated[Jsonl, Tag("jsonl")]
    | Annotated[Builtin, Tag("builtin")]
    | Annotated[Conll, Tag("conll")]
    | Annotated[PlainText, Tag("text")]
    | Annotated[Trees, Tag("trees")]
    | Annotated[Squad, Tag("squad")]
    | Annotated[ImageFolder, Tag("images")]
    | Annotated[Idx, Tag("idx")]
    | Annotated[Npz, Tag("npz")],
    Discriminator(_container),
]
Corpora = Annotated[tuple[AnyCorpus, ...], BeforeValidator(as_tuple)]  # one table, or a list of them
