"""Test sets in a report: the scores of a run's model, by length too, and the items that it does best and worst."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from heedful.base.errors import counted
from heedful.pages.charts.bars import bar_chart
from heedful.pages.charts.drawing import escape
from heedful.pages.report.record import RunRecord, run_names
from heedful.pages.report.tables import table

_MOST: Final = 600  # characters of a text that are shown
_WIDTH, _HEIGHT = 640, 300  # of a chart


@dataclass(frozen=True)
class CorpusScore:
    """A score of a whole test set."""

    name: str
    label: str
    value: float | None  # None: not a finite number
    shown: str  # the value as people read it
    note: str = ""


@dataclass(frozen=True)
class LengthGroup:
    """The items with a number of words within a range."""

    words: str  # the range as people read it
    low: int
    high: int | None  # None: without an end
    size: int  # number of items
    scores: Mapping[str, float]  # by name


@dataclass(frozen=True)
class ScoredItem:
    """An item of a test set, what the model made of it, and how good that is."""

    number: int  # in the test set, from 1
    input: str
    output: str
    reference: str
    score: float


@dataclass(frozen=True)
class ItemReport:
    """What is shown of the items of a test set."""

    unit: str  # "sentence": what an item is
    score: str  # name of the score that orders items
    labels: Mapping[str, str]  # of scores by name
    size: int  # number of items
    unscored: int  # number of items that have nothing to score, such as sentences without spans
    lengths_of: str  # "reference": what has the lengths; empty where items do not consist of words
    lengths: Sequence[LengthGroup]
    best: Sequence[ScoredItem]
    worst: Sequence[ScoredItem]


@dataclass(frozen=True)
class EvaluatedCorpus:
    """The scores of a model on one corpus."""

    name: str  # or its number
    title: str  # its name, or its files
    scores: Sequence[CorpusScore]
    items: ItemReport | None  # None where the task has no scores of single items

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values, texts in full."""
        return {
            "name": self.name,
            "title": self.title,
            "scores": {score.name: score.value for score in self.scores},
            "items": None if self.items is None else asdict(self.items),
        }


def tests_section(records: Sequence[RunRecord], tests: Sequence[Sequence[EvaluatedCorpus]]) -> str:
    """Return the test sets of each run; nothing where none was evaluated."""
    parts = []
    for name, corpora in zip(run_names(records), tests, strict=True):
        for corpus in corpora:
            title = corpus.title if len(records) == 1 else f"{name}: {corpus.title}"
            parts.append(f"<h3>{escape(title)}</h3>{_scores(corpus)}{_items(corpus.items, title)}")
    return "".join(parts)


def cut_text(text: str, most: int = _MOST) -> str:
    """Return a text, or its start where it is long."""
    return text if len(text) <= most else f"{text[:most].rstrip()} … ({len(text):,} characters)"


def _scores(corpus: EvaluatedCorpus) -> str:
    rows = [[escape(score.label), escape(score.shown), escape(score.note)] for score in corpus.scores]
    return table(["", "score", ""], rows, f"Scores on {corpus.title}")


def _items(items: ItemReport | None, title: str) -> str:
    if items is None:
        return '<p class="note">Models of this task are scored on whole corpora: no item has a score of its own.</p>'
    label = items.labels[items.score]
    both = "".join(
        f"<div><h4>{which} {escape(items.unit)}s by {escape(label)}</h4>"
        f'<ol class="texts">{"".join(_item(items.unit, label, one) for one in some)}</ol></div>'
        for which, some in (("Best", items.best), ("Worst", items.worst))
        if some
    )
    notes = []
    if items.best and not items.worst:
        notes.append(f"No {items.unit} is worse than these.")
    if items.unscored:
        notes.append(f"Left out: {counted(items.unscored, items.unit)} with nothing to score by {label}.")
    noted = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    return f'{_by_length(items, title)}<div class="sides">{both}</div>{noted}'


def _by_length(items: ItemReport, title: str) -> str:
    """Return a chart of the score that orders items, and a table of all scores."""
    if not items.lengths:
        return ""
    label, of = items.labels[items.score], f"words of the {items.lengths_of}"
    chart = bar_chart(
        {group.words: group.scores[items.score] for group in items.lengths},
        title=f"{label} by length", x_label=of, width=_WIDTH, height=_HEIGHT,
    )  # fmt: skip
    head = [escape(of), escape(f"{items.unit}s"), *map(escape, items.labels.values())]
    rows = [
        [escape(group.words), f"{group.size:,}", *(f"{group.scores[name]:.2f}" for name in items.labels)]
        for group in items.lengths
    ]
    drawn = f'<div class="charts"><figure>{chart}</figure></div>'
    return drawn + table(head, rows, f"Scores by length: {title}", numbers=True)


def _item(unit: str, label: str, item: ScoredItem) -> str:
    texts = (("input", item.input), ("output", item.output), ("reference", item.reference))
    rows = "".join(f"<dt>{name}</dt><dd>{escape(cut_text(text)) or '–'}</dd>" for name, text in texts)
    title = escape(f"{unit} {item.number:,}: {label} {item.score:.2f}")
    return f'<li><p class="title">{title}</p><dl class="pair">{rows}</dl></li>'
