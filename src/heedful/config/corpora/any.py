"""Every corpus that a recipe can name, told apart by its keys."""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Discriminator, Tag

from heedful.config.corpora.captions import CsvCaptions, JsonlCaptions, TsvCaptions
from heedful.config.corpora.pairs import BuiltinCorpus, CsvCorpus, JsonlCorpus, TextCorpus, TsvCorpus
from heedful.config.corpora.picture_questions import (
    BuiltinPictureQuestions,
    CsvPictureQuestions,
    JsonlPictureQuestions,
    TsvPictureQuestions,
)
from heedful.config.corpora.pictures import (
    BuiltinPictures,
    CsvPictures,
    FolderPictures,
    IdxPictures,
    JsonlPictures,
    NpzPictures,
    TsvPictures,
)
from heedful.config.corpora.questions import BuiltinQuestions, JsonlQuestions, SquadQuestions
from heedful.config.corpora.texts import ConllTexts, CsvTexts, JsonlTexts, PlainTexts, TsvTexts
from heedful.config.corpora.trees import TreeCorpus
from heedful.config.section import as_tuple

# The key that a corpus has decides its form; without one, it is two files.
FORMS: Final = ("tsv", "csv", "jsonl", "conll", "trees", "builtin", "squad", "pictures", "idx", "npz")
_GENERATED: Final = {"reports": "builtin_questions", "scenes": "builtin_pictures"}


def _corpus_form(value: Any) -> str:
    def has(key: str) -> bool:
        return key in value if isinstance(value, dict) else hasattr(value, key)

    form = next((form for form in FORMS if has(form)), "")
    if form == "builtin":
        name = value["builtin"] if isinstance(value, dict) else value.builtin
        if name == "scenes" and has("questions"):
            return "builtin_picture_questions"
        return _GENERATED.get(str(name), form)
    if form in ("tsv", "csv", "jsonl") and has("picture"):
        if any(map(has, ("question", "answer"))):
            return f"{form}_picture_questions"
        return f"{form}_captions" if has("caption") else f"{form}_pictures"
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
    | Annotated[FolderPictures, Tag("pictures")]
    | Annotated[TsvPictures, Tag("tsv_pictures")]
    | Annotated[CsvPictures, Tag("csv_pictures")]
    | Annotated[JsonlPictures, Tag("jsonl_pictures")]
    | Annotated[TsvCaptions, Tag("tsv_captions")]
    | Annotated[CsvCaptions, Tag("csv_captions")]
    | Annotated[JsonlCaptions, Tag("jsonl_captions")]
    | Annotated[IdxPictures, Tag("idx")]
    | Annotated[NpzPictures, Tag("npz")]
    | Annotated[BuiltinPictures, Tag("builtin_pictures")]
    | Annotated[TsvPictureQuestions, Tag("tsv_picture_questions")]
    | Annotated[CsvPictureQuestions, Tag("csv_picture_questions")]
    | Annotated[JsonlPictureQuestions, Tag("jsonl_picture_questions")]
    | Annotated[BuiltinPictureQuestions, Tag("builtin_picture_questions")],
    Discriminator(_corpus_form),
]
Corpora = Annotated[tuple[AnyCorpus, ...], BeforeValidator(as_tuple)]  # one table, or a list of them
