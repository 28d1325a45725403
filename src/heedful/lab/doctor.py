"""Examines a recipe before training: the data, the tokens, the run, its memory and its time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from rich.console import Console

from heedful.config.corpora import AnyCorpus
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.batches.pairs import PairFeed, pair_costs
from heedful.data.cache import Say
from heedful.data.prepare.pairs import prepare
from heedful.data.prepare.prepared import Prepared
from heedful.devices import choose_device, choose_precision
from heedful.errors import UserError
from heedful.lab.corpus_lint import LintedCorpus, lint_corpus, make_findings
from heedful.lab.device_speed import measure_matrix_rate, time_matrix_product
from heedful.lab.duplicates import find_overlap, find_repeats
from heedful.lab.findings import SEVERITIES, Finding, Part
from heedful.lab.flops import STEP, Parameters, count_parameters, forward_flop
from heedful.lab.memory import Memory, measure_memory
from heedful.lab.token_statistics import TokenStatistics, count_tokens, find_token_problems
from heedful.models.build.network import build_model
from heedful.runs.dry_run import Forecast, dry_run
from heedful.runs.fine_tuning import read_start
from heedful.tasks.translate.task import TranslateTask

_TRIAL_SIZE: Final = 1024  # size of the matrix product that predicts what `precision = "auto"` chooses on a CPU


@dataclass(frozen=True)
class Corpus:
    """A corpus of the recipe."""

    part: Part
    name: str
    pairs: int


@dataclass(frozen=True)
class RunPlan:
    """The planned run; `flops.forward_flop` counts its operations with the real sentence lengths."""

    device: str
    precision: str
    precision_known: bool  # if not, it is a guess: training tries both and takes the faster one
    parameters: Parameters
    pairs_per_epoch: int
    source_tokens_per_epoch: int
    target_tokens_per_epoch: int
    micro_batches_per_epoch: int
    updates_per_epoch: int
    updates: int
    epochs: float
    source_fill: float  # mean fraction of `data.batch_tokens` that a micro-batch uses
    target_fill: float
    flop_per_update: float
    flop: float  # operations of the whole run


@dataclass(frozen=True)
class Time:
    """An estimate from ten real steps; `capacity_flop` is the training cost as in Vaswani et al. 2017 (Table 2)."""

    tokens_per_second: float  # target tokens
    seconds: float
    matrix_rate: float  # operations per second of a plain matrix product on this device in the run's precision
    capacity_flop: float  # seconds * matrix_rate, on one device
    used: float  # flop / capacity_flop
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


def examine(recipe: Recipe | str | Path, quick: bool = False, progress: Say = lambda message: None) -> Report:
    """Examine a recipe, given as an object, a file or the name of a shipped one, and its data.

    `quick` skips the ten training steps. A recipe that cannot be trained at all raises a UserError. `progress` is
    called with a message before every longer step.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    device = choose_device(recipe.train.device)
    vocabularies = None
    if recipe.train.start_from:
        start = read_start(recipe)
        recipe, vocabularies = start.recipe, start.vocabularies
    _refuse_other_tasks(recipe)
    task, prepared = TranslateTask(), prepare(recipe, progress, vocabularies)
    linted, found = _lint_all(recipe, progress)
    train = [corpus for corpus in linted if corpus.part == "train"]
    pieces = count_tokens(
        recipe, prepared, [corpus.name for corpus in train], [pair for corpus in train for pair in corpus.sample]
    )
    precision = choose_precision(recipe.train.precision, device, partial(_multiply, device))
    feed = task.feed(recipe, prepared)
    progress("planning the batches and measuring memory")
    run = _run(recipe, prepared, feed, device, precision)
    static = task.static_shape(recipe, precision) if device.type == "cuda" else None
    sizes = prepared.vocabularies["source"].size, prepared.vocabularies["target"].size
    memory = measure_memory(
        recipe.pair_model, sizes, feed.placed(static, pin=False), recipe.label_smoothing, device, precision
    )
    needed, time = memory, None
    if memory.fits and not quick:
        try:
            time = _time(recipe, run, device, precision, progress)
        except torch.OutOfMemoryError:  # temporary memory was not measured
            needed = replace(memory, activations=None)
    found += [*find_token_problems(pieces), *_run_findings(recipe, run, needed)]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))  # stable: otherwise in the order of the data
    corpora = tuple(Corpus(corpus.part, corpus.name, len(corpus)) for corpus in linted)
    return Report(tuple(found), corpora, pieces, run, memory, time)


# --- the data -------------------------------------------------------------------------------------------------------


