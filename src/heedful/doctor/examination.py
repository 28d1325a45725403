"""Examines a recipe before training: the data, the tokens, the run, its memory and its time."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from heedful.base.devices import choose_device, choose_precision
from heedful.base.errors import UserError
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.cache import Say
from heedful.data.epochs.loader import TrainingFeed
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.doctor.corpora.data import check_data
from heedful.doctor.corpora.images import check_images
from heedful.doctor.estimates.flops import Parameters, count_parameters
from heedful.doctor.estimates.memory import Memory, measure_memory
from heedful.doctor.estimates.plan import (
    Forecast,
    flop_per_update,
    measure_matrix_rate,
    plan_epoch,
    time_matrix_product,
    total,
    updates_of,
)
from heedful.doctor.findings import SEVERITIES, Finding, Part
from heedful.doctor.schedule import find_schedule_problems
from heedful.doctor.token_statistics import TokenStatistics, count_tokens, find_token_problems
from heedful.models.from_recipe.network import build_network
from heedful.tasks.loading import find_task
from heedful.training.remedies import with_remedies

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

    tokens_per_second: float
    seconds: float
    matrix_rate: float  # operations per second of a plain matrix product on this device in the run's precision
    capacity_flop: float  # seconds * matrix_rate, on one device
    used: float | None  # flop / capacity_flop
    peak_gpu_bytes: int | None


@dataclass(frozen=True)
class Report:
    """The result of an examination, with the most severe findings first."""

    findings: tuple[Finding, ...]
    corpora: tuple[Corpus, ...]
    pieces: TokenStatistics
    run: RunPlan
    memory: Memory
    time: Time | None  # None if the ten steps were skipped


def examine(
    recipe: Recipe | str | Path,
    forecast: Callable[[Recipe], Forecast] | None = None,
    progress: Say = lambda message: None,
    vocabularies: Vocabularies | None = None,
) -> Report:
    """Examine a recipe, given as an object, a file or the name of a shipped one, and its data.

    `forecast` trains a few steps to tell the time of a run; without it, that is left out. `vocabularies` are those of
    the model that the recipe starts from. A recipe that cannot be trained at all raises a UserError. `progress` is
    called with a message before every longer step.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    if recipe.rules.images:
        raise UserError("This recipe reads images: call `examine_images`.")
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    device = choose_device(recipe.train.device)
    task = find_task(recipe)
    checked = check_data(recipe, progress)
    prepared = task.prepare(recipe, vocabularies, progress)
    train = checked.part("train")
    pieces = count_tokens(
        recipe, prepared, [corpus.name for corpus in train], [row for corpus in train for row in corpus.sample]
    )
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
    found = [*checked.findings, *find_token_problems(pieces), *_run_findings(recipe, run, needed)]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))  # stable: otherwise in the order of the data
    corpora = tuple(Corpus(corpus.part, corpus.name, len(corpus), corpus.form.unit) for corpus in checked.linted)
    return Report(tuple(found), corpora, pieces, run, memory, time)


@dataclass(frozen=True)
class ImageReport:
    """What was found in the images of a recipe, with the most severe findings first."""

    findings: tuple[Finding, ...]
    corpora: tuple[Corpus, ...]
    classes: Mapping[str, Mapping[Part, int]]  # the number of images of each class in each part
    sizes: Mapping[str, int]  # "height x width", and the number of images of that size, the most frequent first


def examine_images(recipe: Recipe | str | Path, progress: Say = lambda message: None) -> ImageReport:
    """Examine a recipe for images, and all its images: each is decoded once.

    A recipe whose data cannot be found raises a UserError; images that cannot be decoded are findings.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    if not recipe.rules.images:
        raise UserError("This recipe does not read images: call `examine`.")
    checked, found = check_images(recipe, progress)
    found += [*find_schedule_problems(recipe), *_without_validation(recipe)]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    classes = {label: dict[Part, int]() for label in sorted({label for one in checked for label in one.labels})}
    for one in checked:
        for label, count in one.labels.items():
            classes[label][one.part] = classes[label].get(one.part, 0) + count
    sizes = Counter(" x ".join(map(str, seen.size)) for one in checked for seen in one.seen)
    corpora = tuple(Corpus(one.part, one.name, len(one), "images") for one in checked)
    return ImageReport(tuple(found), corpora, classes, dict(sizes.most_common()))


# --- the run --------------------------------------------------------------------------------------------------------


def _run(
    recipe: Recipe, prepared: Prepared, feed: TrainingFeed[Any], device: torch.device, precision: torch.dtype
) -> RunPlan:
    plan, sides = plan_epoch(feed), recipe.rules.sides
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
    return Time(expected.tokens_per_second, expected.seconds, rate, capacity, used, expected.peak_gpu_bytes)


def _run_findings(recipe: Recipe, run: RunPlan, memory: Memory) -> Iterator[Finding]:
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
    yield from find_schedule_problems(recipe, run.updates)
    if run.epochs < 1:
        yield Finding(
            "note",
            "short_run",
            "run",
            f"the run ends after {run.epochs:.2f} epochs: some of the data is never seen",
            "Raise `train.steps`, unless this is intended.",
        )
    yield from _without_validation(recipe)


def _without_validation(recipe: Recipe) -> Iterator[Finding]:
    if not recipe.data.valid:
        yield Finding(
            "note",
            "no_validation",
            "run",
            "there is no `data.valid`: the last model is kept instead of the best one",
            "Name a validation corpus.",
        )
