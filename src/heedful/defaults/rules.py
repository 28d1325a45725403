"""What a rule is: a key, when it is decided, and its value, both functions of a case.

Rules are read from top to bottom: the first one of a key whose condition holds decides it, unless the recipe sets the
key. Values may depend on those that rules above have decided.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from heedful.config.model.transformer import TRANSFORMER_PRESETS
from heedful.config.section import Section
from heedful.config.task_rules import Tables
from heedful.defaults.facts import LITTLE, CorpusFacts, Row

PAPER: Final = 4000  # warm-up updates of the default schedule
_SHAPE: Final = ("preset", "width", "heads", "layers", "inner")


@dataclass
class Case:
    """A recipe, its corpus, and what was decided so far; a task whose rules ask for more derives its own."""

    recipe: Tables
    facts: CorpusFacts
    decided: dict[str, Any] = field(default_factory=dict)

    def sets(self, path: str) -> bool:
        """Whether the recipe sets a key; neither the dropout of a preset nor an empty table is set."""
        table: Any = self.recipe
        for key in path.split("."):
            if key not in getattr(table, "model_fields_set", ()):
                return False
            preset = TRANSFORMER_PRESETS.get(getattr(table, "preset", None) or "", {})
            if key == "dropout" and preset.get(key) == table.dropout:
                return False
            table = getattr(table, key)
        return not isinstance(table, Section) or bool(table.model_fields_set)

    def value(self, path: str) -> Any:
        """Return the value of a key: what was decided, or what the recipe has."""
        if path in self.decided:
            return self.decided[path]
        table: Any = self.recipe
        for key in path.split("."):
            table = getattr(table, key)
        return table

    @property
    def little(self) -> bool:
        """Whether the corpus is small."""
        return self.facts.rows < LITTLE and not self.facts.more

    @property
    def validated(self) -> bool:
        """Whether there is validation data, on which a metric can choose the best model."""
        return bool(self.recipe.data.valid)

    @property
    def letters(self) -> int:
        """Characters of a token, about."""
        return 4

    @property
    def tokens(self) -> int:
        """Tokens of an epoch, about: texts are cut, and have markers."""
        mean = self.facts.size / max(1, self.facts.rows) / self.letters + 2
        return int(self.facts.rows * min(mean, self.value("data.max_length")))

    def updates(self, epochs: float) -> int:
        """Return the updates of some epochs, to two digits."""
        return rounded(epochs * self.tokens / self.value("data.batch_tokens"))

    @property
    def steps(self) -> int:
        """Updates of the run; about, where the recipe sets its epochs."""
        epochs = self.recipe.train.epochs
        return int(self.value("train.steps")) if epochs is None else self.updates(epochs)

    @property
    def open_ended(self) -> bool:
        """Whether the recipe does not set its epochs."""
        return not self.sets("train.epochs")

    @property
    def measured(self) -> bool:
        """Whether it is known how many updates the run has, at least about: epochs of a corpus that was counted."""
        return self.recipe.train.epochs is None or not self.facts.more

    @property
    def warmup(self) -> int:
        """Warm-up updates: a tenth of the run."""
        return min(PAPER, max(1, self.steps // 10))

    def grown(self, updates: int, batch: int, tokens: int, power: float) -> int:
        """Return the updates of a run that reads more tokens the larger its corpus is: (corpus / tokens)^power times.

        `updates` of `batch` tokens were measured to be enough with a corpus of `tokens`. A smaller corpus gets as many:
        it is read more often, and validation keeps the best model.
        """
        read = updates * batch * max(1.0, self.tokens / tokens) ** power
        return rounded(read / self.value("data.batch_tokens"))

    def batch(self, updates: int) -> int:
        """Return the tokens of a batch, of which an epoch has about `updates`; the longest text fits into it."""
        return max(int(self.value("data.max_length")) + 1, power_of_two(self.tokens / updates, 512, 4096))


AnyCase = TypeVar("AnyCase", bound=Case)


@dataclass(frozen=True)
class Rule(Generic[AnyCase]):
    """A key, when it is decided here, and its value."""

    key: str
    when: Callable[[AnyCase], bool]
    value: Callable[[AnyCase], Any]


@dataclass(frozen=True)
class TaskDefaults(Generic[AnyCase]):
    """The defaults of a task that depend on its corpus: rules, and what they have to know."""

    models: tuple[type[Section], ...]  # [model] tables that have rules
    noun: str  # what rows are called
    rows: Callable[[Tables], Iterable[Row]]  # of the training corpora
    case: type[AnyCase]
    rules: Sequence[Rule[AnyCase]]


def shape_is_open(case: Case, table: str) -> bool:
    """Whether a recipe sets none of the keys that define the shape of a Transformer in a table."""
    return not any(case.sets(f"{table}.{key}") for key in _SHAPE)


def rounded(value: float) -> int:
    """Return a number of at least 1 to two digits."""
    whole = max(1, round(value))
    return int(round(whole, -max(0, len(str(whole)) - 2)))


def power_of_two(value: float, least: int, most: int) -> int:
    """Return the largest power of two that is not above a value, within bounds."""
    return min(most, max(least, 1 << max(0, int(value)).bit_length() - 1 if value >= 1 else least))
