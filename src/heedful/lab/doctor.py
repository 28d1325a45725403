"""The doctor's place in an earlier version; it works with a warning for one version."""

from functools import partial
from pathlib import Path

from rich.console import Console

from heedful.base.arguments import warn_of_old_name
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.doctor import examination
from heedful.doctor.examination import Report
from heedful.runs.dry_run import dry_run
from heedful.runs.fine_tuning import read_start


def examine(recipe: Recipe | str | Path, quick: bool = False, progress: Say = lambda message: None) -> Report:
    """Examine a recipe and its data as `heedful.doctor.examination.examine` does."""
    warn_of_old_name("heedful.lab.doctor", "heedful.doctor.examination")
    written, vocabularies = recipe if isinstance(recipe, Recipe) else load_recipe(recipe), None
    resolved = written
    if written.train.start_from:
        start = read_start(written)
        resolved, vocabularies = start.recipe, start.vocabularies
    forecast = None if quick else partial(dry_run, console=Console(quiet=True))
    return examination.examine(resolved, forecast, progress, vocabularies, written if vocabularies else None)
