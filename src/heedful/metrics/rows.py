"""A metric as one row of its task's table, from which everything else follows: which values the recipe's
`train.validation.metric` may have, the scores of validations and evaluations, JSON, comparisons and studies.

This module imports neither torch nor numpy, so that the rules of a task can read its rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from heedful.config.decode import MetricName
from heedful.config.task_rules import Better

if TYPE_CHECKING:
    from heedful.metrics.edits import Floats

Result = TypeVar("Result", contravariant=True)
Unit = Literal["number", "percent", "loss"]  # percent: of a share between 0 and 1


def _no_note(result: Any) -> str:
    return ""


@dataclass(frozen=True, eq=False)
class ItemCounts:
    """What the items of a test set, such as sentences, add to sums from which a score follows: see `ItemScore`."""

    signature: str  # what is counted
    of_sums: "Callable[[Floats], Floats]"  # summed counts [..., counts] -> scores [...]
    counts: "Callable[[], Floats]"  # of each item [items, counts]


@dataclass(frozen=True, eq=False)
class ItemValues:
    """Values of the items of a test set whose mean is a score, between 0 and 1."""

    signature: str  # what has these values
    values: Sequence[float]


@dataclass(frozen=True)
class MetricRow(Generic[Result]):
    """A metric of a task: a number for what a model predicted next to what is true, the result.

    Two rows may have the same name if no result has a value for both.
    """

    name: str  # in recipes, records and JSON
    label: str  # human-readable name
    value: Callable[[Result], float | None]  # None where the metric does not apply to a result
    better: Better = "higher"
    unit: Unit = "percent"
    note: Callable[[Result], str] = _no_note  # what is shown after the value
    items: Callable[[Result], ItemCounts | ItemValues] | None = (
        None  # what each item adds; None: models are not compared by it
    )
    validated: bool = True  # whether each validation computes it
    main: bool = False  # whether comparisons and studies use it before the others

    @classmethod
    def mean(
        cls,
        name: str,
        label: str,
        signature: str,
        values: Callable[[Result], Sequence[float]],
        note: Callable[[Result], str] = _no_note,
    ) -> "MetricRow[Result]":
        """Return the mean of a value between 0 and 1 of each item; `signature` says what has these values."""

        def mean(result: Result) -> float:
            found = values(result)
            return sum(found) / max(1, len(found))

        return cls(name, label, mean, note=note, items=lambda result: ItemValues(signature, values(result)))


Rows = Sequence[MetricRow[Any]]  # in the order in which evaluations show them


def score_names(rows: Rows) -> tuple[str, ...]:
    """Return the names of all metrics, the main one first."""
    return tuple(dict.fromkeys(row.name for row in sorted(rows, key=lambda row: not row.main)))


def validation_metrics(rows: Rows) -> dict[str, Better]:
    """Return which of higher and lower values of each metric of validations are better, the loss first."""
    validated = [row for row in rows if row.validated]
    return {row.name: row.better for row in sorted(validated, key=lambda row: row.name != "loss")}


def compared_metrics(rows: Rows) -> tuple[str, ...]:
    """Return the names of the metrics that models can be compared by, the main one first."""
    compared = {row.name for row in rows if row.items is not None}
    return tuple(name for name in score_names(rows) if name in compared)


def validation_scores(rows: Rows, result: Any) -> dict[str, float]:
    """Return the values of the metrics of validations, in the order of `validation_metrics`."""
    found = {row.name: value for row in rows if row.validated and (value := row.value(result)) is not None}
    return {name: found[name] for name in validation_metrics(rows) if name in found}


# --- metrics of texts that a model writes, such as translations: rows of a `TextEvaluation` ---------------------------

LOSS: Final = MetricRow[Any]("loss", "loss", lambda found: found.likelihood.loss, "lower", "loss")
PERPLEXITY: Final = MetricRow[Any](
    "perplexity",
    "perplexity",
    lambda found: found.likelihood.perplexity,
    "lower",
    "number",
    lambda found: f"over {found.likelihood.tokens:,} {found.tokens}",
)


def _of_texts(name: MetricName, label: str, better: Better = "higher") -> MetricRow[Any]:
    return MetricRow(
        name,
        label,
        lambda texts: texts.signed(name).score,
        better,
        "number",
        lambda texts: texts.signed(name).signature,
    )


TEXT_METRICS: Final[Mapping[str, MetricRow[Any]]] = {
    row.name: row
    for row in (
        _of_texts("bleu", "BLEU"),
        _of_texts("chrf", "chrF"),
        _of_texts("ter", "TER", "lower"),
        MetricRow[Any](
            "exact_match",
            "exact",
            lambda found: found.exact_match,
            note=lambda found: f"{found.exact:,} of {len(found.texts):,}",
        ),
        _of_texts("edit_distance", "edit distance", "lower"),
        _of_texts("per", "PER", "lower"),
        _of_texts("wer", "WER", "lower"),
    )
}
WRITTEN_TEXTS: Final = (*TEXT_METRICS.values(), PERPLEXITY)  # the rows of all tasks whose models write texts
