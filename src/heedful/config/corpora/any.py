"""Every corpus that a recipe can name, told apart by its keys."""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Discriminator, Tag

from heedful.config.corpora import containers
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
    Annotated[containers.AlignedFiles, Tag("pairs")]
    | Annotated[containers.Tsv, Tag("tsv")]
    | Annotated[containers.Csv, Tag("csv")]
    | Annotated[containers.Jsonl, Tag("jsonl")]
    | Annotated[containers.Builtin, Tag("builtin")]
    | Annotated[containers.Conll, Tag("conll")]
    | Annotated[containers.PlainText, Tag("text")]
    | Annotated[containers.Trees, Tag("trees")]
    | Annotated[containers.Squad, Tag("squad")]
    | Annotated[containers.ImageFolder, Tag("images")]
    | Annotated[containers.Idx, Tag("idx")]
    | Annotated[containers.Npz, Tag("npz")],
    Discriminator(_container),
]
Corpora = Annotated[tuple[AnyCorpus, ...], BeforeValidator(as_tuple)]  # one table, or a list of them
