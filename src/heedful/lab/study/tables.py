"""The tables of a study's page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from heedful.config.reading.toml import shown
from heedful.lab.compare import LEVEL
from heedful.pages.charts.drawing import escape

_PREFIXES: Final = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_NONE: Final = "–"
_DEVICES: Final = {"cuda": "GPU", "cpu": "CPU"}


def score_table(results: Mapping[str, Any]) -> str:
    """Return all cells with their scores, their difference from the base and its significance, and their costs."""
    metric, others = results["metric"], [name for name in results["labels"] if name != results["metric"]]
    head = [
        "cell", score_label(results, metric), "difference from the base", "p", "",
        *(score_label(results, name) for name in others),
    ]  # fmt: skip
    rows = []
    for cell in results["cells"]:
        ready, missing = len(cell["seeds"]), len(cell["failed"]) + len(cell["waiting"])
        seeds = f" <small>{ready} of {ready + missing} seeds</small>" if ready and missing else ""
        rows.append([
            f"<b>{escape(cell['name'])}</b>{seeds}", spread_text(cell["scores"].get(metric)),
            *_against(cell, results), *(spread_text(cell["scores"].get(name)) for name in others),
        ])  # fmt: skip
    return table(head, rows, "Scores")


def cost_table(results: Mapping[str, Any]) -> str:
    """Return what each cell costs: parameters, operations and time of training, and of an update where it was timed."""
    devices = [name for name in _DEVICES if any(name in (cell.get("timed") or {}) for cell in results["cells"])]
    head = [
        "cell", "parameters", "without embeddings", "updates", "skipped", "operations", "time of training",
        *(f"one update alone, {_DEVICES[name]}" for name in devices),
    ]  # fmt: skip
    rows = []
    for cell in results["cells"]:
        cost = cell["cost"]
        rows.append([
            f"<b>{escape(cell['name'])}</b>", short(cost["parameters"]), short(cost["without_embeddings"]),
            _whole(cost["steps"]), _whole(cost["skipped"]), short(cost["flop"], "FLOP"), _seconds(cost["seconds"]),
            *(_alone((cell.get("timed") or {}).get(name)) for name in devices),
        ])  # fmt: skip
    return table(head, rows, "Costs")


def change_table(results: Mapping[str, Any]) -> str:
    """Return what each cell changes in the base recipe."""
    rows = []
    for cell in results["cells"]:
        changes = [*([f"recipe {cell['recipe']}"] if cell["recipe"] else []), *cell["changes"]]
        lines = "<br>".join(f"<code>{escape(change)}</code>" for change in changes)
        rows.append([f"<b>{escape(cell['name'])}</b>", lines or "nothing: it is the base"])
    return table(["cell", "what it changes"], rows, "Changes")


def key_table(results: Mapping[str, Any]) -> str:
    """Return the keys in which the recipes of the cells differ; values that are not the base's are set off."""
    keys = sorted({key for cell in results["cells"] for key in cell["keys"]})
    values = {key: [cell["keys"].get(key) for cell in results["cells"]] for key in keys}
    differing = {key: row for key, row in values.items() if any(value != row[0] for value in row)}
    names = [cell["name"] for cell in results["cells"]]
    base = names.index(results["base"])
    rows = []
    for key, row in differing.items():
        cells = [_NONE if value is None else escape(shown(value)) for value in row]
        set_off = [text if value == row[base] else f"<b>{text}</b>" for value, text in zip(row, cells, strict=True)]
        rows.append([f"<code>{escape(key)}</code>", *set_off])
    return table(["key", *names], rows, "Keys that differ")


def failures(results: Mapping[str, Any]) -> str:
    """Return what failed or is not ready yet, as a list; empty where all is well."""
    lines = []
    for cell in results["cells"]:
        lines += [f"{cell['name']}, seed {one['seed']}: failed: {one['reason']}" for one in cell["failed"]]
        lines += [f"{cell['name']}, seed {seed}: not ready yet" for seed in cell["waiting"]]
    return "".join(["<ul>", *(f"<li>{escape(line)}</li>" for line in lines), "</ul>"]) if lines else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], title: str) -> str:
    """Return a table; cells of rows are markup, and the first of each is its heading."""
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'
        for first, *cells in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}"><table>'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )


def short(value: float | None, unit: str = "") -> str:
    """Return a number with a prefix: 2.4 M, or 1.1 PFLOP."""
    if value is None:
        return _NONE
    size, prefix = next(((size, prefix) for size, prefix in _PREFIXES if abs(value) >= size), (1.0, ""))
    return f"{value / size:.3g} {prefix}{unit}".strip()


def _against(cell: Mapping[str, Any], results: Mapping[str, Any]) -> list[str]:
    """Return the difference with its interval, the p-value, and the verdict in a word."""
    test = cell["against_base"]
    if cell["name"] == results["base"]:
        return ["the base", "", ""]
    if test is None:
        return [_NONE, _NONE, "failed" if cell["failed"] and not cell["seeds"] else ""]
    interval = f" [{test['low']:+.2f}, {test['high']:+.2f}]" if test.get("low") is not None else ""
    adjusted = test["p_adjusted"]
    p = _NONE if adjusted is None else "< 0.001" if adjusted < 0.001 else f"{adjusted:.3f}"
    return [f"{test['difference']:+.2f}{interval}", p, verdict(test)]


def verdict(test: Mapping[str, Any]) -> str:
    """Return whether a cell is better or worse than the base by more than chance, all tests of the study counted."""
    if test["p_adjusted"] is None:
        return ""
    within = test.get("low") is not None and test["low"] <= 0 <= test["high"]
    if test["p_adjusted"] >= LEVEL or within:
        return "no clear difference"
    return "worse" if (test["difference"] > 0) == test["lower"] else "better"


def score_label(results: Mapping[str, Any], name: str) -> str:
    """Return the name of a score, or of another figure of a curve, as a reader knows it."""
    return str(results["labels"].get(name, name.replace("_", " ")))


def spread_text(spread: Mapping[str, Any] | None) -> str:
    """Return a mean with half the width of its interval; a dash where there is none."""
    if spread is None:
        return _NONE
    if spread["low"] is None:
        return f"{spread['mean']:.2f}"
    return f"{spread['mean']:.2f} <small>± {(spread['high'] - spread['low']) / 2:.2f}</small>"


def _whole(value: float | None) -> str:
    return _NONE if value is None else f"{value:,.0f}"


def _alone(timed: Mapping[str, float] | None) -> str:
    """Return the median time of an update, with the shortest and the longest of the stretches."""
    if timed is None:
        return _NONE
    return f"{timed['ms']:.4g} ms <small>{timed['low']:.4g} to {timed['high']:.4g}</small>"


def _seconds(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:.0f} s" if value < 90 else f"{value / 60:.1f} min"
