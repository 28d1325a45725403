"""The checks by the names that the lists use: the public functions of these modules."""

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from heedful.texts.checks import attention, recurrent, training, transformer
from heedful.texts.checks.computed import Computed
from heedful.texts.checks.thesis import gates, kinds, rates, recurrence, scores, stacks, translators

_THESIS: Final = (recurrence, gates, translators, scores, kinds, stacks, rates)

CHECKS: Final[Mapping[str, Callable[[], Computed]]] = {
    name: check
    for module in (recurrent, attention, transformer, training, *_THESIS)
    for name, check in vars(module).items()
    if inspect.isfunction(check) and check.__module__ == module.__name__ and not name.startswith("_")
}
