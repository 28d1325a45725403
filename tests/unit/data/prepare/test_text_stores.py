"""Corpora of texts as token stores: what is in their streams, what is dropped, and when they are made anew."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AnyCorpus, Jsonl, PlainText, Tsv
from heedful.config.data import Data
from heedful.config.tokenizer import AnyTokenizer, Words
from heedful.data.corpora.files import content_key
from heedful.data.corpora.sentence_splitting import split_sentences
from heedful.data.corpora.texts import Text
from heedful.data.prepare.documents import document_store
from heedful.data.prepare.stores import NumberStream, build_store
from heedful.data.prepare.texts import TextKind, counts_of, labels_in, text_rows
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer

ANIMALS = "ant bee cat dog . Ant Bee Cat Dog"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(Words(kind="word"), [ANIMALS])


class Said(list[str]):
    """Collects progress."""

    def __call__(self, message: str) -> None:
        self.append(message)


def tsv(folder: Path, *lines: str, name: str = "t.tsv", **options: Any) -> Tsv:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Tsv.model_validate({"tsv": name, "text": 2, "label": 1, **options})


def store(
    corpus: AnyCorpus, folder: Path, tokenizer: Tokenizer, said: Said | None = None, **options: Any
) -> TokenStore:
    form = {key: options.pop(key) for key in ("lowercase", "nfc", "max_line") if key in options}
    data = Data(folder=str(folder), train=(corpus,), **form)
    further = options.pop("further", ())
    rows = text_rows(corpus, data, tokenizer, TextKind(**{"labels": ("a", "b"), **options}), further=further)
    return build_store(corpus, rows, content_key(corpus, str(folder)), Said() if said is None else said)


def rows(made: TokenStore, stream: str) -> list[list[int]]:
    return [made.sentence(stream, number).tolist() for number in range(len(made))]


def refusal(corpus: AnyCorpus, folder: Path, tokenizer: Tokenizer, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        store(corpus, folder, tokenizer, **options)
    return str(caught.value)


def test_a_line_that_is_too_long_is_dropped_counted_and_told(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = tsv(tmp_path, "b\tant bee", "a\tcat cat cat cat", "b\t", "a\tdog")
    for documents in (False, True):
        said = Said()
        made = store(corpus, tmp_path, tokenizer, said, max_line=10, documents=documents)
        assert len(made) == 2
        assert made.dropped == {"line": 1, "empty": 1}
        what = "documents" if documents else "texts"
        assert said[-1] == f"t.tsv: 2 {what}, 1 empty, dropped 1 longer than `data.max_line` (10 characters)"
    assert refusal(corpus, tmp_path, tokenizer, max_line=2).endswith("all 1 are blank.")


def test_a_line_of_running_text_that_is_too_long_is_left_out(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "t.txt").write_text("ant bee\ncat cat cat cat\ndog\n")
    said = Said()
    made = store(PlainText(text="t.txt"), tmp_path, tokenizer, said, max_line=10, documents=True, labels=())
    assert rows(made, "text") == tokenizer.encode_batch(["ant bee dog"])  # one document still
    assert said[-1] == "t.txt: 1 document, dropped 1 longer than `data.max_line` (10 characters)"


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_row_is_a_text_and_its_class_and_blank_ones_are_dropped_and_told(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    said = Said()
    corpus = tsv(tmp_path, "b\tant bee", "", "a\tcat yak", "b\t ", "a\tdog")
    made = store(corpus, tmp_path, tokenizer, said)
    assert set(made.streams) == {"text", "label"}
    assert rows(made, "text") == tokenizer.encode_batch(["ant bee", "cat yak", "dog"])
    assert rows(made, "label") == [[1], [0], [0]]
    assert made.dropped == {"empty": 2}
    assert said == ["tokenizing t.tsv", "t.tsv: 3 texts, 2 empty"]


def test_a_pair_has_a_second_text(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = tsv(tmp_path, "b\tant bee\tcat", "a\tcat\t ", "a\tdog\tdog dog", second=3)
    made = store(corpus, tmp_path, tokenizer)
    assert set(made.streams) == {"text", "second", "label"}
    assert rows(made, "text") == tokenizer.encode_batch(["ant bee", "dog"])
    assert rows(made, "second") == tokenizer.encode_batch(["cat", "dog dog"])
    assert rows(made, "label") == [[1], [0]]


def test_several_labels_are_all_there_or_none(tmp_path: Path, tokenizer: Tokenizer) -> None:
    made = store(tsv(tmp_path, "b,a\tant", "\tbee", "a\tcat"), tmp_path, tokenizer, several=True)
    assert rows(made, "label") == [[1, 0], [], [0]]
    assert counts_of([made, made], 2).tolist() == [4, 2]


def test_texts_are_brought_into_the_form_of_the_recipe(tmp_path: Path, tokenizer: Tokenizer) -> None:
    made = store(tsv(tmp_path, "a\tANT Bee", "b\tx"), tmp_path, tokenizer, lowercase=True)
    assert rows(made, "text")[0] == tokenizer.encode("ant bee")


def test_more_texts_than_are_tokenized_at_once_stay_in_order(tmp_path: Path, tokenizer: Tokenizer) -> None:
    words = ANIMALS.split()
    texts = ["" if number % 100 == 99 else " ".join(words[: 1 + number % 7]) for number in range(2500)]
    made = store(tsv(tmp_path, *(f"{'ab'[n % 2]}\t{text}" for n, text in enumerate(texts))), tmp_path, tokenizer)
    full = [number for number, text in enumerate(texts) if text]
    assert rows(made, "text") == tokenizer.encode_batch([texts[number] for number in full])
    assert made.streams["label"].values.tolist() == [number % 2 for number in full]
    assert made.dropped == {"empty": 25}


def test_documents_have_the_lengths_of_their_sentences(tmp_path: Path, tokenizer: Tokenizer) -> None:
    texts = ["Ant bee . Cat .", "dog", "<br />", "Bee .<br />Cat dog"]
    made = store(tsv(tmp_path, *(f"a\t{text}" for text in texts)), tmp_path, tokenizer, documents=True)
    assert set(made.streams) == {"text", "sentences", "label"}
    sentences = [tokenizer.encode_batch(split_sentences(text)) for text in texts]
    assert rows(made, "sentences") == [[len(ids) for ids in document] for document in sentences]
    assert rows(made, "text") == [[token for ids in document for token in ids] for document in sentences]
    assert rows(made, "sentences") == [[3, 2], [1], [], [2, 2]]
    assert rows(made, "label") == [[0]] * 4


def test_running_text_has_documents_without_labels(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "t.txt").write_text("Ant bee . Cat\ndog\n\nBee\n")
    said = Said()
    made = store(PlainText(text="t.txt"), tmp_path, tokenizer, said, labels=(), documents=True)
    assert set(made.streams) == {"text", "sentences"}
    assert rows(made, "sentences") == [[3, 1, 1], [1]]
    assert rows(made, "text") == tokenizer.encode_batch(["Ant bee . Cat dog", "Bee"])
    assert said[-1] == "t.txt: 2 documents"


def test_a_number_of_each_text_is_a_stream_of_its_own(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = tsv(tmp_path, "b\tant bee", "a\t ", "a\tdog", second=None)
    price = NumberStream[Text](lambda text: len(text.text) / 3)
    made = store(corpus, tmp_path, tokenizer, labels=(), further=[price])
    assert set(made.streams) == {"text", "number"}
    assert made.streams["number"].values.dtype == np.float32
    assert rows(made, "number") == [[np.float32(7 / 3)], [1.0]]  # the blank row has none
    assert store(corpus, tmp_path, tokenizer, labels=()).key != made.key


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_label_that_is_no_class_is_refused_with_the_nearest(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = tsv(tmp_path, "positive\tant", "postive\tbee")
    assert refusal(corpus, tmp_path, tokenizer, labels=("negative", "positive")) == (
        "t.tsv, line 2 has the label `postive`, which is not a class of the model. Did you mean `positive`?"
    )
    assert refusal(corpus, tmp_path, tokenizer, labels=("x", "y")) == (
        "t.tsv, line 1 has the label `positive`, which is not a class of the model. Known: x, y."
    )


@pytest.mark.parametrize(("documents", "what"), [(False, "text"), (True, "document")])
def test_a_corpus_of_nothing_is_refused(tmp_path: Path, tokenizer: Tokenizer, documents: bool, what: str) -> None:
    cases: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        ((), {}, "it is empty"),
        (("", "", "a\t "), {}, "all 3 are blank"),
        (("a\tx", "b\ty"), {"part": "7/100000"}, 'none is in part "7/100000"'),
    ]
    for lines, options, why in cases:
        corpus = tsv(tmp_path, *lines, **options)
        assert refusal(corpus, tmp_path, tokenizer, documents=documents) == f"t.tsv has no {what} to use: {why}."


# --- the cache --------------------------------------------------------------------------------------------------------


def test_a_corpus_is_tokenized_once_whatever_it_is_called_and_wherever_it_lies(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    corpus = tsv(tmp_path, "a\tant", "b\tbee cat")
    first, said = store(corpus, tmp_path, tokenizer), Said()
    (tmp_path / "u.tsv").write_bytes((tmp_path / "t.tsv").read_bytes())
    renamed = corpus.model_copy(update={"tsv": "u.tsv", "name": "again", "weight": 3.0})
    again = store(renamed, tmp_path, tokenizer, said)
    assert said == ["again: 2 texts"]
    assert again.key == first.key
    assert [np.array_equal(again.streams[name].values, first.streams[name].values) for name in first.streams] == [
        True
    ] * 2


def test_whatever_decides_a_store_makes_another(tmp_path: Path, tokenizer: Tokenizer) -> None:
    lines = ("a\tAnt\tBee", "b\tant\tbee")
    corpus = tsv(tmp_path, *lines)
    other = train_tokenizer(Words(kind="word"), ["ant bee"])
    made = [
        store(corpus, tmp_path, tokenizer),
        store(corpus, tmp_path, other),
        store(corpus, tmp_path, tokenizer, labels=("b", "a")),
        store(corpus, tmp_path, tokenizer, several=True),
        store(corpus, tmp_path, tokenizer, documents=True),
        store(corpus, tmp_path, tokenizer, lowercase=True),
        store(corpus, tmp_path, tokenizer, nfc=True),
        store(tsv(tmp_path, *lines, second=3), tmp_path, tokenizer),
        store(tsv(tmp_path, *lines, text=3), tmp_path, tokenizer),
        store(tsv(tmp_path, *lines, lines="1-1"), tmp_path, tokenizer),
        store(tsv(tmp_path, *lines, "a\tcat\tdog"), tmp_path, tokenizer),
    ]
    assert len({each.key for each in made}) == len(made)


# --- the classes of corpora -------------------------------------------------------------------------------------------


def labels(folder: Path, written: Sequence[str], several: bool = False, **options: Any) -> tuple[str, ...]:
    corpus = tsv(folder, *written, **options)
    return labels_in((corpus,), Data(folder=str(folder), train=(corpus,)), several)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (["pos", "neg", "pos"], ("neg", "pos")),
        (["10", "9", "1"], ("1", "9", "10")),
        (["-1", "1", "0"], ("-1", "0", "1")),
        (["--1", "1", "10", "9"], ("--1", "1", "10", "9")),  # the first is no number
        (["1", "10", "9", "x"], ("1", "10", "9", "x")),
        (["01", "1", "2"], ("01", "1", "2")),
        (["2", "1" * 5000], ("1" * 5000, "2")),  # more digits than a number may have
    ],
)
def test_classes_are_sorted_by_name_and_numbers_by_value(
    tmp_path: Path, found: list[str], expected: tuple[str, ...]
) -> None:
    assert labels(tmp_path, [f"{label}\tx" for label in found]) == expected


def test_classes_are_those_of_all_corpora(tmp_path: Path) -> None:
    one = tsv(tmp_path, "b\tx", name="one.tsv")
    (tmp_path / "two.jsonl").write_text("".join(json.dumps({"t": "x", "l": label}) + "\n" for label in ("c", True)))
    two = Jsonl(jsonl="two.jsonl", text="t", label="l")
    data = Data(folder=str(tmp_path), train=(one, two))
    assert labels_in((one, two), data, several=False) == ("b", "c", "true")


def test_a_blank_text_and_one_that_is_not_chosen_have_no_class(tmp_path: Path) -> None:
    lines = ["a\tx", "b\ty", "c\t ", "", "d\tz"]
    assert labels(tmp_path, lines) == ("a", "b", "d")
    assert labels(tmp_path, lines, lines="1-4") == ("a", "b")


def test_several_labels_of_a_text_are_classes_each(tmp_path: Path) -> None:
    assert labels(tmp_path, ["b, a\tx", "\ty"], several=True) == ("a", "b")
    assert labels(tmp_path, ["spam\tx", "\ty"], several=True) == ("spam",)


@pytest.mark.parametrize(
    ("lines", "several", "found"),
    [
        (["a\tx", "a\ty"], False, "the label `a` alone"),
        ([], False, "no label"),
        (["\tx"], True, "no label"),
    ],
)
def test_fewer_classes_than_can_be_told_apart_are_refused(
    tmp_path: Path, lines: list[str], several: bool, found: str
) -> None:
    with refuses(f"`data.train` has {found}, but a classifier needs two classes to tell apart."):
        labels(tmp_path, lines, several)


@pytest.mark.parametrize("kind", ["byte_bpe", "char", "wordpiece", "unigram"])
def test_the_sentences_of_a_document_are_the_pieces_of_the_whole_text(kind: str, tmp_path: Path) -> None:
    text = "The cat sleeps. The dog barks! A bird sings."
    config: AnyTokenizer = TypeAdapter(AnyTokenizer).validate_python({"kind": kind, "size": 300})
    tokenizer = train_tokenizer(config, [text, "The cat barks. A dog sings."])
    made = document_store([split_sentences(text)], tokenizer)
    assert made.sentence("text", 0).tolist() == tokenizer.encode(text)
    assert made.sentence("sentences", 0).tolist() == [
        len(tokenizer.encode(f"{' ' if place and tokenizer.spells_spaces else ''}{sentence}"))
        for place, sentence in enumerate(split_sentences(text))
    ]


def test_the_sentences_of_a_labelled_document_are_found_before_capitals_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    corpus = tsv(tmp_path, "good\tAnt bee. Cat dog.", "bad\tDog.")
    lower = train_tokenizer(Words(kind="word"), ["ant bee. cat dog. dog."])
    made = store(corpus, tmp_path, lower, labels=("bad", "good"), documents=True, lowercase=True)
    assert [made.sentence("sentences", row).tolist() for row in (0, 1)] == [[2, 2], [1]]
    assert made.sentence("text", 0).tolist() == lower.encode("ant bee. cat dog.")
