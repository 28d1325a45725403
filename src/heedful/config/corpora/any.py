"""Every corpus that a recipe can name, told apart by its keys."""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Discriminator, Tag

from heedful.config.corpora.captions import CsvCaptions, JsonlCaptions, TsvCaptions
from heedful.config.corpora.image_questions import (
    BuiltinImageQuestions,
    CsvImageQuestions,
    JsonlImageQuestions,
    TsvImageQuestions,
)
from heedful.config.corpora.images import (
    BuiltinImages,
    CsvImages,
    FolderImages,
    IdxImages,
    JsonlImages,
    NpzImages,
    TsvImages,
)
from heedful.config.corpora.pairs import BuiltinCorpus, CsvCorpus, JsonlCorpus, TextCorpus, TsvCorpus
from heedful.config.corpora.questions import BuiltinQuestions, JsonlQuestions, SquadQuestions
from heedful.config.corpora.texts import ConllTexts, CsvTexts, JsonlTexts, PlainTexts, TsvTexts
from heedful.config.corpora.trees import TreeCorpus
from heedful.config.section import as_tuple

# The key that a corpus has decides its form; without one, it is two files.
FORMS: Final = ("tsv", "csv", "jsonl", "conll", "trees", "builtin", "squad", "images", "idx", "npz")
_GENERATED: Final = {"reports": "builtin_questions", "scenes": "builtin_images"}


def _corpus_form(value: Any) -> str:
    def has(key: str) -> bool:
        return key in value if isinstance(value, dict) else hasattr(value, key)

    form = next((form for form in FORMS if has(form)), "")
    if form == "builtin":
        name = value["builtin"] if isinstance(value, dict) else value.builtin
        if name == "scenes" and has("questions"):
            return "builtin_image_questions"
        return _GENERATED.get(str(name), form)
    if form in ("tsv", "csv", "jsonl") and has("image"):
        if any(map(has, ("question", "answer"))):
            return f"{form}_image_questions"
        return f"{form}_captions" if has("caption") else f"{form}_images"
    if form == "jsonl" and any(map(has, ("question", "answer"))):
        return "jsonl_questions"
    if form in ("tsv", "csv", "jsonl"):
        return f"{form}_texts" if any(map(has, ("text", "second", "label"))) else form
    if not form and has("label"):
        return "tsv_texts"  # the usual form of texts with labels, so that the message names the missing key
    return form or ("text" if has("text") else "pairs")


SPLITS: Final = ("train", "valid", "test")  # keys of [data]
AnyCorpus = Annotated[
    Annotated[TextCorpus, Tag("pairs")]
    | Annotated[TsvCorpus, Tag("tsv")]
    | Annotated[CsvCorpus, Tag("csv")]
    | Annotated[JsonlCorpus, Tag("jsonl")]
    | Annotated[BuiltinCorpus, Tag("builtin")]
    | Annotated[TsvTexts, Tag("tsv_texts")]
    | Annotated[CsvTexts, Tag("csv_texts")]
    | Annotated[JsonlTexts, Tag("jsonl_texts")]
    | Annotated[ConllTexts, Tag("conll")]
    | Annotated[PlainTexts, Tag("text")]
    | Annotated[TreeCorpus, Tag("trees")]
    | Annotated[JsonlQuestions, Tag("jsonl_questions")]
    | Annotated[SquadQuestions, Tag("squad")]
    | Annotated[BuiltinQuestions, Tag("builtin_questions")]
    | Annotated[FolderImages, Tag("images")]
    | Annotated[TsvImages, Tag("tsv_images")]
    | Annotated[CsvImages, Tag("csv_images")]
    | Annotated[JsonlImages, Tag("jsonl_images")]
    | Annotated[TsvCaptions, Tag("tsv_captions")]
    | Annotated[CsvCaptions, Tag("csv_captions")]
    | Annotated[JsonlCaptions, Tag("jsonl_captions")]
    | Annotated[IdxImages, Tag("idx")]
    | Annotated[NpzImages, Tag("npz")]
    | Annotated[BuiltinImages, Tag("builtin_images")]
    | Annotated[TsvImageQuestions, Tag("tsv_image_questions")]
    | Annotated[CsvImageQuestions, Tag("csv_image_questions")]
    | Annotated[JsonlImageQuestions, Tag("jsonl_image_questions")]
    | Annotated[BuiltinImageQuestions, Tag("builtin_image_questions")],
    Discriminator(_corpus_form),
]
Corpora = Annotated[tuple[AnyCorpus, ...], BeforeValidator(as_tuple)]  # one table, or a list of them
