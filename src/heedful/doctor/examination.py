"""Examines a recipe before training: the data, the tokens, the run, its memory and its time."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from heedful.base.arguments import warn_of_old_name
from heedful.base.devices import choose_device, choose_precision
from heedful.base.errors import UserError
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.epochs.loader import TrainingFeed
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.defaults.apply import with_followed_defaults
from heedful.defaults.split import why_not_split
from heedful.doctor.chosen_values import is_set, without_chosen
from heedful.doctor.corpora.corpus_lint import LintedCorpus
from heedful.doctor.corpora.data import CheckedData, check_data
from heedful.doctor.corpora.images import CheckedImages
from heedful.doctor.estimates.flops import Parameters, count_parameters
from heedful.doctor.estimates.memory import Memory, measure_memory
from heedful.doctor.estimates.plan import (
    Forecast,
    flop_per_update,
    measure_matrix_rate,
    plan_epoch,
    side_names,
    time_matrix_product,
    total,
    updates_of,
)
from heedful.doctor.findings import SEVERITIES, Finding, Part
from heedful.doctor.schedule import find_schedule_problems
from heedful.doctor.starts import advise_start
from heedful.doctor.token_statistics import TokenStatistics, count_tokens, find_token_problems
from heedful.models.from_recipe.network import build_network
from heedful.tasks.loading import find_task
from heedful.training.remedies import with_remedies

_MANY_EPOCHS: Final = 300  # defaults for the smallest data have 250
_MANY_HOURS: Final = 6
_TRIAL_SIZE: Final = 1024  # size of the matrix product that predicts what `precision = "auto"` chooses on a CPU


@dataclass(frozen=True)
class Corpus:
    """A corpus of the recipe."""

    part: Part
    name: str
    rows: int
    unit: str  # what a row is, in the plural


@dataclass(frozen=True)
class RunPlan:
    """The planned run; `flops.forward_flop` counts its operations with the real sentence lengths."""

    device: str
    precision: str
    precision_known: bool  # if not, it is a guess: training tries both and takes the faster one
    parameters: Parameters
    rows_per_epoch: int  # pairs, texts or stretches of documents
    tokens_per_epoch: Mapping[str, int]  # of each side
    micro_batches_per_epoch: int
    updates_per_epoch: int
    updates: int
    epochs: float
    fill: Mapping[str, float]  # mean fraction of `data.batch_tokens` that a micro-batch uses, on each side
    flop_per_update: float | None  # counted for networks that map one sequence to another
    flop: float | None  # operations of the whole run


@dataclass(frozen=True)
class Time:
    """An estimate from ten real steps; `capacity_flop` is the training cost as in Vaswani et al. 2017 (Table 2)."""

    unit: str  # what speed counts
    tokens_per_second: float
    seconds: float
    matrix_rate: float  # operations per second of a plain matrix product on this device in the run's precision
    capacity_flop: float  # seconds * matrix_rate, on one device
    used: float | None  # flop / capacity_flop
    peak_gpu_bytes: int | None


@dataclass(frozen=True)
class DataReport:
    """What is known of the data of a recipe, with the most severe findings first."""

    findings: tuple[Finding, ...]
    corpora: tuple[Corpus, ...]
    classes: Mapping[str, Mapping[Part, int]]  # the number of texts, words or images of each class in each part
    sizes: Mapping[str, int]  # "height x width", and the number of images of that size, the most frequent first


@dataclass(frozen=True)
class Report(DataReport):
    """The result of an examination."""

    pieces: TokenStatistics
    run: RunPlan
    memory: Memory
    time: Time | None  # None if the ten steps were skipped


class UntrainableError(UserError):
    """Training refuses the data, of which the report tells more."""

    def __init__(self, message: str, report: DataReport) -> None:
        super().__init__(message)
        self.report = report


ImageReport = DataReport  # its name in an earlier version


def examine(
    recipe: Recipe | str | Path,
    forecast: Callable[[Recipe], Forecast] | None = None,
    progress: Say = lambda message: None,
    vocabularies: Vocabularies | None = None,
    written: Recipe | None = None,
    near: Path | None = None,
) -> Report:
    """Examine a recipe, given as an object, a file or the name of a shipped one, and its data.

    `forecast` trains a few steps to tell the time of a run; without it, that is left out. `vocabularies` are those of
    the model that the recipe starts from, and `written` is the recipe without what it takes from there. Models that it
    could start from are looked for in the folder `near` it, and in `runs`. A recipe that cannot be trained raises a
    UserError; if that is because of problems in its data, an `UntrainableError` with a report on these. `progress` is
    called with a message before every longer step.
    """
    if not isinstance(recipe, Recipe):
        near = near or Path(recipe).parent
        recipe = load_recipe(recipe)
    recipe = with_followed_defaults(recipe) if recipe.followed is None else recipe
    if recipe.held_out:
        progress(recipe.held_out)
    written = written or recipe
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    task, checked = find_task(recipe), check_data(recipe, progress)
    known = _known_of_data(checked)
    try:
        prepared = task.prepare(recipe, vocabularies, progress)
    except UserError as error:
        found = _told(written, checked.findings)
        if not any(finding.severity == "problem" for finding in found):
            raise
        raise UntrainableError(str(error), DataReport(found, *known)) from error
    sample = [row for corpus in checked.part("train") for row in corpus.sample]
    pieces = count_tokens(recipe, prepared, [corpus.title for corpus in recipe.data.train], sample)
    device = choose_device(recipe.train.device)
    precision = choose_precision(recipe.train.precision, device, partial(_multiply, device))
    feed = task.feed(recipe, prepared)
    progress("planning the batches and measuring memory")
    run = _run(recipe, prepared, feed, device, precision)
    static = task.static_shape(recipe, precision) if device.type == "cuda" else None
    memory = measure_memory(
        recipe,
        prepared.vocabularies,
        with_remedies(task.objective(recipe, prepared), recipe.train),
        feed.placed(static, pin=False),
        device,
        precision,
    )
    needed, time = memory, None
    if memory.fits and forecast is not None:
        try:
            time = _time(forecast, recipe, run, device, precision, progress)
        except torch.OutOfMemoryError:  # temporary memory was not measured
            needed = replace(memory, activations=None)
    of_run = [*_too_large(needed), *_too_long(written, run, time), *find_schedule_problems(written, run.updates)]
    of_run += [*_without_validation(recipe), *advise_start(written, checked.part("train"), near)]
    found = _told(written, [*checked.findings, *find_token_problems(pieces), *of_run])
    return Report(found, *known, pieces=pieces, run=run, memory=memory, time=time)


def examine_images(recipe: Recipe | str | Path, progress: Say = lambda message: None) -> DataReport:
    """Examine a recipe for images: the name of `examine` for these in an earlier version."""
    warn_of_old_name("heedful.doctor.examination.examine_images", "heedful.doctor.examination.examine")
    try:
        return examine(recipe, progress=progress)
    except UntrainableError as error:
        return error.report


def _told(written: Recipe, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings that are about what a recipe sets or about its data, the most severe first."""
    kept = without_chosen(written, findings)
    return tuple(sorted(kept, key=lambda finding: SEVERITIES.index(finding.severity)))  # in the order of the data


