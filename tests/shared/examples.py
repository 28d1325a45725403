"""How many examples a property is tried with: a third of them in `make test`, all in `make test-all`."""

from hypothesis import settings

ALL = 30  # examples of a property that does not ask for another number
LEAST = 5
SHARE = 3


def load_profile(few: bool) -> None:
    """Tell Hypothesis the usual number of examples, before it sees any property; the same examples in every run."""
    settings.register_profile("tests", deadline=None, derandomize=True, max_examples=ALL // SHARE if few else ALL)
    settings.load_profile("tests")


def examples(count: int) -> settings:
    """Try a property with this number of examples; in `make test` with a third of them, but with five at least."""
    few = settings.get_profile("tests").max_examples < ALL
    return settings(max_examples=min(count, max(LEAST, count // SHARE)) if few else count)
