"""Which calls have their shapes checked: checking all of them took three quarters of the time of a long test."""

import jaxtyping
import torch

WHOLE = 150  # first calls of a test, all of which are checked; half as many in `make test`
EVERY = 61  # of the later ones, one in so many: a prime, so that no repeated pattern of calls escapes it


class SampledChecks(type(jaxtyping.config)):  # type: ignore[misc]
    """Settings of jaxtyping that turn its checks off and on while a test runs."""

    calls = 0
    whole = WHOLE

    def begin(self) -> None:
        """Start a test."""
        self.calls = 0

    @property
    def jaxtyping_disable(self) -> bool:
        """Whether this call goes unchecked; in a graph that is being traced, sizes are no numbers."""
        if torch.compiler.is_exporting():
            return True
        self.calls += 1
        return self.calls > self.whole and self.calls % EVERY != 0

    @jaxtyping_disable.setter
    def jaxtyping_disable(self, disabled: bool) -> None:
        """Take what jaxtyping read from the environment; these settings decide by themselves."""
