"""The page of a report: its sections in order, in one file that reloads itself while a run goes on."""

import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import counted
from heedful.base.files import write_bytes
from heedful.pages.charts.drawing import escape
from heedful.pages.html import write_page
from heedful.pages.report.curves import Figure, figures, layer_figures
from heedful.pages.report.log import METRICS
from heedful.pages.report.record import RunRecord, read_run, run_names
from heedful.pages.report.tables import facts_table, recipe_section, samples_section, values_section
from heedful.pages.report.test_sets import EvaluatedCorpus, tests_section

PAGE: Final = "report.html"
_RELOAD: Final = 15  # seconds
_FOOTER: Final = (
    "Values are those of metrics.jsonl in the folder of each run. This file needs no network: keep it, or send it."
)
_TESTS: Final = (
    "Scores of the run's model, those by length in words, and the items that it does best and worst; of equal ones the "
    "first in the test set."
)


def report_page(records: Sequence[RunRecord], tests: Sequence[Sequence[EvaluatedCorpus]] | None = None) -> str:
    """Return the report of runs of one task as HTML; `tests` are the test sets that each run's model was scored on."""
    names, drawn = run_names(records), [*figures(records), *layer_figures(records)]
    going_on = any(record.running for record in records)
    title = f"Report of {names[0]}" if len(records) == 1 else f"Report of {counted(len(records), 'run')}"
    sections = [
        _section("facts", "Run" if len(records) == 1 else "Runs", facts_table(records)),
        _section("curves", "Curves", _charts(drawn), "Point at a chart, or use the arrow keys, to read its values."),
        _section("tests", "Test sets", tests_section(records, tests) if tests else "", _TESTS),
        _section("samples", "Samples over time", samples_section(records), "What the model said at validations."),
        _section("recipe", "Recipe" if len(records) == 1 else "Recipes", recipe_section(records)),
        _section("values", "Values", values_section(records), "The numbers behind the curves."),
    ]
    return write_page(
        title,
        _lead(records, going_on),
        "report.js",
        {"figures": [figure.to_json() for figure in drawn]},
        "Heedful report",
        main="".join(sections),
        style=(files("heedful.pages.report") / "style.css").read_text(encoding="utf-8"),
        footer=_FOOTER,
        reload_every=_RELOAD if going_on else None,
    )


def report_data(
    records: Sequence[RunRecord], tests: Sequence[Sequence[EvaluatedCorpus]] | None = None
) -> dict[str, Any]:
    """Return everything that runs have recorded, as JSON values, and the test sets that they were scored on."""
    found = [record.to_json() for record in records]
    if tests is not None:
        found = [one | {"test": [corpus.to_json() for corpus in of]} for one, of in zip(found, tests, strict=True)]
    return {"runs": found}


def _lead(records: Sequence[RunRecord], going_on: bool) -> str:
    again = f" This page loads itself again every {_RELOAD} seconds." if going_on else ""
    if len(records) > 1:
        return f"{', '.join(run_names(records))}: {records[0].family}, task {records[0].task}.{again}"
    (record,) = records
    of = "" if record.steps is None else f" of {record.steps:,}"
    state = {"running": "Running, at", "finished": "Finished at", "stopped": "Stopped at"}[record.state]
    best = record.best
    score = "" if best is None else f", best {record.metric} {best[record.metric]:.4g} at step {best['step']:,}"
    diverged = " The last loss is not finite: training diverged." if record.diverged else ""
    return f"{state} step {record.step:,}{of}{score}.{diverged}{again}"


def _section(name: str, title: str, content: str, note: str = "") -> str:
    noted = f'<p class="note">{escape(note)}</p>' if note else ""
    head = f'<div class="head"><h2 id="{name}-title">{escape(title)}</h2></div>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{noted}{content}</section>' if content else ""


def _charts(drawn: Sequence[Figure]) -> str:
    shown = "".join(
        f'<figure id="figure-{escape(figure.name)}">{figure.svg()}'
        '<div class="tools"><p class="readout" aria-live="polite"></p></div></figure>'
        for figure in drawn
    )
    return f'<div class="charts">{shown}</div>' if shown else ""


# --- the report of a run that goes on: written again after validations, and once at its end --------------------------


_SHARE: Final = 0.02  # of the time of a run that its report may take
_LEAST: Final = 1.0  # seconds between two versions


class LiveReport:
    """Writes RUN/report.html. What goes wrong never ends the run: it is said once."""

    def __init__(self, run: Path, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._say, self._clock = run, say, clock
        self._due = clock() + _LEAST
        self._failed = False

    @property
    def path(self) -> Path:
        """File of the report."""
        return self._run / PAGE

    def rewrite(self) -> None:
        """Write the report of a run that goes on, unless the last one is hardly older."""
        if self._clock() >= self._due:
            began = self._clock()
            self._write(running=True)
            now = self._clock()
            self._due = now + max(_LEAST, (now - began) / _SHARE)

    def finish(self) -> bool:
        """Write the report of a run that has ended; return whether there is one."""
        return self._write(running=False)

    def _write(self, running: bool) -> bool:
        try:
            if not (self._run / METRICS).exists():
                return False
            write_bytes(self.path, report_page([read_run(self._run, running)]).encode())
        except Exception as error:  # whatever it is, the run is worth more
            if not self._failed:
                said = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
                reason = getattr(error.__cause__, "strerror", None) or said
                self._say(f"{self.path} cannot be written ({reason}): training continues without a report")
            self._failed = True
            return False
        return True
