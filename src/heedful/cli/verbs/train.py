"""`heedful train RECIPE`: train a model into a run folder, or estimate what that would take."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from heedful.base.errors import UserError, memory_faults
from heedful.base.files import is_unicode, output_folder
from heedful.cli import messages
from heedful.cli.options import (
    RecipeArgument,
    SetOption,
    TrainingDeviceOption,
    TrainingPrecisionOption,
    json_option,
    option,
    out_option,
    with_device,
)
from heedful.cli.output import Line, write_result
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.defaults.apply import with_followed_defaults
from heedful.training.signals import StopRequest

if TYPE_CHECKING:
    from rich.console import Console


def command(
    recipe: RecipeArgument,
    out: Annotated[str | None, out_option(" (default: runs/NAME)")] = None,
    set_: SetOption = None,
    device: TrainingDeviceOption = None,
    precision: TrainingPrecisionOption = None,
    resume: Annotated[bool, option("Continue from the last checkpoint in the run folder.", "--resume")] = False,
    dry_run: Annotated[
        bool, option("Train ten steps, write nothing, and estimate the time and memory of the run.", "--dry-run")
    ] = False,
    as_json: Annotated[
        bool,
        json_option("one object at the end, with folder, steps, best scores, minutes, next command; or the estimate"),
    ] = False,
) -> None:
    """Train a model from a recipe.

    Ctrl-C saves a checkpoint; --resume continues from it, bit-identical to an uninterrupted run.
    """
    resolved = load_recipe(
        recipe, with_device(set_, device, precision)
    )  # before torch is imported, so that mistakes show at once
    if dry_run:
        _print_forecast(with_followed_defaults(resolved), as_json)
        return
    run = output_folder(Path("runs") / Path(recipe).stem if out is None else out)
    if not is_unicode(str(run)):
        raise UserError(f"--out: the name of the folder {str(run)!a} is not UTF-8: choose another.")
    with StopRequest():  # torch takes seconds to import
        with messages.busy("loading PyTorch"):
            from heedful.doctor.at_start import warnings_at_start
            from heedful.runs.training_run import recipe_of_run, train

        resolved = recipe_of_run(run, resolved, resume)
        for line in warnings_at_start(resolved, recipe) if not resume else ():
            (messages.note if line.startswith("note: ") else messages.warn)(line)
        train(resolved, run, resume=resume, console=_console())
    if as_json:
        write_result(result_of(run))


def result_of(folder: Path) -> Line:
    """Return what a run came to: its folder, steps and time, the scores of its best model, and how to use it."""
    from heedful.runs.run import CHECKPOINTS
    from heedful.runs.train import Run
    from heedful.tasks.loading import next_command
    from heedful.training.checkpoints import seconds_trained

    run, seconds = Run(folder), seconds_trained(folder / CHECKPOINTS)
    best = next((entry for entry in run.validations if entry["step"] == run.best_step), {})
    return {
        "folder": str(folder),
        "steps": run.steps,
        "minutes": None if seconds is None else round(seconds / 60, 2),
        "metric": run.metric,
        "best_step": run.best_step,
        "best_scores": {name: score for name, score in best.items() if name != "step"},
        "next": next_command(folder),
    }


def _console() -> "Console | None":
    """Return a console that shows nothing with --quiet; None is the usual one."""
    from rich.console import Console

    return Console(stderr=True, quiet=True) if messages.is_quiet() else None


def _print_forecast(recipe: Recipe, as_json: bool) -> None:
    with messages.busy("loading PyTorch"):
        from heedful.runs.dry_run import dry_run
        from heedful.runs.progress import duration
        from heedful.runs.training_run import memory_advice

    with memory_faults(memory_advice(recipe)):
        forecast = dry_run(recipe, _console())
    peak = forecast.peak_gpu_bytes
    gpu = "" if peak is None else f"\nGPU memory   {peak / 2**30:.1f} GiB at the peak"
    told = (
        f"parameters   {forecast.parameters:,}\n"
        f"speed        {forecast.tokens_per_second:,.0f} {recipe.rules.tokens}/s\n"
        f"whole run    {forecast.updates:,} updates, {forecast.epochs:,.1f} epochs, {duration(forecast.seconds)} "
        f"without validation\n"
        f"run folder   {forecast.checkpoint_bytes / 2**20:,.0f} MiB{gpu}"
    )
    write_result(asdict(forecast) if as_json else told)
