"""The line that language models have to beat: Kneser-Ney counts, over the tokens that a validation predicts."""

import math
from itertools import chain
from typing import Any

import numpy as np
import pytest
from tests.unit.tasks.text_generators import language_bundle

from heedful.base.notes import show_nothing
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.metrics.language.kneser_ney import KneserNey
from heedful.tasks.generate import baseline
from heedful.tasks.generate.baseline import count_ngrams, likelihood_of
from heedful.tasks.generate.predicted_text import predicted_text

CHANCE = np.random.default_rng(3)
DOCUMENTS = [[BEGIN, *CHANCE.integers(4, 9, size).tolist(), END] for size in (30, 1, 45, 0, 12)]
STORE = TokenStore.of(text=DOCUMENTS)


@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("way", [{}, {"borders": "open"}, {"borders": "open", "recurrent": True}])
def test_the_same_tokens_are_predicted_as_by_the_model(way: dict[str, Any], most: int | None) -> None:
    bundle = language_bundle(max_length=10, **way)
    text = predicted_text(bundle.recipe, [STORE, STORE])
    by_model = text.likelihood(bundle.model.eval(), show_nothing, "", most)
    counts, _ = count_ngrams([STORE], bundle.vocabularies["text"].size, joined=bool(way))
    assert likelihood_of(counts, text.stretches(most)).tokens == by_model.tokens


def test_each_token_is_predicted_from_those_before_it_in_its_window() -> None:
    model = KneserNey.of(DOCUMENTS, 5, 20, modified=True)
    text = predicted_text(language_bundle(max_length=10).recipe, [STORE])
    total, tokens = 0.0, 0
    for document in DOCUMENTS:
        for begin in range(0, len(document) - 1, 10):
            window = document[begin : begin + 11]
            for place in range(1, len(window)):
                total -= model.log_probabilities(window[: place + 1])[-1]
                tokens += 1
    found = likelihood_of(model, text.stretches())
    assert found.total == pytest.approx(total)
    assert found.tokens == tokens
    assert found.perplexity == pytest.approx(math.exp(total / tokens))


@pytest.mark.parametrize("joined", [False, True])
def test_documents_are_counted_apart_or_as_one_text(joined: bool) -> None:
    texts = [[*chain(*DOCUMENTS)]] if joined else DOCUMENTS
    model, sample = count_ngrams([STORE], 20, joined)
    expected, asked = KneserNey.of(texts, 5, 20, modified=True), [END, BEGIN, 5, 6]
    assert model.log_probabilities(asked).tolist() == expected.log_probabilities(asked).tolist()
    assert sample == f"the {sum(map(len, DOCUMENTS))} training tokens"


@pytest.mark.parametrize("joined", [False, True])
def test_of_a_long_text_stretches_at_equal_distances_are_counted(joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "_MOST_TOKENS", 49)
    monkeypatch.setattr(baseline, "_STRETCHES", 4)
    found: list[list[list[int]]] = []
    monkeypatch.setattr(KneserNey, "of", lambda texts, *_, **__: found.append([text.tolist() for text in texts]))
    _, sample = count_ngrams([STORE], 20, joined)
    whole = [*chain(*DOCUMENTS)]
    assert sample == f"48 of {len(whole)} training tokens"
    parts = [whole[start : start + 12] for start in (0, 24, 49, 73)]
    (texts,) = found
    assert [*chain(*texts)] == [*chain(*parts)]
    assert joined == (texts == parts)
    assert joined or all(BEGIN not in text[1:] for text in texts)