def _known_of_data(checked: CheckedData) -> tuple[tuple[Corpus, ...], dict[str, dict[Part, int]], dict[str, int]]:
    """Return the corpora, the classes and the sizes of images."""
    corpora = [Corpus(corpus.part, corpus.name, len(corpus), corpus.form.unit) for corpus in checked.linted]
    if not corpora:
        corpora = [Corpus(one.part, one.name, len(one), "images") for one in checked.images]
    labelled: list[LintedCorpus | CheckedImages] = [*checked.linted, *checked.images]
    classes = {label: dict[Part, int]() for label in sorted({label for one in labelled for label in one.labels})}
    for one in labelled:
        for label, count in one.labels.items():
            classes[label][one.part] = classes[label].get(one.part, 0) + count
    sizes = Counter(" x ".join(map(str, seen.size)) for one in checked.images for seen in one.seen)
    return tuple(corpora), classes, dict(sizes.most_common())


# --- the run --------------------------------------------------------------------------------------------------------


def _run(
    recipe: Recipe, prepared: Prepared, feed: TrainingFeed[Any], device: torch.device, precision: torch.dtype
) -> RunPlan:
    plan, sides = plan_epoch(feed), side_names(recipe)
    lengths = {side: total(plan, number) for number, side in enumerate(sides)}
    tokens = {side: int(of_side.sum()) for side, of_side in lengths.items()}
    with torch.device("meta"):
        parameters = count_parameters(build_network(recipe.model, prepared.vocabularies))
    updates = updates_of(plan, recipe)
    steps, flop = recipe.train.in_steps(updates).steps, flop_per_update(plan, recipe, prepared)
    return RunPlan(
        device=str(device),
        precision=str(precision).removeprefix("torch."),
        precision_known=recipe.train.precision != "auto" or device.type != "cpu",
        parameters=parameters,
        rows_per_epoch=len(lengths[sides[0]]),
        tokens_per_epoch=tokens,
        micro_batches_per_epoch=len(plan),
        updates_per_epoch=updates,
        updates=steps,
        epochs=steps / updates,
        fill={side: count / len(plan) / recipe.data.batch_tokens for side, count in tokens.items()},
        flop_per_update=flop,
        flop=None if flop is None else flop * steps,
    )


