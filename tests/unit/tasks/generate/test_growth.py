"""Texts that grow side by side on an engine which somebody else lets tick."""

from itertools import pairwise
from typing import Any

import pytest
from tests.unit.tasks.text_generators import language_bundle

from heedful.tasks.generate.continuing import Growth, whole_text
from heedful.tasks.generate.model import TextGenerator

PROMPTS = ["the cat", "a dog", "Höhe"]


@pytest.fixture(scope="module", params=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest, one_thread: None) -> TextGenerator:
    bundle = language_bundle(recurrent=request.param == "recurrent")
    bundle.model.eval()
    return TextGenerator(bundle)


OPTIONS: list[Any] = [
    {"temperature": 0, "max_tokens": 30},  # the window slides
    {"temperature": 1.3, "max_tokens": 12, "samples": 3, "seed": 2},
    {"beam": 3, "samples": 2, "max_tokens": 12},
    {"temperature": 0, "max_tokens": 20, "stop": ["e", "at"]},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_texts_that_grow_are_those_of_a_call(model: TextGenerator, options: Any) -> None:
    work, samples, prompts = model.continuing(PROMPTS, options, "text")
    growth = Growth(work, work.begin(prompts))
    ended = 0
    while growth.left:
        growth.engine.work()
        ended += growth.advance()
    found = [whole_text(text, model.vocabularies["text"]) for text in growth.texts]
    alone = [one.text for prompt in PROMPTS for one in model.generate_detailed(prompt, **options)]
    assert found == alone
    assert ended == len(found) == samples * len(PROMPTS)
    assert growth.engine.idle
    assert growth.advance() == 0


def test_the_tokens_of_a_text_that_grows_are_a_part_of_all_later_ones(model: TextGenerator) -> None:
    work, _, prompts = model.continuing(["the cat"], {"temperature": 0, "max_tokens": 40}, "text")
    growth = Growth(work, work.begin(prompts), drafts=True)
    seen: list[tuple[int, ...]] = [growth.tokens()]
    while growth.left:
        growth.engine.work()
        growth.advance()
        seen.append(growth.tokens())
    for before, after in pairwise(seen):
        assert after[: len(before)] == before
    assert seen[0] == ()
    assert seen[-1] == growth.texts[0].tokens
    assert len({len(tokens) for tokens in seen}) > 20


def test_texts_that_are_cancelled_leave_an_idle_engine(model: TextGenerator) -> None:
    work, _, prompts = model.continuing(PROMPTS, {"temperature": 0, "max_tokens": 40}, "text")
    gone, stays = Growth(work, work.begin(prompts)), Growth(work, work.begin(prompts[:1]))
    for _ in range(3):
        gone.engine.work()
        gone.advance()
        stays.advance()
    gone.cancel()
    while stays.left:
        stays.engine.work()
        stays.advance()
    stays.engine.work()
    assert stays.engine.idle
    (alone,) = model.generate_detailed(PROMPTS[0], temperature=0, max_tokens=40)
    assert whole_text(stays.texts[0], model.vocabularies["text"]) == alone.text
