"""The checks by the names that the lists use: the public functions of these modules."""

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from heedful.texts.checks import attention, recurrent, training, transformer
from heedful.texts.checks.computed import Computed

CHECKS: Final[Mapping[str, Callable[[], Computed]]] = {
    name: check
    for module in (recurrent, attention, transformer, training)
    for name, check in vars(module).items()
    if inspect.isfunction(check) and check.__module__ == module.__name__ and not name.startswith("_")
}