def _refuse_other_tasks(recipe: Recipe) -> None:
    if recipe.rules.name != "translate":
        raise UserError(
            f'The doctor examines translation models only, but `model.family` is "{recipe.model.family}": '
            "`heedful train --dry-run` estimates the time and memory of a training run."
        )


def _lint_all(recipe: Recipe, progress: Say) -> tuple[list[LintedCorpus], list[Finding]]:
    data = recipe.data
    parts: tuple[tuple[Part, Sequence[AnyCorpus]], ...] = (
        ("train", data.train),
        ("valid", data.valid),
        ("test", data.test),
    )
    linted: list[LintedCorpus] = []
    found: list[Finding] = []
    for part, corpora in parts:
        for corpus in corpora:
            progress(f"checking {corpus.title}")
            try:
                linted.append(lint_corpus(part, corpus, data, progress))
            except UserError as error:
                if part != "test":
                    raise
                found.append(_unreadable(corpus, error))  # training does not need the test set
    sightings = [(read, sighting) for read in linted for sighting in read.sightings]
    train, valid, test = ([read for read in linted if read.part == part] for part, _ in parts)
    for corpora_of_part in (train, valid, test):
        sightings += find_repeats(corpora_of_part)
    sightings += [*find_overlap(valid, train), *find_overlap(test, train), *find_overlap(test, valid)]
    for read in linted:
        found += make_findings(read, [sighting for owner, sighting in sightings if owner is read], data)
    return linted, found


def _unreadable(corpus: AnyCorpus, error: UserError) -> Finding:
    advice = "Training works without it; evaluation does not."
    return Finding("problem", "unreadable", "test", str(error), advice, corpus=corpus.title)


# --- the run --------------------------------------------------------------------------------------------------------


def _run(recipe: Recipe, prepared: Prepared, feed: PairFeed, device: torch.device, precision: torch.dtype) -> RunPlan:
    plan, budget = list(feed.plan(0)), recipe.data.batch_tokens
    source, target = pair_costs(feed.stores)
    shown = np.concatenate(plan)
    source_tokens, target_tokens = int(source[shown].sum()), int(target[shown].sum())
    sizes = prepared.vocabularies["source"].size, prepared.vocabularies["target"].size
    with torch.device("meta"):
        parameters = count_parameters(build_model(recipe.pair_model, *sizes))
    updates = -(-len(plan) // recipe.train.accumulate)  # the last update of an epoch may be smaller
    steps = recipe.train.in_steps(updates).steps
    flop = STEP * forward_flop(recipe.pair_model, source[shown], target[shown], sizes[1]) / updates
    return RunPlan(
        device=str(device),
        precision=str(precision).removeprefix("torch."),
        precision_known=recipe.train.precision != "auto" or device.type != "cpu",
        parameters=parameters,
        pairs_per_epoch=len(shown),
        source_tokens_per_epoch=source_tokens,
        target_tokens_per_epoch=target_tokens,
        micro_batches_per_epoch=len(plan),
        updates_per_epoch=updates,
        updates=steps,
        epochs=steps / updates,
        source_fill=source_tokens / len(plan) / budget,
        target_fill=target_tokens / len(plan) / budget,
        flop_per_update=flop,
        flop=flop * steps,
    )


def _multiply(device: torch.device, precision: torch.dtype) -> None:
    """Run a trial product to choose the precision; training times a step of the model, which takes longer."""
    time_matrix_product(torch.ones(_TRIAL_SIZE, _TRIAL_SIZE, device=device, dtype=precision))


def _time(recipe: Recipe, run: RunPlan, device: torch.device, precision: torch.dtype, progress: Say) -> Time:
    progress("training ten steps")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)  # report the peak of training, not of earlier measurements
    forecast: Forecast = dry_run(recipe, Console(quiet=True))
    rate = measure_matrix_rate(device, precision)
    capacity = forecast.seconds * rate
    return Time(
        forecast.tokens_per_second, forecast.seconds, rate, capacity, run.flop / capacity, forecast.peak_gpu_bytes
    )


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
    warmup, steps = recipe.train.schedule.warmup, run.updates
    if warmup >= steps:
        yield Finding(
            "warning",
            "warmup",
            "run",
            f"the warm-up takes {warmup:,} updates, but the run has {steps:,}",
            "Lower `train.schedule.warmup` or raise `train.steps`: the learning rate never reaches its maximum.",
        )
    if run.epochs < 1:
        yield Finding(
            "note",
            "short_run",
            "run",
            f"the run ends after {run.epochs:.2f} epochs: some pairs are never seen",
            "Raise `train.steps`, unless this is intended.",
        )
    if not recipe.data.valid:
        yield Finding(
            "note",
            "no_validation",
            "run",
            "there is no `data.valid`: the last model is kept instead of the best one",
            "Name a validation corpus.",
        )