def _multiply(device: torch.device, precision: torch.dtype) -> None:
    """Run a trial product to choose the precision; training times a step of the model, which takes longer."""
    time_matrix_product(torch.ones(_TRIAL_SIZE, _TRIAL_SIZE, device=device, dtype=precision))


def _time(
    forecast: Callable[[Recipe], Forecast],
    recipe: Recipe,
    run: RunPlan,
    device: torch.device,
    precision: torch.dtype,
    progress: Say,
) -> Time:
    progress("training ten steps")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)  # report the peak of training, not of earlier measurements
    expected = forecast(recipe)
    rate = measure_matrix_rate(device, precision)
    capacity = expected.seconds * rate
    used = None if run.flop is None else run.flop / capacity
    speed, unit = expected.tokens_per_second, recipe.rules.tokens
    return Time(unit, speed, expected.seconds, rate, capacity, used, expected.peak_gpu_bytes)


def _too_large(memory: Memory) -> Iterator[Finding]:
    if not memory.fits:
        holds = "more memory than is free" if memory.total is None else f"{memory.total / 2**30:.1f} GiB"
        has = "" if memory.available is None else f", but the device has {memory.available / 2**30:.1f} GiB"
        yield Finding(
            "problem",
            "memory",
            "run",
            f"a step needs {holds}{has}",
            "Lower `data.batch_tokens` (and raise `train.accumulate`), or make the model smaller.",
        )


def _too_long(recipe: Recipe, run: RunPlan, time: Time | None) -> Iterator[Finding]:
    """Find runs that read their data hundreds of times, that take many hours, and that end before all of it is read.

    Epochs that Heedful chose are not criticised; hours are, as it does not know the device when it chooses.
    """
    key = "train.steps" if recipe.train.epochs is None else "train.epochs"
    if run.epochs > _MANY_EPOCHS and not (recipe.followed and "train.steps" in recipe.followed.keys):
        most = _MANY_EPOCHS * (run.updates_per_epoch if recipe.train.epochs is None else 1)
        closed = recipe.train.start_from or recipe.train.distill or is_set(recipe, "train.schedule")
        left_out = "" if closed else ", or leave it out, so that Heedful chooses it by the data"
        yield Finding(
            "problem",
            "many_epochs",
            "run",
            f"the run reads the training data {run.epochs:,.0f} times",
            f"Set `{key}` to {most:,} or less{left_out}: a model learns its data by heart long before.",
        )
    elif run.epochs < 1:
        yield Finding(
            "note",
            "short_run",
            "run",
            f"the run ends after {run.epochs:.2f} epochs: some of the data is never seen",
            "Raise `train.steps`, unless this is intended.",
            keys=("train.steps", "train.epochs"),
        )
    if time is not None and time.seconds > _MANY_HOURS * 3600:
        gpu = "" if run.device.startswith("cuda") else ", or train on a GPU"
        yield Finding(
            "problem",
            "long_run",
            "run",
            f"the run takes about {time.seconds / 3600:,.0f} hours on this device ({run.device})",
            f"Lower `{key}`{' or' if not gpu else ','} make the model smaller{gpu}.",
        )


def _without_validation(recipe: Recipe) -> Iterator[Finding]:
    if not recipe.data.valid:
        yield Finding(
            "note",
            "no_validation",
            "run",
            f"there is no validation data: {why_not_split(recipe)}. The last model is kept instead of the best one",
            "Name a validation corpus by `data.valid`.",
        )
