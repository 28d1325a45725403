"""Requests of all tasks at once, that join late and whose neighbours go away, get the answers of requests alone."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from tests.golden.answers import differences
from tests.serve.questions import NAMES, answered_alone, bodies
from tests.serve.running import Running, abandoned, held, wait_until

from heedful.server.worker import Call

Model = Callable[[str], Any]
MANY = 32
MIXED = (
    "transformer",
    "recurrent-bahdanau",
    "language-llama",
    "classifier-bag",
    "parser",
    "bert",
    "captions-recurrent",
)


def left(call: Call) -> bool:
    """Whether nobody waits for a call any more."""
    return call.gone or call.done.done()


def questions(model: Any, count: int, chance: random.Random) -> list[dict[str, Any]]:
    """Different requests to one model."""
    words = ("the", "dog", "sees", "a", "small", "fish", "bird", "likes", "today", "tree")
    found = []
    for number in range(count):
        body = dict(bodies(model)[number % len(bodies(model))])
        if isinstance(body.get("text"), str) and "[MASK]" not in body["text"]:
            body["text"] = " ".join(chance.choices(words, k=chance.randint(1, 9)))
        found.append(body)
    return found


def test_32_requests_of_mixed_tasks_at_once_are_answered_as_alone(server: Running, alone: Model) -> None:
    chance = random.Random(1)
    asked = [(name, body) for name in MIXED for body in questions(alone(name), MANY // len(MIXED) + 1, chance)]
    chance.shuffle(asked)
    expected = [answered_alone(alone(name), body) for name, body in asked]
    begin = Barrier(len(asked))

    def ask(name: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        begin.wait()
        return server.results(f"/v1/{alone(name).recipe.rules.verb}", {"model": name, **body})

    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(ask, *zip(*asked, strict=True)))
    assert len(asked) >= MANY
    assert [differences(*both) for both in zip(expected, found, strict=True)] == [[]] * len(asked)


@pytest.mark.wide
def test_all_models_at_once_answer_as_each_alone(server: Running, alone: Model) -> None:
    asked = [(name, body) for name in NAMES for body in bodies(alone(name))] * 2
    random.Random(2).shuffle(asked)
    expected = [answered_alone(alone(name), body) for name, body in asked]
    with ThreadPoolExecutor(MANY) as pool:
        found = list(
            pool.map(
                lambda one: server.results(f"/v1/{alone(one[0]).recipe.rules.verb}", {"model": one[0], **one[1]}), asked
            )
        )
    assert [differences(*both) for both in zip(expected, found, strict=True)] == [[]] * len(asked)


@pytest.mark.parametrize(
    "name", ["transformer", "recurrent-bahdanau", "language-llama", "parser", "captions-transformer"]
)
def test_requests_that_join_late_next_to_cancelled_ones_are_answered_as_alone(
    server: Running, alone: Model, name: str
) -> None:
    model, chance = alone(name), random.Random(3)
    path, asked = f"/v1/{model.recipe.rules.verb}", questions(model, 6, chance)
    leaving = questions(model, 4, chance)
    with ThreadPoolExecutor(len(asked)) as pool, held(server.served(name)) as hold:
        waiting, arrived = [], 0
        for number, body in enumerate(asked):
            waiting.append(pool.submit(server.results, path, {"model": name, **body}))
            hold.arrived(arrived := arrived + 1)
            if number < len(leaving):
                goes = abandoned(server, path, {"model": name, **leaving[number]})
                hold.arrived(arrived := arrived + 1)
                hold.allow(number % 2)
                goes.close()
                wait_until(partial(left, hold.calls[-1]))
            hold.allow()
        hold.release()
        found = [one.result() for one in waiting]
    assert [differences(answered_alone(model, body), one) for body, one in zip(asked, found, strict=True)] == [[]] * 6
    wait_until(lambda: server.is_idle)
