"""One server of all old models, which the tests share."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from tests.serve.questions import NAMES, load
from tests.serve.running import Running, running


@pytest.fixture(scope="session")
def loaded(one_thread: None) -> Callable[[str], Any]:
    """Returns an old model by its name, as the servers have it."""
    return cache(load)


@pytest.fixture(scope="session")
def alone(one_thread: None) -> Callable[[str], Any]:
    """Returns an old model that no server has."""
    return cache(load)


@pytest.fixture(scope="session")
def server(loaded: Callable[[str], Any]) -> Iterator[Running]:
    """A server of all old models."""
    with running({name: loaded(name) for name in NAMES}) as one:
        yield one
