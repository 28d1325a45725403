"""A study's page: one file that needs nothing but itself, made from the study's results alone."""

from collections.abc import Mapping
from typing import Any, Final

from heedful.lab.study.figures import alignments, curve_charts, difference_chart, length_chart
from heedful.lab.study.instrument_figures import instrument_charts
from heedful.lab.study.tables import cost_table, failures, key_table, score_table
from heedful.pages.charts.drawing import escape
from heedful.pages.html import static_page

_STYLE: Final = """
table { border-collapse: collapse; font-size: .875rem; }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
thead th { color: var(--faint); font-weight: 500; }
tbody th { font-weight: 400; white-space: nowrap; }
td { white-space: nowrap; }
td small, td code { color: var(--soft); }
code { font-size: .8125rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.5rem 2rem; }
.conclusion { max-width: 46rem; }
"""


def study_page(results: Mapping[str, Any]) -> str:
    """Return the page of a study's results."""
    words = results["study"]
    sections = [
        _section("What was found", _conclusion(words["conclusion"])),
        _section("Scores", _scores(results)),
        _section("Failed or not ready", failures(results)),
        _section("By length", length_chart(results)),
        _section("One sentence", _sentence(results)),
        _section("Updates and gradients", _instruments(results)),
        _section("Curves", _curves(results)),
        _section("Costs", _costs(results)),
        _section("Recipes", _recipes(results)),
        _section("How it was measured", _method(results)),
    ]
    return static_page(
        words["title"] or results["name"],
        words["question"],
        "".join(sections),
        brand="Heedful study",
        footer="This file needs no network: keep it, or send it.",
        style=_STYLE,
    )


def _section(title: str, inner: str) -> str:
    return f'<section>\n<div class="head"><h2>{escape(title)}</h2></div>\n{inner}\n</section>\n' if inner else ""


def _conclusion(text: str) -> str:
    return "".join(
        f'<p class="conclusion">{escape(paragraph)}</p>\n' for paragraph in text.strip().split("\n\n") if paragraph
    )


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>\n'


def _scores(results: Mapping[str, Any]) -> str:
    if results["metric"] is None:
        return _note("No cell is ready yet.")
    seeds = len(results["study"]["seeds"])
    spread = f"Means of {seeds} seeds with their 95% intervals. " if seeds > 1 else "One seed per cell. "
    tests = (
        "The difference from the base has a 95% interval over test sentences and seeds; p is the greatest of all "
        "tests, adjusted for the number of cells."
    )
    return _note(spread + tests) + score_table(results) + difference_chart(results)


def _sentence(results: Mapping[str, Any]) -> str:
    drawn = alignments(results)
    note = f"“{results['study']['sentence']}”, translated by each model of the first seed: rows are what it writes, "
    return _note(note + "columns what it reads; each row shows where it looks.") + drawn if drawn else ""


def _instruments(results: Mapping[str, Any]) -> str:
    drawn = instrument_charts(results)
    note = (
        "Measured in the first seed of each cell. Weights that an update left as they were are in no bin. "
        "A gradient norm is that of all weights of a layer; queries, keys and values are those of self-attention."
    )
    return _note(note) + drawn if drawn else ""


def _curves(results: Mapping[str, Any]) -> str:
    several = len(results["study"]["seeds"]) > 1
    note = _note("Means over seeds; the band is between the lowest and the highest seed.") if several else ""
    drawn = "".join(curve_charts(results))
    return note + drawn if drawn else ""


def _costs(results: Mapping[str, Any]) -> str:
    if results["metric"] is None:
        return ""
    machine = results["machine"] or {}
    where = " on " + ", ".join(str(value) for value in machine.values()) if isinstance(machine, Mapping) else ""
    note = (
        "Operations are those of all matrix products of the training. Times are those of runs side by side"
        f"{where}: they depend on how many ran at once."
    )
    return _note(note) + cost_table(results)


def _recipes(results: Mapping[str, Any]) -> str:
    shared = "".join(f"<li><code>{escape(change)}</code></li>" for change in results["study"]["set"])
    base = f"<p>The base is <code>{escape(results['study']['base'])}</code>"
    settings = f", in all cells with:</p><ul>{shared}</ul>" if shared else ".</p>"
    return base + settings + key_table(results)


def _method(results: Mapping[str, Any]) -> str:
    seeds = ", ".join(map(str, results["study"]["seeds"]))
    return _note(
        f"Each cell was trained with the seeds {seeds} and evaluated on the first test corpus of its recipe. "
        "Significance: paired bootstrap (Koehn 2004) and paired randomisation (Riezler and Maxwell 2005) on the same "
        "test sentences, and Welch's test over seeds where there are several; a cell differs if all of them say so "
        f"after Holm's correction and the interval excludes 0. Heedful {results['heedful']}."
    )
