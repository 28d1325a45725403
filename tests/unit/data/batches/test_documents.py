"""Batches of documents against a naive loop over words: cuts, long sentences, end markers, and what is empty."""

from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.shared.examples import examples
from tests.shared.refusals import refuses

from heedful.base.packed import IGNORED, Nested, Packed
from heedful.data.batches.texts import Cut, DocumentCollator, TextBatch
from heedful.data.epochs.loader import RowFeed
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import END

CUTS: tuple[Cut, ...] = get_args(Cut)
Document = list[list[int]]  # the words of its sentences


def document_of(sizes: list[int]) -> Document:
    """Sentences of these lengths, each word another."""
    words = iter(range(4, 400))
    return [[next(words) for _ in range(size)] for size in sizes]


document = st.builds(document_of, st.lists(st.integers(1, 7), max_size=5))
corpus = st.lists(document, min_size=1, max_size=6)
settings_of_a_collator = {"max_length": st.integers(1, 20), "max_sentence": st.integers(1, 6)}


def store_of(documents: list[Document], **streams: list[list[int]]) -> TokenStore:
    return TokenStore.of(
        text=[[word for sentence in document for word in sentence] for document in documents],
        sentences=[[len(sentence) for sentence in document] for document in documents],
        **streams,
    )


def shuffled(count: int) -> Indices:
    return np.random.default_rng(count).permutation(count)


def nested(batch: TextBatch) -> Nested:
    assert isinstance(batch.inputs, Nested)
    return batch.inputs


def documents_of(batch: TextBatch) -> list[Document]:
    """A batch taken apart again."""
    text = nested(batch)
    sentences = [values.tolist() for values in text.words.split()]
    ends = text.sentences.offsets.tolist()
    return [sentences[begin:end] for begin, end in pairwise(ends)]


