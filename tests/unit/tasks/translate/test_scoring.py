"""Forced decoding: log probabilities of given targets, alone and by an ensemble."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.models.bundle import Bundle
from heedful.tasks.translate.model import Translator

SOURCES = ["ant bee cat", "dog", "ant ant bee dog cat", ""]
TARGETS = ["cat bee", "dog dog dog ant", "", "bee"]


def naive(models: list[Translator], source: str, target: str) -> list[float]:
    """One pair at a time, full scores, float64 sums."""
    inputs, outputs = models[0].encode([source])[0], models[0].vocabularies["target"].encode(target)
    each = []
    for model in models:
        model.network.eval()
        with torch.inference_mode():
            logits = model.network(Packed.of([[*inputs, END]]), Packed.of([[BEGIN, *outputs]]))
        each.append(logits.double().softmax(1))
    mean = torch.stack(each).mean(0)
    return [math.log(mean[place, token]) for place, token in enumerate([*outputs, END])]


def test_scores_equal_one_pair_at_a_time(untrained: Callable[..., Translator]) -> None:
    model = untrained()
    for scored, source, target in zip(model.score(SOURCES, TARGETS), SOURCES, TARGETS, strict=True):
        assert scored.log_probabilities == pytest.approx(naive([model], source, target), abs=1e-4)
        assert scored.pieces == (*target.split(), "</s>")
        assert scored.log_probability == pytest.approx(sum(scored.log_probabilities))
        assert scored.per_piece == pytest.approx(scored.log_probability / (len(target.split()) + 1))


def test_several_models_speak_with_their_mean_probability(untrained: Callable[..., Translator]) -> None:
    one, other = untrained(), untrained(layers=2)
    both = Translator(*(Bundle(model.recipe, one.vocabularies, model.network) for model in (one, other)))
    for scored, source, target in zip(both.score(SOURCES, TARGETS), SOURCES, TARGETS, strict=True):
        assert scored.log_probabilities == pytest.approx(naive([one, other], source, target), abs=1e-4)


def test_what_a_search_finds_has_the_score_of_forced_decoding(reversing: Translator) -> None:
    for source in ["ant bee cat dog", "hen"]:
        for found in reversing.translate_detailed([source], nbest=3)[0]:
            (scored,) = reversing.score([source], [found.text])
            assert scored.log_probability == pytest.approx(found.log_probability, abs=1e-3)


def test_a_stream_gives_the_same_scores_in_chunks(reversing: Translator) -> None:
    pairs = list(zip(SOURCES, TARGETS, strict=True))
    whole = reversing.score(SOURCES, TARGETS)
    for streamed, scored in zip(reversing.score_stream(iter(pairs), chunk=2), whole, strict=True):
        assert streamed.log_probabilities == pytest.approx(scored.log_probabilities, abs=1e-4)


def test_dropout_is_off_while_scoring_and_stays_off(untrained: Callable[..., Translator]) -> None:
    model = untrained(dropout=0.5)
    model.network.train()
    assert model.score(SOURCES, TARGETS) == model.score(SOURCES, TARGETS)
    assert not model.network.training


def test_unequal_lists_are_refused(reversing: Translator) -> None:
    with refuses("2 sources, but 1 target: each source needs one."):
        reversing.score(["ant", "bee"], ["cat"])


def test_a_target_without_enough_positions_is_refused(untrained: Callable[..., Translator]) -> None:
    message = r"^here, line 2: the reference has 10 tokens with `</s>`, but this model has positions for 9"
    with pytest.raises(UserError, match=message):
        list(untrained().score_stream([("ant", "bee"), ("ant", " ".join(["bee"] * 9))], name="here"))


def test_what_comes_before_a_mistake_is_scored(untrained: Callable[..., Translator]) -> None:
    pairs = [("ant", "bee"), ("bee", "cat"), ("ant", " ".join(["bee"] * 9)), ("ant", "ant")]
    stream = untrained().score_stream(pairs, name="here")
    assert [next(stream).pieces, next(stream).pieces] == [("bee", "</s>"), ("cat", "</s>")]
    with refuses("here, line 3: ..."):
        next(stream)


def test_a_pair_is_scored_before_the_next_is_awaited(reversing: Translator) -> None:
    taken: list[str] = []

    def arriving() -> Iterator[tuple[str, str]]:
        for source in SOURCES:
            taken.append(source)
            yield source, source

    stream = reversing.score_stream(arriving(), ready=lambda: False)
    next(stream)
    assert taken == SOURCES[:1]
