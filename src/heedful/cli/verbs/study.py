"""`heedful study STUDY`: train many variations of a recipe, and compare them on one page."""

from pathlib import Path
from typing import Annotated

import typer

from heedful.base.errors import UserError, counted
from heedful.base.files import output_folder, read_json
from heedful.cli import messages
from heedful.cli.options import (
    SetOption,
    TrainingDeviceOption,
    TrainingPrecisionOption,
    json_option,
    option,
    out_option,
    with_device,
)
from heedful.cli.output import write_result
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
    as_json: Annotated[
        bool,
        json_option("one object, with the page, and the scores of every variation and seed; of a list, each study"),
    ] = False,
    device: TrainingDeviceOption = None,
    precision: TrainingPrecisionOption = None,
) -> None:
    """Train variations of a recipe with several seeds, and write one page that compares them.

    The folder of the study gets study.html, study.csv and study.json, and a run folder for every variation and seed. A
    study that was stopped continues when the same command is given again. --set applies to all variations; most
    studies need `--set data.folder=FOLDER`.
    """
    from heedful.lab.study.definition import find_study, read_study, shipped_studies, title_of

    if listed or study is None:
        shipped = shipped_studies()
        width = max(map(len, shipped), default=0)
        for name, path in shipped.items():
            told = {"name": name, "title": title_of(path), "path": str(path)}
            write_result(told if as_json else f"{name:{width}}  {told['title']}")
        if not listed:
            messages.note("`heedful study NAME` runs one of these, or a study in a file of yours.")
        return
    path = find_study(study)
    folder = output_folder(out or Path("runs") / path.stem)
    defined = read_study(
        path, with_device(set_, device, precision), _seeds(seeds)
    )  # before torch is imported, so that mistakes show at once
    with StopRequest("Stopped: run the same command again to continue."):
        with messages.busy("loading PyTorch"):
            from heedful.lab.study.running import LOG, PAGE, RESULTS, StudyRun, cells_at_once, rewrite_page, run_cells

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
            if run.untimed():
                run.time(run_cells(1))
            failed = sum(len(by_seed) for by_seed in run.failed.values())
            total = len(defined.cells) * len(defined.seeds)
            if failed == total:
                raise UserError(
                    f"All {total:,} runs failed: {folder / PAGE} shows why, and so does {LOG} in the folder of each."
                )
            if failed:
                messages.warn(f"{counted(failed, 'run')} failed: the page shows why, and so does {LOG} in its folder.")
    page_file = str(folder / PAGE)
    write_result({"page": page_file, "results": read_json(folder / RESULTS)} if as_json else page_file)


def _seeds(given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    words = given.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UserError(f"--seeds {given}: must be whole numbers with commas between them, such as 1,2,3.")
    return tuple(int(word) for word in words)
