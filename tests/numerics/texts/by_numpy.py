"""What recomputes the checks of the texts in NumPy, by the names of checks."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from tests.numerics.texts import attention, recurrent, training
from tests.numerics.texts.equations import Inputs, Recomputed

from heedful.texts.checks.computed import compute, flat
from heedful.texts.checks.table import CHECKS

_OTHER_NAMES: Final = {  # where the name of a check is that of an equation
    "vanilla": recurrent.vanilla_alone,
    "lstm": recurrent.lstm_alone,
    "cross_attention": attention.attention_of_a_decoder,
    "feed_forward": attention.network,
}
BY_NUMPY: Final[Mapping[str, Callable[[Inputs], Recomputed]]] = _OTHER_NAMES | {
    name: made
    for module in (attention, recurrent, training)
    for name, made in vars(module).items()
    if name in CHECKS and name not in _OTHER_NAMES and made.__module__ == module.__name__
}


def difference(check: str) -> float:
    """Return the largest difference between a check's values and those that NumPy computes from the check's inputs."""
    computed, given = compute(CHECKS[check])
    inputs = [
        {name: one.numpy() for name, one in values.items()} if isinstance(values, dict) else values.numpy()  # type: ignore[union-attr]
        for values in given
    ]
    found = BY_NUMPY[check](inputs)
    pairs = ((computed.text, found.text), (computed.ours, found.heedful), (computed.right, found.corrected))
    largest = 0.0
    for theirs, mine in pairs:
        if theirs is None or mine is None:
            continue
        one, other = np.array(flat(theirs)), np.ravel(np.asarray(mine, dtype=np.float64))
        assert one.shape == other.shape, check
        finite = np.isfinite(other)
        assert np.array_equal(one[~finite], other[~finite]), check
        largest = max(largest, float(np.abs(one[finite] - other[finite]).max(initial=0.0)))
    return largest
