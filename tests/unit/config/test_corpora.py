"""What every form of corpus says of itself: its files, its title, and its part of cache keys."""

from typing import ClassVar, get_args

import pytest

from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.captions import CsvCaptions, JsonlCaptions, TsvCaptions
from heedful.config.corpora.corpus import Corpus
from heedful.config.corpora.image_questions import BuiltinImageQuestions, ImageQuestionCorpus
from heedful.config.corpora.images import FolderImages, IdxImages, ImageCorpus
from heedful.config.corpora.pairs import PAIRS, BuiltinCorpus, CsvCorpus, TextCorpus, TsvCorpus
from heedful.config.corpora.questions import BuiltinQuestions, JsonlQuestions, QuestionCorpus, SquadQuestions
from heedful.config.corpora.texts import TEXTS, ConllTexts, CsvTexts, JsonlTexts, PlainTexts
from heedful.config.corpora.trees import TreeCorpus

CORPORA: list[tuple[Corpus, tuple[str, ...], str]] = [
    (ConllTexts(conll="a.conll"), ("a.conll",), "a.conll"),
    (TextCorpus(source="a.en", target="a.de"), ("a.en", "a.de"), "a.en + a.de"),
    (TsvCorpus(tsv="a.tsv"), ("a.tsv",), "a.tsv"),
    (CsvCorpus(csv="a.csv", source="en", target="de"), ("a.csv",), "a.csv"),
    (CsvTexts(csv="a.csv", text="review", label=2), ("a.csv",), "a.csv"),
    (JsonlTexts(jsonl="a.jsonl", text="x", label="y"), ("a.jsonl",), "a.jsonl"),
    (PlainTexts(text="a.txt"), ("a.txt",), "a.txt"),
    (TreeCorpus(trees="a.trees"), ("a.trees",), "a.trees"),
    (BuiltinCorpus(builtin="english-spanish", part="valid"), (), "english-spanish valid"),
    (JsonlQuestions(jsonl="a.jsonl", question="q"), ("a.jsonl",), "a.jsonl"),
    (SquadQuestions(squad="a.json"), ("a.json",), "a.json"),
    (BuiltinQuestions(builtin="reports", part="test"), (), "reports test"),
    (IdxImages(idx="x.gz", labels="y.gz"), ("x.gz", "y.gz"), "x.gz + y.gz"),
    (FolderImages(images="photos"), (), "photos"),
    (BuiltinImageQuestions(builtin="scenes", questions=4), (), "scenes train"),
]


@pytest.mark.parametrize(("corpus", "files", "title"), CORPORA)
def test_a_corpus_knows_its_files_and_its_title(corpus: Corpus, files: tuple[str, ...], title: str) -> None:
    assert corpus.files() == files
    assert corpus.title == title
    assert corpus.model_copy(update={"name": "mine"}).title == "mine"


IMAGES: tuple[type[Corpus], ...] = (
    *get_args(ImageCorpus),
    *get_args(ImageQuestionCorpus),
    TsvCaptions,
    CsvCaptions,
    JsonlCaptions,
)


def test_every_form_has_a_frozen_kind_of_its_own() -> None:
    forms = (*PAIRS, *TEXTS, ConllTexts, TreeCorpus, *get_args(QuestionCorpus), *IMAGES)
    kinds = [form.frozen_kind for form in forms]
    assert len(kinds) == len(set(kinds)) == len(get_args(get_args(AnyCorpus)[0]))


@pytest.mark.parametrize(("corpus", "files", "title"), CORPORA)
def test_options_are_what_decides_the_rows(corpus: Corpus, files: tuple[str, ...], title: str) -> None:
    own = set(type(corpus).model_fields) - {
        "name",
        "weight",
        *corpus.file_keys,
        *corpus.folder_keys,
        *corpus.later_keys,
    }
    assert set(corpus.options()) == own
    assert corpus.model_copy(update={"name": "mine", "weight": 2.0}).options() == corpus.options()
    assert corpus.model_copy(update={"lines": "1-2"}).options() != corpus.options()


def test_a_key_added_later_enters_the_options_only_where_it_says_something() -> None:
    class Quoted(TsvCorpus):
        later_keys: ClassVar[tuple[str, ...]] = (*TsvCorpus.later_keys, "quote")
        quote: str = ""

    assert Quoted(tsv="a.tsv").options() == TsvCorpus(tsv="a.tsv").options()
    assert Quoted(tsv="a.tsv", quote='"').options() == {**TsvCorpus(tsv="a.tsv").options(), "quote": '"'}
