"""One cell of a study with one seed, trained and measured in a process of its own: scores, curves and costs.

`python -m heedful.lab.study.cell FOLDER` reads FOLDER/cell.json, trains into FOLDER/run, or resumes there, and writes
FOLDER/found.json. A process that loses the one that started it saves a checkpoint and ends.
"""

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console

from heedful.base.columns import printable
from heedful.base.errors import HeedfulError, UserError, on_command_line
from heedful.base.files import damaged, read_json, write_bytes, write_json
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.config.train.optimizers import RAdam
from heedful.doctor.estimates.flops import count_parameters
from heedful.doctor.estimates.plan import flop_per_update, plan_epoch
from heedful.metrics.edits import Reference, first_variant
from heedful.metrics.recorded_results import machine
from heedful.metrics.scores import Score, percent_of_sums
from heedful.metrics.summed_metrics import METRICS, MetricName, Scoring, build_metric
from heedful.runs.progress import recorded_instruments, recorded_metrics
from heedful.runs.run import CHECKPOINTS
from heedful.runs.run_folder import clear_begun
from heedful.runs.training_run import recipe_of_run, train
from heedful.tasks.loading import find_task, load
from heedful.tasks.shared.evaluation import Evaluation
from heedful.tasks.shared.loaded_model import LoadedModel
from heedful.training.checkpoints import seconds_trained
from heedful.training.instruments.steps import PER_DECADE
from heedful.training.schedules import rectification

SPECIFICATION: Final = "cell.json"
FOUND: Final = "found.json"
RUN: Final = "run"
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True)
class CellJob:
    """What a cell's process needs to know."""

    recipe: str
    settings: tuple[str, ...]  # with the seed
    metric: str | None
    sentence: str = ""
    instruments: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "settings": list(self.settings)}


def begin_cell(folder: Path, job: CellJob) -> None:
    """Write down what a cell's process is to do."""
    write_json(folder / SPECIFICATION, job.to_json())


def job_of(folder: Path) -> CellJob:
    """Return what the process of a cell is to do."""
    known: Any = read_json(folder / SPECIFICATION)
    return CellJob(**{**known, "settings": tuple(known["settings"])})


def found_in(folder: Path, job: CellJob, file: str = FOUND) -> dict[str, Any] | None:
    """Return what was measured in a cell's folder; None before that, or if something else was measured."""
    path = folder / file
    if not path.exists():
        return None
    known = read_json(path)
    if not isinstance(known, dict) or not isinstance(known.get("job"), dict):
        return None
    with damaged(path, "remove it: what is trained is not trained again"):
        return dict(known) if _measured(known["job"]) == _measured(job.to_json()) else None


def run_cell(folder: Path, console: Console | None = None) -> None:
    """Train and measure the cell of a folder."""
    job, run = job_of(folder), folder / RUN
    recipe = load_recipe(job.recipe, job.settings)
    clear_begun(run)  # killed before its first checkpoint: the recipe may have changed since
    train(recipe_of_run(run, recipe, resume=True), run, resume=True, console=console)
    measured = measure(run, job.metric, job.sentence, job.instruments)
    found = {"job": job.to_json(), "machine": machine(), **measured}
    write_bytes(folder / FOUND, json.dumps(found, ensure_ascii=False, allow_nan=False).encode())


