"""The quick form of the doctor, which a training run starts with: a look at the first lines, in less than a second."""

from pathlib import Path
from typing import Final

from heedful.config.recipe import Recipe
from heedful.data.corpora.in_memory import hash_of_rows
from heedful.doctor.chosen_values import without_chosen
from heedful.doctor.corpora.data import check_data
from heedful.doctor.findings import CHARACTER_KINDS, SEVERITIES, Finding
from heedful.doctor.schedule import find_schedule_problems
from heedful.doctor.starts import advise_start

_ROWS: Final = 5_000  # read from each corpus
_SHOWN: Final = 3  # warnings
_ODD: Final = 0.01  # fraction of rows with odd characters


def warnings_at_start(recipe: Recipe, name: str | None = None) -> list[str]:
    """Return a few lines about what looks wrong, the worst first, and a note where data are few; none for sound data.

    `name` is that of the recipe, if `heedful doctor` finds the same data under it. Files that cannot be read are left
    to training, which refuses them.
    """
    try:
        checked = check_data(recipe, lambda message: None, _ROWS)
        found = [*without_chosen(recipe, [*checked.findings, *find_schedule_problems(recipe)])]
        near = Path(name).parent if name and Path(name).is_file() else None
        notes = [f"note: {one.what}. {one.advice}" for one in advise_start(recipe, checked.part("train"), near)]
    except Exception:  # a look at the data never stops a run: what is wrong with it, training says
        return []
    told: dict[str, Finding] = {}  # one per kind: what is odd in train is odd in valid as well
    for finding in sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)):
        if _matters(finding):
            told.setdefault(finding.kind, finding)
    lines = [_line(finding) for finding in [*told.values()][:_SHOWN]]
    if len(told) > _SHOWN:
        where = f"; `heedful doctor {name}` lists everything" if name else ""
        lines.append(f"warning: {len(told) - _SHOWN} more{where}")
    return lines + notes


def _matters(finding: Finding) -> bool:
    """Whether a finding is worth a line before training: a few odd characters in a large corpus are not."""
    if finding.severity == "note" or finding.kind == "unreadable":
        return False
    return finding.kind not in CHARACTER_KINDS or (finding.count or 0) >= _ODD * (finding.of or 1)


def _line(finding: Finding) -> str:
    in_memory = hash_of_rows(finding.file.partition(" (")[0]) is not None  # its file is known to nobody
    where = finding.corpus if in_memory else finding.file or finding.corpus
    if finding.lines:
        where += f", {'row' if in_memory else 'line'} {finding.lines[0]:,}"
    return f"warning: {f'{where}: ' if where else ''}{finding.what}. {finding.advice}"
