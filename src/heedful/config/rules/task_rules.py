"""The rules of a task: what its recipes may say and what its models are called, without torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from heedful.config.corpora import AnyCorpus
from heedful.config.model.any import AnyModel
from heedful.config.tables import Tables

Better = Literal["higher", "lower"]


def _accept(recipe: Tables) -> None:
    """Demand nothing more."""


@dataclass(frozen=True)
class TaskRules:
    """One row of the table of tasks. The other half of a task, which needs torch, is a `tasks.protocol.Task`."""

    name: str  # the value of the recipe's `task`
    does: str  # "translates": completes "a model that ..."
    verb: str  # the command that uses such a model: `heedful VERB`
    learner: str  # "a translator": what learns, in messages
    families: tuple[str, ...]  # values of `model.family` that can learn it
    metrics: Mapping[str, Better]  # what validation can go by
    takes: Callable[[AnyCorpus], bool]  # whether it can learn from a corpus
    needs: str  # what its corpora must have, in words
    vocabularies: tuple[str, ...]  # names of its tokenizers
    labels: bool = False  # whether its models have named classes
    searches: bool = False  # whether its models generate by a search, which [decode] and options describe
    own_keys: tuple[str, ...] = ()  # keys of a recipe that apply to some tasks only, this one among them
    tokens: str = "tokens"  # what speed is counted in
    label_smoothing: float = 0.0  # where the recipe does not say
    # Puts the task's head on the encoder of a start of another family; None where a start must be of the same family.
    on_encoder_of: Callable[[AnyModel, AnyModel], AnyModel] | None = None
    # Of evaluation:
    test_files: str | None = None  # what --source and --target hold, as a way out; None where they are not taken
    outputs: bool = True  # whether a model says something of each text that a file can hold
    same_vocabulary: bool = False  # whether scores of models have a mean only where they share their vocabularies
    same_keys: tuple[str, ...] = ()  # keys of recipes that must be equal for scores to have a mean
    check: Callable[[Tables], None] = _accept  # refuses tables that do not fit together, by a ValueError
