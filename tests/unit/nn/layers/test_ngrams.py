"""Bags of n-grams: their definition, token by token, and what they must not depend on."""

import math

import pytest
import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.ngrams import NgramBag, hash_ngrams
from heedful.nn.layers.pooling import MeanPool

BUCKETS, WIDTH = 11, 4
TEXTS = [[5, 6, 7, 5, 6], [9], [6, 5, 8]]


def row_of(ngram: list[int], buckets: int = BUCKETS) -> int:
    """The row of an n-gram, by its definition, in numbers without end."""
    value = ngram[0] + 1
    for token in ngram[1:]:
        value = (value * 1_103_515_245 + token + 1) % (2**31 - 1)
    return value % buckets


def bag(longest: int) -> NgramBag:
    torch.manual_seed(1)
    made = NgramBag(_embedding(10), _embedding(BUCKETS) if longest > 1 else None, longest)
    if made.hashed is not None:
        nn.init.normal_(made.hashed.weight)
    return made


def _embedding(size: int) -> Embedding:
    return Embedding(nn.Parameter(torch.randn(size, WIDTH)), None, 0.0, scaled=False)


def by_definition(model: NgramBag, text: list[int]) -> Tensor:
    vectors = []
    for end in range(len(text)):
        x = model.embedding.weight[text[end]]
        for length in range(2, min(model.longest, end + 1) + 1):
            assert model.hashed is not None
            x = x + model.hashed.weight[row_of(text[end - length + 1 : end + 1])]
        vectors.append(x)
    return torch.stack(vectors)


@pytest.mark.parametrize("longest", [1, 2, 4])
@torch.no_grad()
def test_the_vector_of_a_token_is_the_sum_of_the_n_grams_that_end_at_it(longest: int) -> None:
    model = bag(longest)
    encoded = model(Packed.of(TEXTS))
    assert torch.allclose(encoded.values, torch.cat([by_definition(model, text) for text in TEXTS]))


def test_the_rows_of_n_grams_are_part_of_the_format() -> None:
    rows = hash_ngrams(torch.tensor([70_000, 3, 9_999_999]), longest=3, buckets=2**16)
    assert [row.tolist()[length - 1 :] for length, row in enumerate(rows, start=2)] == [[26532, 53302], [5741]]


def test_n_grams_that_were_never_trained_add_nothing() -> None:
    model = NgramBag(_embedding(10), _embedding(BUCKETS), 2)
    assert torch.equal(
        model(Packed.of(TEXTS)).values, model.embedding(Packed.of(TEXTS).values, Packed.of(TEXTS).layout)
    )


def tf_idf(model: NgramBag, text: list[int]) -> Tensor:
    """The vector of a text by its definition, n-gram by n-gram."""
    assert model.hashed is not None
    assert model.weights is not None
    rows = list(text)
    for length in range(2, model.longest + 1):
        ngrams = [text[end - length : end] for end in range(length, len(text) + 1)]
        rows += [10 + row_of(ngram, len(model.weights) - 10) for ngram in ngrams]
    table = torch.cat([model.embedding.weight, *[model.hashed.weight] * ((len(model.weights) - 10) // BUCKETS)])
    weights = {row: (1 + math.log(rows.count(row))) * float(model.weights[row]) for row in rows}
    length_of_all = math.sqrt(sum(weight**2 for weight in weights.values()))
    return torch.stack([weight / length_of_all * table[row] for row, weight in weights.items()]).sum(0)


@pytest.mark.parametrize(("longest", "per_bucket"), [(2, 1), (3, 1), (3, 4)])
@torch.no_grad()
def test_with_weights_the_mean_of_a_text_is_that_of_tf_idf(longest: int, per_bucket: int) -> None:
    torch.manual_seed(1)
    model = NgramBag(_embedding(10), _embedding(BUCKETS), longest, weighted=True, weights_per_bucket=per_bucket)
    assert model.hashed is not None
    assert model.weights is not None
    nn.init.normal_(model.hashed.weight)
    nn.init.uniform_(model.weights, 0.5, 2)
    text = Packed.of(TEXTS)
    vectors = MeanPool()(model(text).values, text.layout)
    assert torch.allclose(vectors, torch.stack([tf_idf(model, each) for each in TEXTS]), atol=1e-5)


def test_n_grams_are_counted_once_per_text() -> None:
    model = NgramBag(_embedding(10), _embedding(BUCKETS), 2, weighted=True)
    counts = model.count_texts(Packed.of(TEXTS))
    expected = torch.zeros(10 + BUCKETS, dtype=torch.int64)
    for text in TEXTS:
        for row in {*text, *(10 + row_of(text[end - 2 : end]) for end in range(2, len(text) + 1))}:
            expected[row] += 1
    assert torch.equal(counts, expected)


@torch.no_grad()
def test_an_n_gram_that_is_new_weighs_nothing_even_where_it_shares_the_vector_of_a_known_one() -> None:
    model = NgramBag(_embedding(10), _embedding(BUCKETS), 2, weighted=True, weights_per_bucket=50)
    assert model.hashed is not None
    assert model.weights is not None
    nn.init.normal_(model.hashed.weight)
    known, new = next(
        (one, other)
        for one in ([5, end] for end in range(10))
        for other in ([6, end] for end in range(10))
        if row_of(one) == row_of(other) and row_of(one, 50 * BUCKETS) != row_of(other, 50 * BUCKETS)
    )
    model.weights.zero_()
    model.weights[:10] = 1
    model.weights[10 + row_of(known, 50 * BUCKETS)] = 1
    text = Packed.of([new])
    alone = NgramBag(model.embedding, None, 1, weighted=True)
    assert torch.allclose(model(text).values, alone(text).values)
    _, rows, _ = model.features(Packed.of([known]))
    assert rows.tolist() == [*sorted(known), 10 + row_of(known)]
