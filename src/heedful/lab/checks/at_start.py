"""The quick form of the doctor, which a training run starts with: a look at the first lines, in less than a second."""

from typing import Final

from heedful.config.recipe import Recipe
from heedful.errors import HeedfulError
from heedful.lab.checks.data import check_data
from heedful.lab.checks.findings import SEVERITIES, Finding
from heedful.lab.checks.schedule import find_schedule_problems

_ROWS: Final = 5_000  # read from each corpus
_SHOWN: Final = 3  # warnings


def warnings_at_start(recipe: Recipe, name: str) -> list[str]:
    """Return a few lines about what looks wrong, the worst first; none for sound data. `name` is that of the recipe.

    Files that cannot be read are left to training, which refuses them.
    """
    try:
        found = [*check_data(recipe, lambda message: None, _ROWS).findings, *find_schedule_problems(recipe)]
    except (HeedfulError, OSError, ValueError):
        return []
    told = [finding for finding in found if finding.severity != "note" and finding.kind != "unreadable"]
    told.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    lines = [_line(finding) for finding in told[:_SHOWN]]
    if len(told) > _SHOWN:
        lines.append(f"warning: {len(told) - _SHOWN} more; `heedful doctor {name}` lists everything")
    return lines


def _line(finding: Finding) -> str:
    where = finding.file or finding.corpus
    if finding.lines:
        where += f", line {finding.lines[0]:,}"
    return f"warning: {f'{where}: ' if where else ''}{finding.what}. {finding.advice}"
