"""The curves of a report: which values of runs are drawn together, under which names."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from heedful.pages.charts.lines import Series, line_chart
from heedful.pages.report.log import Entry
from heedful.pages.report.record import RunRecord, run_names, value_of

_WIDTH, _HEIGHT = 460, 290  # of a chart
_MOST: Final = 1000  # points of a curve: more than its columns of pixels
_SCORES: Final = {
    "bleu": "BLEU", "chrf": "chrF", "ter": "TER", "f1": "F1", "per": "Phoneme error rate", "wer": "Word error rate",
}  # fmt: skip
_LIKELIHOOD: Final = ("loss", "perplexity")
_BASELINE: Final = "baseline_"


@dataclass(frozen=True)
class Figure:
    """Curves over the steps of training, in one chart."""

    name: str  # an identifier
    title: str
    series: Sequence[Series] = field(default_factory=tuple)
    y_label: str = ""
    log: bool = False

    @property
    def shown(self) -> bool:
        """Whether there is anything to draw."""
        return any(math.isfinite(value) for one in self.series for value in one.y)

    def svg(self) -> str:
        """Draw the figure."""
        return line_chart(
            self.series, title=self.title, x_label="step", y_label=self.y_label, log_y=self.log,
            width=_WIDTH, height=_HEIGHT,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the points as JSON values; a value that is not finite is None."""
        series = [
            {"name": one.name, "x": list(one.x), "y": [value if math.isfinite(value) else None for value in one.y]}
            for one in self.series
        ]
        return {"name": self.name, "title": self.title, "series": series}


def figures(records: Sequence[RunRecord]) -> list[Figure]:
    """Return all figures that have values: what the model learns, its scores, and how training went."""
    found = [*_likelihood(records), *_scores(records), *_training(records)]
    return [figure for figure in found if figure.shown]


def _likelihood(records: Sequence[RunRecord]) -> Iterator[Figure]:
    """Yield loss and perplexity: of one run in training and validation together, of several runs apart."""
    validated = {name for record in records for entry in record.valid for name in entry}
    for key, title in (("loss", "Loss"), ("perplexity", "Perplexity")):
        if key == "perplexity" and key not in validated:
            continue  # of classes it is not of interest
        log = key == "perplexity"
        if len(records) == 1:
            both = (_series("training", records[0].train, key), _series("validation", records[0].valid, key))
            yield Figure(key, title, [*(one for one in both if one.x), *_baselines(records, key, 2)], log=log)
        else:
            yield Figure(f"training-{key}", f"{title} in training", _of_runs(records, "train", key), log=log)
            series = [*_of_runs(records, "valid", key), *_baselines(records, key, len(records))]
            yield Figure(f"validation-{key}", f"{title} in validation", series, log=log)


def _scores(records: Sequence[RunRecord]) -> Iterator[Figure]:
    """Yield a figure for every other metric of the validations, the deciding one first, with its baseline."""
    metrics = dict.fromkeys(record.metric for record in records)
    metrics |= dict.fromkeys(name for record in records for entry in record.valid for name in entry)
    for metric in metrics:
        if metric in ("step", "part", *_LIKELIHOOD) or metric.startswith(_BASELINE):
            continue
        series = _of_runs(records, "valid", metric)
        baselines = _baselines(records, metric, len(records))
        if len(records) == 1:
            series = [replace(one, name="model") for one in series] if baselines else series
        title = _SCORES.get(metric, metric.replace("_", " ").capitalize())
        yield Figure(f"score-{metric}", f"{title} in validation", [*series, *baselines])


def _baselines(records: Sequence[RunRecord], metric: str, colour: int) -> list[Series]:
    """Return the line to beat of each run that has one for a metric, in colours from this one on."""
    return [
        replace(one, name=f"baseline of {one.name}" if len(records) > 1 else "baseline", colour=colour + index)
        for index, one in enumerate(_of_runs(records, "valid", _BASELINE + metric))
    ]


def _training(records: Sequence[RunRecord]) -> Iterator[Figure]:
    """Yield how training went: learning rate, gradient, speed, waiting."""
    tokens = records[0].tokens
    rows = (
        ("learning_rate", "Learning rate", "", 1),
        ("gradient_norm", "Norm of the gradient", "", 1),
        ("tokens_per_second", "Speed", f"{tokens} per second", 1),
        ("data_wait", "Time spent waiting for data", "percent", 100),
    )
    for key, title, unit, scale in rows:
        series = _of_runs(records, "train", key, scale)
        yield Figure(key, title, series, unit, log=key == "gradient_norm" and _spans(series))
    if any(value_of(entry, "skipped") for record in records for entry in record.train):
        yield Figure("skipped", "Updates without a finite gradient", _of_runs(records, "train", "skipped"), "updates")


