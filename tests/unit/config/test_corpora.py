"""What every form of corpus says of itself: its files, its title, and its part of cache keys."""

from typing import get_args

import pytest
from pydantic import ValidationError

from heedful.config.corpora.containers import (
    AlignedFiles,
    AnyCorpus,
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
from heedful.config.corpora.corpus import Corpus

CORPORA: list[tuple[Corpus, tuple[str, ...], str]] = [
    (Conll(conll="a.conll"), ("a.conll",), "a.conll"),
    (AlignedFiles(source="a.en", target="a.de"), ("a.en", "a.de"), "a.en + a.de"),
    (Tsv(tsv="a.tsv"), ("a.tsv",), "a.tsv"),
    (Csv(csv="a.csv", source="en", target="de"), ("a.csv",), "a.csv"),
    (Csv(csv="a.csv", text="review", label=2), ("a.csv",), "a.csv"),
    (Jsonl(jsonl="a.jsonl", text="x", label="y"), ("a.jsonl",), "a.jsonl"),
    (PlainText(text="a.txt"), ("a.txt",), "a.txt"),
    (Trees(trees="a.trees"), ("a.trees",), "a.trees"),
    (Builtin(builtin="english-spanish", part="valid"), (), "english-spanish valid"),
    (Jsonl(jsonl="a.jsonl", question="q"), ("a.jsonl",), "a.jsonl"),
    (Squad(squad="a.json"), ("a.json",), "a.json"),
    (Builtin(builtin="reports", part="test"), (), "reports test"),
    (Idx(idx="x.gz", labels="y.gz"), ("x.gz", "y.gz"), "x.gz + y.gz"),
    (ImageFolder(images="photos"), (), "photos"),
    (Builtin(builtin="scenes", questions=4), (), "scenes train"),
]


@pytest.mark.parametrize(("corpus", "files", "title"), CORPORA)
def test_a_corpus_knows_its_files_and_its_title(corpus: Corpus, files: tuple[str, ...], title: str) -> None:
    assert corpus.files() == files
    assert corpus.title == title
    assert corpus.model_copy(update={"name": "mine"}).title == "mine"


CONTAINERS: tuple[type[Corpus], ...] = get_args(get_args(AnyCorpus)[0])


def test_every_container_with_each_kind_of_rows_has_a_frozen_kind_of_its_own() -> None:
    containers = [get_args(container)[0] for container in CONTAINERS]
    kinds = [container.frozen + kind.frozen for container in containers for kind in container.row_kinds]
    assert len(containers) == 14
    assert len(kinds) == len(set(kinds))


@pytest.mark.parametrize(("corpus", "files", "title"), CORPORA)
def test_options_are_what_decides_the_rows(corpus: Corpus, files: tuple[str, ...], title: str) -> None:
    assert not {"name", "weight", *corpus.file_keys, *corpus.folder_keys} & set(corpus.options())
    assert corpus.model_copy(update={"name": "mine", "weight": 2.0}).options() == corpus.options()
    assert corpus.model_copy(update={"lines": "1-2"}).options() != corpus.options()


def test_a_key_added_later_enters_the_options_only_where_it_says_something() -> None:
    class Quoted(Trees):
        later_keys = (*Trees.later_keys, "quote")

        quote: str = ""

    assert Quoted(trees="a").options() == Trees(trees="a").options()
    assert Quoted(trees="a", quote='"').options() == {**Trees(trees="a").options(), "quote": '"'}


@pytest.mark.parametrize(
    ("corpus", "roles"),
    [
        (AlignedFiles(source="a", target="b"), "source target"),
        (Tsv(tsv="a"), "source target"),
        (Csv(csv="a", target="de"), "source target"),
        (Csv(csv="a", text=1), "text"),
        (Csv(csv="a", text=1, number=2), "text number"),
        (Tsv(tsv="a", text=1, second=2, label=3), "text second label"),
        (Csv(csv="a", question=1, text=2, answer=3), "question text answer"),
        (Jsonl(jsonl="a", question="q"), "question text answer start"),
        (Jsonl(jsonl="a", image="i"), "image label"),
        (Jsonl(jsonl="a", image="i", number="n"), "image number"),
        (Csv(csv="a", image=1, label=2, number=3), "image label number"),
        (Csv(csv="a", image=1, caption=2), "image caption"),
        (Jsonl(jsonl="a", image="i", question="q", group="g"), "image question answer group"),
        (Conll(conll="a"), "word label"),
        (PlainText(text="a"), "text"),
        (Trees(trees="a"), "tree"),
        (Npz(npz="a"), "image label"),
        (Npz(npz="a", number="n"), "image number"),
        (Npz(npz="a", label="l", number="n"), "image label number"),
        (Builtin(builtin="dates"), "source target"),
        (Builtin(builtin="reports"), "question text answer start"),
        (Builtin(builtin="scenes"), "image label number caption"),
        (Builtin(builtin="scenes", questions=2), "image question answer group"),
    ],
)
def test_the_keys_that_are_set_decide_the_roles_of_the_rows(corpus: Corpus, roles: str) -> None:
    assert corpus.roles == set(roles.split())


def test_a_key_of_other_rows_is_refused() -> None:
    with pytest.raises(ValidationError, match="`label` does not apply to images with captions: leave it out"):
        Csv(csv="a", image=1, caption=2, label=3)
    with pytest.raises(ValidationError, match="`variants` does not apply to texts: leave it out"):
        Csv(csv="a", text=1, variants=True)
    with pytest.raises(ValidationError, match="`questions` does not apply to questions about texts: leave it out"):
        Builtin(builtin="reports", questions=2)


def test_what_a_default_gives_is_as_if_it_were_set_and_is_not_set() -> None:
    short, full = Tsv(tsv="a"), Tsv(tsv="a", source=1, target=2)
    assert short == full
    assert hash(short) == hash(full)
    assert "source" not in short.model_fields_set
    assert short.model_dump(exclude_unset=True) == {"tsv": "a"}
    assert Tsv.model_validate(short.model_dump()) == short


def test_a_source_may_be_its_own_target_and_a_text_not_its_own_label() -> None:
    assert Tsv(tsv="a", source=1, target=1).roles == {"source", "target"}
    with pytest.raises(ValidationError, match="`text` and `number` are both 1, but must be different"):
        Tsv(tsv="a", text=1, number=1)
