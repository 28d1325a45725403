"""A study's page: one file that needs nothing but itself, made from the study's results alone."""

from collections.abc import Mapping
from typing import Any, Final

from heedful.lab.study.figures import (
    FEWEST,
    alignments,
    curve_charts,
    difference_chart,
    instrument_charts,
    length_chart,
)
from heedful.lab.study.tables import change_table, cost_table, failures, key_table, score_table
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
.grid > * { min-width: 0; }
.conclusion { max-width: 46rem; }
.name { font-weight: 600; margin: .6rem 0 .4rem; }
.chart { margin: 1.25rem 0 0; }
h3 { font-size: 1rem; font-weight: 600; margin: 1.5rem 0 .5rem; }
details { margin: 1rem 0 0; }
summary { cursor: pointer; color: var(--soft); padding: .2rem 0 .6rem; }
ul.set { columns: 24rem 2; margin: .5rem 0 1.25rem; }
@media (max-width: 44rem) {
  .chart svg { min-width: 38rem; max-width: none !important; }
  tbody th { white-space: normal; min-width: 7rem; }
}
"""


def study_page(results: Mapping[str, Any]) -> str:
    """Return the page of a study's results."""
    words = results["study"]
    conclusion = "".join(
        f'<p class="conclusion">{escape(paragraph)}</p>\n'
        for paragraph in words["conclusion"].strip().split("\n\n")
        if paragraph
    )
    sections = [
        _section("What was found", conclusion),
        _scores(results),
        _section("Failed or not ready", failures(results)),
        _section(
            "By length",
            length_chart(results),
            f"The chart leaves out lengths of which there are fewer than {FEWEST} sentences; the table has all.",
        ),
        _section(
            "One sentence",
            alignments(results),
            f"“{words['sentence']}”, translated by each model of the first seed: rows are what it writes, columns what "
            "it reads; each row shows where it looks.",
        ),
        _section(
            "Updates and gradients",
            instrument_charts(results),
            "Measured in the first seed of each cell. Weights that an update left as they were are in no bin. "
            "A gradient norm is that of all weights of a layer; queries, keys and values are those of self-attention.",
        ),
        _section(
            "Curves",
            "".join(curve_charts(results)),
            "Means over seeds; the band is between the lowest and the highest seed." if len(words["seeds"]) > 1 else "",
        ),
        _costs(results),
        _section("Recipes", _recipes(results)),
        _section(
            "How it was measured",
            _note(
                f"Each cell was trained with the seeds {', '.join(map(str, words['seeds']))} and evaluated on the "
                "first test corpus of its recipe. Significance: paired bootstrap (Koehn 2004) and paired randomisation "
                "(Riezler and Maxwell 2005) on the same test sentences, and Welch's test over seeds where there are "
                "several; a cell differs if all of them say so after Holm's correction and the interval excludes 0. "
                f"Heedful {results['heedful']}."
            ),
        ),
    ]
    return static_page(
        words["title"] or results["name"],
        words["question"],
        "".join(sections),
        brand="Heedful study",
        footer="This file needs no network: keep it, or send it.",
        style=_STYLE,
    )


def _section(title: str, inner: str, note: str = "") -> str:
    """Return a section, with a note before what it has; empty where it has nothing."""
    head = f'<div class="head"><h2>{escape(title)}</h2></div>'
    return f"<section>\n{head}\n{_note(note) if note else ''}{inner}\n</section>\n" if inner else ""


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>\n'


def _scores(results: Mapping[str, Any]) -> str:
    if results["metric"] is None:
        return _section("Scores", _note("No cell is ready yet."))
    seeds = len(results["study"]["seeds"])
    note = (
        f"Means of {seeds} seeds with their 95% intervals. The difference from the base has its 95% interval over test "
        "sentences and seeds. "
        if seeds > 1
        else "One seed per cell. The difference from the base has its 95% interval over test sentences: what other "
        "seeds would change is not known. "
    )
    note += (
        "p is the largest p-value of all tests, adjusted for the number of cells. A cell is called better or worse, "
        "and its dot is filled, where p is below 0.05 and the interval excludes 0."
    )
    return _section("Scores", score_table(results) + difference_chart(results), note)


def _costs(results: Mapping[str, Any]) -> str:
    machine = results["machine"] or {}
    cores = f"{machine['cores']} cores" if machine.get("cores") else ""
    parts = [part for part in (machine.get("gpu"), machine.get("cpu"), cores) if part]
    note = (
        "Operations are those of all matrix products of the training. Times are those of runs side by side"
        f"{' on ' if parts else ''}{', '.join(parts)}: they depend on how many ran at once."
    )
    if any(cell.get("timed") for cell in results["cells"]):
        note += (
            " An update was timed when nothing else ran: the median of several stretches of updates, with the shortest "
            "and the longest."
        )
    return _section("Costs", "" if results["metric"] is None else cost_table(results), note)


def _recipes(results: Mapping[str, Any]) -> str:
    base = f"<p>The base is <code>{escape(results['study']['base'])}</code>"
    shared, given = (
        "".join(f"<li><code>{escape(one)}</code></li>" for one in settings)
        for settings in (results["study"]["set"], results.get("overrides", ()))
    )
    settings = f', in all cells with:</p><ul class="set">{shared}</ul>' if shared else ".</p>"
    overridden = f'<p>Overridden in all cells by the command line:</p><ul class="set">{given}</ul>' if given else ""
    keys = f"<details><summary>All keys that differ</summary>{key_table(results)}</details>"
    return base + settings + overridden + change_table(results) + keys