def _measured(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job without the folder of its data, which may differ from machine to machine."""
    settings = [text for text in job.get("settings", ()) if not text.startswith("data.folder=")]
    return {**job, "settings": settings}


PERCENT: Final = "percent"  # name of the scoring of a mean of items
_CURVES: Final = ("loss", "learning_rate", "gradient_norm")
_MOST_PIECES: Final = 60  # of a sentence whose alignment is drawn


def measure(run: Path, metric: str | None, sentence: str = "", instruments: bool = False) -> dict[str, Any]:
    """Evaluate the model of a run on its first test corpus, and return all that a study's page shows of it."""
    loaded: Any = load(run)
    recipe: Recipe = loaded.recipe
    corpora = recipe.data.test or recipe.data.valid
    if not corpora:
        raise UserError(
            "The recipe has neither `data.test` nor `data.valid`: a study scores its models on one of them."
        )
    more = "metric" in recipe.rules.evaluation_options and metric in METRICS and metric not in recipe.evaluate.metrics
    options: dict[str, Any] = {"metric": [*recipe.evaluate.metrics, metric]} if more else {}
    evaluation = find_task(recipe).evaluate(loaded, corpora[0], recipe.data.folder, options)
    scores = list(evaluation.scores())
    chosen = next((score for score in scores if metric in (None, score.name)), None)
    if chosen is None:
        known = ", ".join(score.name for score in scores)
        raise UserError(f"`metric` is `{metric}`, which a model that {recipe.rules.does} is not scored by: {known}.")
    found: dict[str, Any] = {
        "metric": chosen.name,
        "labels": {score.name: score.label for score in scores},
        "lower": [score.name for score in scores if score.lower_is_better],
        "scores": {score.name: _value(score) for score in scores},
        "items": _items(evaluation, chosen.name),
        "curves": _curves(run, recipe),
        "cost": _cost(run, loaded),
    }
    if sentence:
        found["alignment"] = _alignment(loaded, sentence)
    if instruments:
        found["instruments"] = read_instruments(run)
    return found


def scoring_of(name: str) -> Scoring:
    """Return how a score follows from sums over items; `name` is that of `items` in what is measured."""
    return percent_of_sums if name == PERCENT else build_metric(cast(MetricName, name), ["a"]).scores


# --- scores ---------------------------------------------------------------------------------------------------------


def _value(score: Score) -> float | None:
    value = 100 * score.value if score.unit == "percent" else score.value
    return value if math.isfinite(value) else None


def _items(evaluation: Evaluation, metric: str) -> dict[str, Any] | None:
    """Return what each item adds to the sums of the score; None where it is not a score of sums over items."""
    items = evaluation.item_scores()
    score = next((one for one in items.scores if one.name == metric), None) if items else None
    if not items or score is None:
        return None
    scoring = PERCENT if score.of_sums is percent_of_sums else metric
    if scoring not in (PERCENT, *METRICS):
        return None
    # Counts without decimals where they have none: half the size.
    counts = [[int(value) if value == int(value) else value for value in row] for row in score.counts().tolist()]
    lengths = list(items.lengths)
    if scoring != PERCENT:  # of texts: words are what spaces separate, whatever BLEU takes for a word
        pairs = cast(Sequence[tuple[str, Reference]], items.items)
        lengths = [len(first_variant(reference).split()) for _, reference in pairs]
    return {"scoring": scoring, "lower": score.lower_is_better, "counts": counts, "lengths": lengths}


# --- training -------------------------------------------------------------------------------------------------------


def _curves(run: Path, recipe: Recipe) -> dict[str, Any]:
    """Return the recorded metrics as lists: those of training, and those of validations."""
    train, valid = recorded_metrics(run, "train"), recorded_metrics(run, "valid")
    if isinstance(recipe.train.optimizer, RAdam):  # recorded is the rate of the schedule
        factor = rectification(recipe.train.optimizer.beta2)
        rates = ((entry, entry.get("learning_rate")) for entry in train)
        train = [{**entry, "learning_rate": rate and rate * factor(entry["step"])} for entry, rate in rates]
    names = sorted({name for entry in valid for name in entry if name != "step" and not name.startswith("baseline_")})
    train_curves, valid_curves = (
        {"step": [entry["step"] for entry in entries]}
        | {name: [_short(entry.get(name)) for entry in entries] for name in of_entries}
        for entries, of_entries in ((train, _CURVES), (valid, names))
    )
    return {"metric": recipe.train.validation.metric, "train": train_curves, "valid": valid_curves}


def _short(value: Any) -> float | None:
    return float(f"{value:.5g}") if isinstance(value, int | float) and math.isfinite(value) else None


def _cost(run: Path, loaded: LoadedModel[Any]) -> dict[str, Any]:
    """Return parameters, operations, updates and seconds; only the last depend on the machine."""
    recipe, train = loaded.recipe, recorded_metrics(run, "train")
    parameters = count_parameters(loaded.network)
    steps = max((int(entry["step"]) for entry in train), default=recipe.train.steps)
    task = find_task(recipe)
    prepared = task.prepare(recipe, loaded.vocabularies, lambda message: None)
    per_update = flop_per_update(plan_epoch(task.feed(recipe, prepared)), recipe, prepared)
    return {
        "parameters": parameters.total,
        "without_embeddings": parameters.rest,
        "steps": steps,
        "skipped": sum(int(entry.get("skipped") or 0) for entry in train),
        "flop": None if per_update is None else float(f"{per_update * steps:.6g}"),
        "seconds": seconds_trained(run / CHECKPOINTS),
    }


def _alignment(loaded: Any, sentence: str) -> dict[str, Any]:
    """Return the weights between the pieces of a sentence and those of its translation; none without attention."""
    if not hasattr(loaded, "explain"):
        raise UserError(f"`sentence` is for models that translate, but this one {loaded.recipe.rules.does}.")
    read = loaded.explain(sentence, top=0)
    source, output = read.sequences.get("source"), read.sequences.get("output")
    if source is None or output is None:
        return {"output": read.output, "source": [], "target": [], "weights": None}
    rows, columns = output.pieces[:_MOST_PIECES], source.pieces[:_MOST_PIECES]
    weights = None if read.alignment is None else read.alignment[: len(rows), : len(columns)]
    return {
        "output": read.output,
        "source": list(columns),
        "target": list(rows),
        "weights": None if weights is None else [[round(float(value), 3) for value in row] for row in weights],
    }


def read_instruments(run: Path) -> list[dict[str, Any]]:
    """Return what instruments recorded in a run, in short: norms by layer and kind, and one histogram of all updates.

    A histogram is the number of weights by the logarithm of their change: `from` is the lower end of its first bin.
    """
    return [
        {
            "step": record["step"],
            "learning_rate": record["learning_rate"],
            "parts": [
                [row["layer"], row["kind"], row["size"], *map(_short, map(row.get, ("weight", "gradient", "update")))]
                for row in record["weights"]
            ],
            "histogram": _joined([row["histogram"] for row in record["weights"] if row.get("histogram")]),
        }
        for record in recorded_instruments(run)
    ]


def _joined(histograms: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Add up histograms whose bins are equally wide, and may begin at different ones."""
    counts: dict[int, int] = {}
    for one in histograms:
        first = round(one["from"] * PER_DECADE)
        for number, count in enumerate(one["counts"], start=first):
            counts[number] = counts.get(number, 0) + count
    if not counts:
        return None
    numbers = range(min(counts), max(counts) + 1)
    return {
        "zeros": sum(one["zeros"] for one in histograms),
        "from": numbers[0] / PER_DECADE,
        "per_decade": PER_DECADE,
        "counts": [counts.get(number, 0) for number in numbers],
    }


# --- the process ------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Run the cell of a folder; return the exit code, after one line about what went wrong."""
    parent = os.getppid()

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)  # as by hand: the run saves a checkpoint

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        with on_command_line():
            run_cell(Path(arguments[0]))
    except HeedfulError as error:
        print(printable(str(error)).partition("\n")[0], file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
