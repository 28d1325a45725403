"""The checks by the names that the lists use: the public functions of these modules."""

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from heedful.texts.checks import attention, heads, layers, optimizers, recurrent, training, transformer
from heedful.texts.checks.computed import Computed
from heedful.texts.checks.models import architecture, bert, inputs, norms, published, search, sequence_to_sequence
from heedful.texts.checks.thesis import gates, kinds, rates, recurrence, scores, stacks, translators
from heedful.texts.checks.tutorial import (
    bleu,
    blocks,
    cells,
    language,
    pooling,
    printed_classes,
    recipes,
    stability,
    through_time,
)

_SHARED: Final = (recurrent, attention, heads, layers, transformer, training, optimizers)
_MODELS: Final = (architecture, bert, inputs, norms, published, search, sequence_to_sequence)
_THESIS: Final = (recurrence, gates, translators, scores, kinds, stacks, rates)
_TUTORIAL: Final = (language, bleu, through_time, cells, pooling, printed_classes, blocks, recipes, stability)

CHECKS: Final[Mapping[str, Callable[[], Computed]]] = {
    name: check
    for module in (*_SHARED, *_MODELS, *_THESIS, *_TUTORIAL)
    for name, check in vars(module).items()
    if inspect.isfunction(check) and check.__module__ == module.__name__ and not name.startswith("_")
}