def read_by_hand(document: Document, max_length: int, max_sentence: int, cut: Cut) -> Document:
    """Word by word: what stays of the whole, in sentences that end where they ended, and where they are too long."""
    places = [(number, word) for number, sentence in enumerate(document) for word in sentence]
    while len(places) > max_length:
        places.pop({"end": -1, "start": 0, "middle": len(places) // 2}[cut])
    read: Document = []
    before = None
    for number, word in places:
        if number != before or len(read[-1]) == max_sentence:
            read.append([])
        read[-1].append(word)
        before = number
    return [[*sentence, END] for sentence in read]


@pytest.mark.parametrize("cut", CUTS)
@given(documents=corpus, **settings_of_a_collator)
def test_documents_are_read_sentence_by_sentence_each_with_its_end(
    documents: list[Document], max_length: int, max_sentence: int, cut: Cut
) -> None:
    collator, order = DocumentCollator(max_length, max_sentence, cut), shuffled(len(documents))
    store = store_of(documents, label=[[number % 3] for number in range(len(documents))])
    batch = collator.batch([store], order)
    expected = [read_by_hand(documents[i], max_length, max_sentence, cut) for i in order]
    assert documents_of(batch) == expected
    sizes = [sum(map(len, document)) for document in expected]
    assert (batch.sentences, batch.tokens) == (len(documents), sum(sizes))
    assert batch.labels.tolist() == [i % 3 for i in order]
    (costs,) = collator.costs([store], order)
    assert costs.tolist() == sizes


@examples(30)
@given(corpus)
def test_layouts_of_words_and_of_sentences_equal_their_definition(documents: list[Document]) -> None:
    text = nested(DocumentCollator(12, 3).batch([store_of(documents)], np.arange(len(documents))))
    again = Nested.of([read_by_hand(document, 12, 3, "end") for document in documents])
    for one, two in ((text.words.layout, again.words.layout), (text.sentences, again.sentences)):
        assert torch.equal(one.offsets, two.offsets)
        assert torch.equal(one.positions, two.positions)
        assert one.bound == max(1, two.bound)


@examples(30)
@given(corpus, corpus)
def test_several_stores_are_one_after_the_other(one: list[Document], two: list[Document]) -> None:
    together, collator = [*one, *two], DocumentCollator(9, 3, "middle")
    order = np.random.default_rng(len(together)).permutation(np.arange(len(together)).repeat(2))
    stores = [store_of(one), store_of(two)]
    assert documents_of(collator.batch(stores, order)) == [read_by_hand(together[i], 9, 3, "middle") for i in order]
    assert collator.costs(stores, order)[0].tolist() == collator.costs([store_of(together)], order)[0].tolist()


def test_several_labels_are_ones_in_a_row_of_classes() -> None:
    store = store_of([[[5]], [[6, 7]], []], label=[[0, 2], [], [1]])
    batch = DocumentCollator(9, 9, classes=3).batch([store], np.array([2, 0, 1]))
    assert batch.labels.tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]


def test_documents_without_labels_have_none_that_counts() -> None:
    assert DocumentCollator(9, 9).batch([store_of([[[5]], []])], np.arange(2)).labels.tolist() == [IGNORED, IGNORED]


@pytest.mark.parametrize("documents", [[[]], [[], [], []], [[], [[5, 6]], []]])
def test_documents_without_a_word_stay_documents(documents: list[Document]) -> None:
    batch = DocumentCollator(9, 9).batch([store_of(documents)], np.arange(len(documents)))
    assert documents_of(batch) == [[[*sentence, END] for sentence in document] for document in documents]
    assert nested(batch).sentences.sentences == len(documents)


def test_an_epoch_shows_every_document_once_within_the_budget() -> None:
    documents = [document_of([1 + i % 4] * (i % 5)) for i in range(40)]
    feed = RowFeed([store_of(documents)], [1.0], DocumentCollator(12, 3), seed=1, batch_tokens=30)
    batches = [feed.batch(indices) for indices in feed.plan(0)]
    shown = [document for batch in batches for document in documents_of(batch)]
    assert sorted(shown) == sorted(read_by_hand(document, 12, 3, "end") for document in documents)
    assert max(batch.tokens for batch in batches) <= 30


def test_a_document_over_the_budget_is_refused_with_its_end_markers() -> None:
    feed = RowFeed([store_of([document_of([1] * 20)])], [1.0], DocumentCollator(10, 3), seed=1, batch_tokens=19)
    with refuses("`data.batch_tokens` is 19, but a text in `data.train` needs 20 token..."):
        next(feed.plan(0))


def test_words_and_documents_must_count_the_same_sentences() -> None:
    text = nested(DocumentCollator(9, 9).batch([store_of([[[5], [6]], [[7]]])], np.arange(2)))
    message = r"^words of 2 sentences, but documents of 3: both must have the same sentences$"
    with pytest.raises(ValueError, match=message):
        Nested(Packed.of([[5], [6]]), text.sentences)


@examples(40)
@given(corpus=corpus, cut=st.sampled_from(CUTS), **settings_of_a_collator)
def test_letters_stay_with_their_words_however_documents_are_cut(
    corpus: list[Document], cut: Cut, max_length: int, max_sentence: int
) -> None:
    """Word 7 has the letters 7 7 7, word 8 has none, word 9 has 9 9 9, and so on."""
    words = [[word for sentence in document for word in sentence] for document in corpus]
    spelled = [[-word % 4 + (word % 4 == 3) * 2 for word in document] for document in words]
    letters = [
        [word for word, count in zip(document, counts, strict=True) for _ in range(count)]
        for document, counts in zip(words, spelled, strict=True)
    ]
    store = store_of(corpus, letters=letters, spelled=spelled)
    batch = DocumentCollator(max_length, max_sentence, cut, letters=True).batch([store], shuffled(len(corpus)))
    found = nested(batch).words
    assert found.letters is not None
    for word, of_word in zip(found.values.tolist(), found.letters.split(), strict=True):
        count = 0 if word == END else -word % 4 + (word % 4 == 3) * 2
        assert of_word.tolist() == [word] * count
