"""`heedful study STUDY`: train many variations of a recipe, and compare them on one page."""

from pathlib import Path
from typing import Annotated

import typer

from heedful.base.errors import UserError, counted
from heedful.base.files import output_folder
from heedful.cli import messages
from heedful.cli.options import SetOption, option, out_option
from heedful.training.signals import StopRequest


def command(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="File of a study, or the name of a study that ships with Heedful."),
    ] = None,
    out: Annotated[str | None, out_option(" (default: runs/NAME)")] = None,
    set_: SetOption = None,
    jobs: Annotated[
        int | None,
        option("Runs at a time on the device (default: as many as fit).", "--jobs", "-j", metavar="N", min=1),
    ] = None,
    seeds: Annotated[str | None, option("Seeds instead of those of the study, such as 1,2,3.", metavar="N,N")] = None,
    page: Annotated[bool, option("Train nothing: write the page of a finished study again.", "--page")] = False,
    listed: Annotated[bool, option("List the studies that ship with Heedful.", "--list")] = False,
) -> None:
    """Train variations of a recipe with several seeds, and write one page that compares them.

    The folder of the study gets study.html, study.csv and study.json, and a run folder for every variation and seed. A
    study that was stopped continues when the same command is given again. --set applies to all variations; most
    studies need `--set data.folder=FOLDER`.
    """
    from heedful.lab.study.definition import find_study, read_study, shipped_studies, title_of

    if listed:
        shipped = shipped_studies()
        width = max(map(len, shipped), default=0)
        for name, path in shipped.items():
            print(f"{name:{width}}  {title_of(path)}")
        return
    if study is None:
        raise UserError("Name a study: a file, or one of `heedful study --list`.")
    path = find_study(study)
    folder = output_folder(out or Path("runs") / path.stem)
    defined = read_study(path, set_ or (), _seeds(seeds))  # before torch is imported, so that mistakes show at once
    with StopRequest("Stopped: run the same command again to continue."):
        with messages.busy("loading PyTorch"):
            from heedful.lab.study.running import LOG, PAGE, StudyRun, cells_at_once, rewrite_page, run_cells

        if page:
            rewrite_page(defined, folder)
        else:
            run = StudyRun(defined, folder, messages.note)
            if run.waiting():
                at_once = jobs or cells_at_once(defined, messages.note)
                together = f"{len(defined.cells)} cells x {counted(len(defined.seeds), 'seed')}, {at_once} at a time"
                messages.note(f"{defined.name}: {together}")
                run.run(run_cells(at_once))
            else:
                run.write()
            failed = sum(len(by_seed) for by_seed in run.failed.values())
            total = len(defined.cells) * len(defined.seeds)
            if failed == total:
                raise UserError(
                    f"All {total:,} runs failed: {folder / PAGE} shows why, and so does {LOG} in the folder of each."
                )
            if failed:
                messages.warn(f"{counted(failed, 'run')} failed: the page shows why, and so does {LOG} in its folder.")
    print(folder / PAGE)


def _seeds(given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    words = given.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UserError(f"--seeds {given}: must be whole numbers with commas between them, such as 1,2,3.")
    return tuple(int(word) for word in words)
