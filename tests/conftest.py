"""What every test shares: shapes are checked types, one thread a worker, the same examples in every run."""

import pytest
import torch
import torch.nn.attention.varlen  # what is first imported under the hook is compiled from source in every run: 10 s
from hypothesis import settings
from jaxtyping import install_import_hook

# Before anything imports them: from here on a wrong shape in a call is an error.
install_import_hook(["heedful.packed", "heedful.nn", "heedful.models"], "beartype.beartype")

settings.register_profile("tests", deadline=None, derandomize=True)
settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Two workers of pytest-xdist share two cores; more threads would fight over them."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """A test draws the same numbers whatever ran before it."""
    torch.manual_seed(0)