def _of_runs(records: Sequence[RunRecord], part: Literal["train", "valid"], key: str, scale: float = 1) -> list[Series]:
    """Return the curve of each run that has the value, times the scale, in the colour of the run."""
    named = zip(run_names(records), records, strict=True)
    found = [
        replace(_series(name, record.train if part == "train" else record.valid, key, scale), colour=index)
        for index, (name, record) in enumerate(named)
    ]
    return [one for one in found if one.x]


def _spans(series: Sequence[Series]) -> bool:
    """Whether values span so many powers of ten that a linear axis shows the greatest alone."""
    values = [value for one in series for value in one.y if math.isfinite(value) and value > 0]
    return bool(values) and max(values) > 100 * min(values)


def _series(name: str, entries: Sequence[Entry], key: str, scale: float = 1) -> Series:
    """Return a curve over steps; where a value is not finite it has a gap."""
    points = [(int(entry["step"]), value_of(entry, key)) for entry in entries if key in entry]
    kept = thin(points)
    return Series(name, [step for step, _ in kept], [math.nan if y is None else scale * y for _, y in kept])


def thin(points: Sequence[Any], most: int = _MOST) -> list[Any]:
    """Return at most `most` of the points, at equal distances, the last one included."""
    if len(points) <= most:
        return list(points)
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]


# --- the curves of instruments: what a run measured of each layer, where its recipe has `train.instruments` -----------


ByLayer = dict[str, float]  # a value for each layer, or for the attention of each


def layer_figures(records: Sequence[RunRecord]) -> list[Figure]:
    """Return a figure of each quantity and run: gradients, updates relative to weights, entropies of attention."""
    rows: tuple[tuple[str, str, str, bool, Callable[[Mapping[str, Any]], ByLayer]], ...] = (
        ("gradients", "Norm of the gradient of each layer", "", True, partial(_norms, name="gradient")),
        ("updates", "Update divided by weights of each layer", "", True, _updates),
        ("entropy", "Entropy of attention, mean over heads", "nats", False, _entropies),
    )
    named = [*zip(run_names(records), records, strict=True)]
    found = []
    for key, title, unit, log, values in rows:
        for number, (name, record) in enumerate(named, start=1):
            several = (f"{title}: {name}", f"layer-{key}-{number}") if len(named) > 1 else (title, f"layer-{key}")
            found.append(Figure(several[1], several[0], _layer_series(record, values), unit, log))
    return [figure for figure in found if figure.shown]


def _layer_series(record: RunRecord, values: Callable[[Mapping[str, Any]], ByLayer]) -> list[Series]:
    measured = [(int(entry["step"]), values(entry)) for entry in record.instruments if value_of(entry, "step")]
    kept: list[tuple[int, ByLayer]] = thin(measured)
    layers = dict.fromkeys(layer for _, one in kept for layer in one)
    steps = [step for step, _ in kept]
    return [Series(layer, steps, [one.get(layer, math.nan) for _, one in kept]) for layer in layers]


def _updates(entry: Mapping[str, Any]) -> ByLayer:
    """Return the norm of each layer's update, divided by that of its weights."""
    updates, weights = _norms(entry, "update"), _norms(entry, "weight")
    return {layer: updates[layer] / weights[layer] for layer in updates if weights.get(layer)}


def _entropies(entry: Mapping[str, Any]) -> ByLayer:
    found = {}
    for one in _rows(entry, "attention"):
        heads = one.get("entropy")
        known = [head for head in heads if isinstance(head, int | float)] if isinstance(heads, list) else []
        if known:
            found[f"{one.get('layer')}, {one.get('kind')}"] = sum(known) / len(known)
    return found


def _norms(entry: Mapping[str, Any], name: str) -> ByLayer:
    """Return sqrt(sum of squares) over the parts of each layer; NaN where a part is not finite."""
    squares: ByLayer = {}
    for part in _rows(entry, "weights"):
        layer, value = str(part.get("layer")), value_of(part, name)
        squares[layer] = squares.get(layer, 0.0) + (math.nan if value is None else value * value)
    return {layer: math.sqrt(square) for layer, square in squares.items()}


def _rows(entry: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    found = entry.get(name)
    return (one for one in found if isinstance(one, Mapping)) if isinstance(found, list) else iter(())
