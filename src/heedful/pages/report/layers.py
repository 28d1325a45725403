"""The curves of instruments: what a run measured of each layer, where its recipe has `train.instruments`."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from heedful.pages.charts.lines import Series
from heedful.pages.report.curves import Figure, thin
from heedful.pages.report.record import RunRecord, run_names, value_of

ByLayer = dict[str, float]  # a value for each layer, or for the attention of each


def layer_figures(records: Sequence[RunRecord]) -> list[Figure]:
    """Return a figure of each quantity and run: gradients, updates relative to weights, entropies of attention."""
    rows: tuple[tuple[str, str, str, bool, Callable[[Mapping[str, Any]], ByLayer]], ...] = (
        ("gradients", "Norm of the gradient of each layer", "", True, _gradients),
        ("updates", "Update divided by weights of each layer", "", True, _updates),
        ("entropy", "Entropy of attention, mean over heads", "nats", False, _entropies),
    )
    named = [*zip(run_names(records), records, strict=True)]
    found = []
    for key, title, unit, log, values in rows:
        for number, (name, record) in enumerate(named, start=1):
            several = (f"{title}: {name}", f"layer-{key}-{number}") if len(named) > 1 else (title, f"layer-{key}")
            found.append(Figure(several[1], several[0], _series(record, values), unit, log))
    return [figure for figure in found if figure.shown]


def _series(record: RunRecord, values: Callable[[Mapping[str, Any]], ByLayer]) -> list[Series]:
    measured = [(int(entry["step"]), values(entry)) for entry in record.instruments if value_of(entry, "step")]
    kept: list[tuple[int, ByLayer]] = thin(measured)
    layers = dict.fromkeys(layer for _, one in kept for layer in one)
    steps = [step for step, _ in kept]
    return [Series(layer, steps, [one.get(layer, math.nan) for _, one in kept]) for layer in layers]


def _gradients(entry: Mapping[str, Any]) -> ByLayer:
    """Return the norm over all weights of each layer."""
    return _norms(entry, "gradient")


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
