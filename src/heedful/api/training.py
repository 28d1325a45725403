"""From a recipe to a trained model in a run folder: data, model, trainer, validation and checkpoints put together."""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console

from heedful.api.card import write_card
from heedful.api.evaluating import evaluating
from heedful.api.starting import read_start
from heedful.api.validation import Judge
from heedful.config.load import flat, load_recipe, recipe_to_json
from heedful.config.schema import Average, Recipe
from heedful.data.batches import CPU_MULTIPLE, PairBatch, StaticShape
from heedful.data.loader import PairFeed
from heedful.data.prepare import Prepared, prepare
from heedful.errors import UserError
from heedful.files import new_folder, read_bytes, remove_folder, write_bytes
from heedful.models.build import build_model
from heedful.models.bundle import CARD, WEIGHTS, Bundle, Tokenizers, read_description, write_description, write_weights
from heedful.models.families import EncoderDecoder, set_precision
from heedful.models.weights import set_weights
from heedful.nn.backends import flash_takes
from heedful.train.averaging import mean_weights
from heedful.train.checkpoints import (
    Position,
    Retention,
    best_checkpoints,
    checkpoint_weights,
    last_checkpoint,
    last_checkpoints,
    load_checkpoint,
    save_checkpoint,
    step_of,
)
from heedful.train.hardware import (
    PRECISIONS,
    choose_device,
    choose_precision,
    keep_freed_memory,
    make_deterministic,
)
from heedful.train.objectives import NextToken
from heedful.train.optimizers import build_optimizer
from heedful.train.progress import Progress, duration
from heedful.train.schedules import learning_rate
from heedful.train.seeding import seed_for
from heedful.train.signals import StopRequest
from heedful.train.trainer import Reading, Settings, Tallying, Trainer

CHECKPOINTS: Final = "checkpoints"
SINGLE: Final = "single"  # the best model, where the one in the run folder is a mean of several
_TRIAL_STEPS: Final = 10
# What a resumed run may say differently: where and how long it runs, what it shows, how it translates.
_FREE_KEYS: Final = (
    "data.folder",
    "train.steps",
    "train.device",
    "train.log_every",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.average",
    "train.validation.patience",
    "decode",
    "evaluate",
)


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    overrides: Sequence[str] = (),
    resume: bool = False,
    console: Console | None = None,
) -> Path:
    """Train a model and return its run folder, which `heedful.load` reads.

    With `resume`, go on from the run folder's last checkpoint, to the bits of a run that was never disturbed.
    """
    run = Path(out)
    if isinstance(recipe, Recipe) and overrides:
        raise TypeError("overrides change a recipe that is read from a file; give the changed Recipe instead")
    resolved = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, overrides)
    checkpoint = _checkpoint_to_resume(run, resolved, resume)
    with Progress(console) as progress:
        _set_up(resolved)
        if checkpoint:
            old, tokenizers = read_description(run)
            resolved = resolved.model_copy(update={"tokenizer": old.tokenizer, "model": old.model})
            job = _Job.prepare(resolved, tokenizers, progress)
            position = job.resume(checkpoint, progress)
        else:
            job = _first_job(resolved, progress)
            position = job.begin()
        running = _Running(job, run, progress)
        if resume and not checkpoint:
            progress.say(f"{run} holds no checkpoint: training begins.")
        _clear(run)
        write_description(run, job.recipe, job.tokenizers)  # a resumed run may have another end, or decode otherwise
        progress.begin(run, position.step)
        progress.say(job.description())
        running.to_the_end(position)
    return run


@dataclass(frozen=True)
class Forecast:
    """What ten steps say of a whole run."""

    parameters: int
    tokens_per_second: float
    seconds: float
    epochs: float
    checkpoint_bytes: int
    peak_gpu_bytes: int | None


def dry_run(recipe: Recipe, console: Console | None = None) -> Forecast:
    """Train ten steps, write nothing, and say what the whole run would take."""
    with Progress(console) as progress:
        _set_up(recipe)
        job = _first_job(recipe, progress)
        position = job.begin()
        progress.say(f"{job.description()}; ten steps ...")
        return _Trial(job).forecast(position)


def _first_job(recipe: Recipe, progress: Progress) -> "_Job":
    """A job at its first step: with fresh weights, or with those of the model that the recipe starts from."""
    if not recipe.train.start_from:
        return _Job.prepare(recipe, None, progress)
    start = read_start(recipe)
    progress.say(f"Starting from {recipe.train.start_from}: its weights and its vocabulary")
    for difference in start.differences:
        progress.say(f"  {difference}")
    job = _Job.prepare(start.recipe, start.tokenizers, progress)
    start.into(job.model)
    return job


def _set_up(recipe: Recipe) -> None:
    keep_freed_memory()
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    if recipe.train.deterministic:
        make_deterministic()


@dataclass
class _Job:
    """Everything a run is made of, before its first step."""

    recipe: Recipe
    prepared: Prepared
    device: torch.device
    model: EncoderDecoder
    optimizer: torch.optim.Optimizer
    objective: NextToken
    feed: PairFeed
    precision: torch.dtype | None = None

    @classmethod
    def prepare(cls, recipe: Recipe, tokenizers: Tokenizers | None, progress: Progress) -> "_Job":
        """Read the data and make the model."""
        device = choose_device(recipe.train.device)
        given = (tokenizers.source, tokenizers.target) if tokenizers else None
        prepared = prepare(recipe, progress.say, given)
        if device.index is not None:  # "cuda:1"
            torch.cuda.set_device(device)
        torch.manual_seed(seed_for(recipe.train.seed, "weights"))
        sizes = prepared.source_tokenizer.size, prepared.target_tokenizer.size
        model = build_model(recipe.model, *sizes).to(device)
        optimizer = build_optimizer(recipe.train.optimizer, model)
        objective = NextToken(recipe.train.label_smoothing)
        return cls(recipe, prepared, device, model, optimizer, objective, _ragged_feed(recipe, prepared))

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of both sides."""
        return Tokenizers(self.prepared.source_tokenizer, self.prepared.target_tokenizer)

    def begin(self) -> Position:
        """Choose what the recipe leaves open."""
        batch = self.feed.batch(next(self.feed.plan(0)))  # made once: a trial is to time the model alone

        def trial(precision: torch.dtype) -> None:
            set_precision(self.model, precision)
            self.objective(self.model, batch).loss.backward()
            self.optimizer.zero_grad()

        self._use(choose_precision(self.recipe.train.precision, self.device, trial))
        return Position(facts=self._facts())

    def resume(self, checkpoint: Path, progress: Progress) -> Position:
        """Take weights, optimizer and position from a checkpoint, and all that must be as it was."""
        position = load_checkpoint(checkpoint, self.model, self.optimizer)
        facts = position.facts
        if facts["data"] != self._facts()["data"]:
            raise UserError(
                f"The training data is not what {checkpoint} was trained on: its order would be another. "
                "Restore the files, or train into another folder."
            )
        torch.set_num_threads(facts["threads"])
        self._use(PRECISIONS[facts["precision"]])
        here = self._facts()
        changed = [name for name in ("device", "torch") if facts[name] != here[name]]
        for name in changed:
            progress.say(f"{name} was {facts[name]} and is {here[name]}: the run goes on, but not to the same bits")
        return position

    def description(self) -> str:
        """One line about the model and where it trains."""
        parameters = sum(p.numel() for p in self.model.parameters())
        sizes = f"{self.tokenizers.source.size:,}"
        if not self.tokenizers.joint:
            sizes += f" + {self.tokenizers.target.size:,}"
        where = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else _cpu_name()
        return (
            f"{self.recipe.model.family}: {parameters / 1e6:.1f}M parameters, vocabulary {sizes}; "
            f"{where}, {_name(self.precision or torch.float32)}"
        )

    def _facts(self) -> dict[str, Any]:
        return {
            "data": [store.key for store in self.prepared.train],
            "precision": _name(self.precision or torch.float32),
            "threads": torch.get_num_threads(),
            "device": self.device.type,
            "torch": torch.__version__,
        }

    def _use(self, precision: torch.dtype) -> None:
        self.precision = precision
        set_precision(self.model, precision)
        if self.device.type == "cuda":
            self.feed = replace(self.feed, pin=True, static=_static_shape(self.recipe, precision))


class _Running:
    """The run's side of the trainer: validates, saves and shows."""

    def __init__(self, job: _Job, run: Path, progress: Progress) -> None:
        self.job, self.run, self.progress = job, run, progress
        self.judge = Judge(Bundle(job.recipe, job.tokenizers, job.model), job.prepared.valid)

    def to_the_end(self, position: Position) -> None:
        """Train, and say where the model is."""
        steps = self.job.recipe.train.steps
        if position.step >= steps:
            self.progress.say(f"{self.run} is already at step {position.step:,} of {steps:,}: nothing to train.")
            self._average(position)  # a run that was killed after its last step has not come to that
            return
        began = time.perf_counter()
        with StopRequest() as stop:
            end = _trainer(self.job, self).run(position, stop)
        took = duration(time.perf_counter() - began)
        best = self.run / SINGLE if (self.run / SINGLE).exists() else self.run  # averaged before, and none better since
        early = "" if end.step == steps else f" (no better model in {end.worse_since} validations: stopped early)"
        self.progress.say(
            f"Trained {end.step:,} steps in {took}{early}. The best model, of step {end.best_step:,}, is in {best}"
        )
        self._average(end)

    def _average(self, end: Position) -> None:
        """Where the recipe asks for it, put the mean of checkpoints in the best model's place; that moves to SINGLE."""
        recipe, model, single = self.job.recipe, self.job.model, self.run / SINGLE
        if recipe.train.average is None:
            return
        parts = checkpoints_to_average(self.run / CHECKPOINTS, recipe.train.average, recipe)
        if not parts:
            self.progress.say("No checkpoint was validated when it was saved: there is nothing to average")
            return
        if not single.exists():
            with new_folder(single) as staged:  # whole or not at all: the run folder's own weights are replaced below
                write_description(staged, recipe, self.job.tokenizers)
                for name in (WEIGHTS, CARD):
                    write_bytes(staged / name, read_bytes(self.run / name))
        set_weights(model, mean_weights(map(checkpoint_weights, parts)))
        with evaluating(model):
            scores = self.judge()
        steps = ", ".join(f"{step_of(part):,}" for part in sorted(parts))
        made = f"the mean of {_count(len(parts), 'checkpoint')}, steps {steps}"
        write_card(self.run, recipe, model, made, scores)
        write_weights(self.run, model)
        told = ", ".join(f"{name} {score:.4g}" for name, score in scores.items())
        best = (
            "" if end.best_score is None else f" ({told}; the best single model, {end.best_score:.4g}, is in {single})"
        )
        self.progress.say(f"The model in {self.run} is now {made}{best}")

    def reading(self, reading: Reading, logged: bool) -> None:
        """Show where training stands."""
        self.progress.reading(reading, logged)

    def validate(self) -> Mapping[str, float]:
        """Judge the model on the validation corpora."""
        return self.judge()

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None:
        """Show the scores, and keep the model where it is the best one so far."""
        self.progress.validation(position.step, scores, best)
        if best:
            if (self.run / SINGLE).exists():  # a run that was averaged goes on, and found a better model
                remove_folder(self.run / SINGLE)
            write_weights(self.run, self.job.model)
            made = f"{position.step:,} updates, {position.target_tokens:,} target tokens, the best model so far"
            write_card(self.run, self.job.recipe, self.job.model, made, scores)

    def checkpoint(self, position: Position) -> None:
        """Save what a resumed run needs."""
        retention = _retention(self.job.recipe)
        save_checkpoint(self.run / CHECKPOINTS, self.job.model, self.job.optimizer, position, retention)


class _Trial:
    """The other side of the trainer in a dry run: writes and shows nothing."""

    def __init__(self, job: _Job) -> None:
        self.job = job

    def forecast(self, position: Position) -> Forecast:
        """Train a few steps and multiply; the first ones, which compile and allocate, do not count."""
        job, train = self.job, self.job.recipe.train
        trainer = _trainer(job, self)
        trainer.settings = replace(trainer.settings, steps=2)
        trainer.run(position, StopRequest())
        began, seen = time.perf_counter(), position.target_tokens
        trainer.settings = replace(trainer.settings, steps=2 + _TRIAL_STEPS)
        trainer.run(position, StopRequest())
        if job.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        tokens = position.target_tokens - seen
        weighted = zip(job.prepared.train, job.prepared.weights, strict=True)
        in_epoch = sum(weight * int((store.lengths("target") + 1).sum()) for store, weight in weighted)
        parameters = sum(p.numel() for p in job.model.parameters())
        retention, bundles = _retention(job.recipe), 2 if train.average else 1  # the mean and the best single model
        return Forecast(
            parameters=parameters,
            tokens_per_second=tokens / seconds,
            seconds=seconds / _TRIAL_STEPS * train.steps,
            epochs=tokens / _TRIAL_STEPS * train.steps / in_epoch,
            checkpoint_bytes=4 * parameters * (3 * (retention.last + retention.best) + bundles),
            peak_gpu_bytes=torch.cuda.max_memory_allocated() if job.device.type == "cuda" else None,
        )

    def reading(self, reading: Reading, logged: bool) -> None:
        """Show nothing."""

    def validate(self) -> Mapping[str, float]:
        """Judge nothing."""
        return {}

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None:
        """Keep nothing."""

    def checkpoint(self, position: Position) -> None:
        """Save nothing."""


def _trainer(job: _Job, observer: "_Running | _Trial") -> Trainer[PairBatch]:
    train = job.recipe.train
    settings = Settings(
        steps=train.steps,
        accumulate=train.accumulate,
        clip_norm=train.clip_norm,
        seed=train.seed,
        log_every=train.log_every,
        checkpoint_every=train.checkpoint_every,
        validate_every=train.validation.every,
        patience=train.validation.patience,
        higher_is_better=_higher_is_better(job.recipe),
    )
    rate = learning_rate(train.schedule, job.recipe.model.width, train.steps)
    return Trainer(
        job.model, job.objective, job.optimizer, rate, job.feed, job.device, settings, observer, _compilation(job)
    )


def _compilation(job: _Job) -> Callable[[Tallying[PairBatch]], Tallying[PairBatch]]:
    """Compile when asked to; with `auto` where every batch has one shape."""
    static = job.feed.static is not None
    if not (static if job.recipe.train.compile == "auto" else job.recipe.train.compile):
        return lambda tally: tally
    return partial(torch.compile, dynamic=not static)


def _ragged_feed(recipe: Recipe, prepared: Prepared) -> PairFeed:
    """The training batches. Which sentences stand together depends on no device."""
    data = recipe.data
    most = max(1, data.batch_tokens // 8)  # sentences: shorter ones than 8 tokens leave some of the budget unused
    return PairFeed(prepared.train, prepared.weights, recipe.train.seed, data.batch_tokens, most, multiple=CPU_MULTIPLE)


def _static_shape(recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
    """The one shape of a GPU's batches, where attention runs straight on it: padding it would be wasteful."""
    data, model = recipe.data, recipe.model
    if not flash_takes(precision, model.width // model.heads, model.dropout_attention):
        return None
    longest = min(data.max_length + 1, data.batch_tokens)
    return StaticShape.around(data.batch_tokens, max(1, data.batch_tokens // 8), longest)


def checkpoints_to_average(folder: Path, average: Average, recipe: Recipe) -> list[Path]:
    """The last or best checkpoints of a run: as many as asked for, or all that there are."""
    if average.best is not None:
        return best_checkpoints(folder, average.best, _higher_is_better(recipe))
    return last_checkpoints(folder, average.last or 1)


def _retention(recipe: Recipe) -> Retention:
    """Which checkpoints a run keeps: the last ones, and those that it may come to average."""
    train, averaged = recipe.train, recipe.train.average or Average(last=1)
    last = max(train.keep_checkpoints, averaged.last or 1)
    return Retention(last, averaged.best or 0, _higher_is_better(recipe), train.checkpoint_every)


def _higher_is_better(recipe: Recipe) -> bool:
    return recipe.train.validation.metric in ("bleu", "chrf")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _clear(run: Path) -> None:
    """Remove what a run left that was killed while it wrote."""
    for leftover in run.glob(f".{WEIGHTS}.*"):
        leftover.unlink(missing_ok=True)
    for leftover in run.glob(f".{SINGLE}.*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _checkpoint_to_resume(run: Path, recipe: Recipe, resume: bool) -> Path | None:
    """The checkpoint a run goes on from; refuses to write over a run, or to go on with another recipe."""
    refuse_file_in_the_way(run)
    checkpoint = last_checkpoint(run / CHECKPOINTS)
    if checkpoint is None and (run / WEIGHTS).exists():
        raise UserError(f"{run} already holds a model, and no checkpoint to go on from: choose another --out.")
    if checkpoint and not resume:
        raise UserError(f"{run} already holds a run: add --resume to go on with it, or choose another --out.")
    if checkpoint is None:
        return None
    old, new = (flat(recipe_to_json(r)) for r in (read_description(run)[0], recipe))
    kept = _kept_from_the_start(recipe)
    changed = sorted(
        key
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key) and not _within(key, (*_FREE_KEYS, *kept))
    )
    if changed:
        key = changed[0]
        raise UserError(
            f"{run} was trained with `{key}` = {old.get(key)!r}, but the recipe says {new.get(key)!r}"
            + (f" (and {len(changed) - 1} more keys differ)" if len(changed) > 1 else "")
            + ": resume with the same recipe, or train into another folder."
        )
    return checkpoint


def _kept_from_the_start(recipe: Recipe) -> tuple[str, ...]:
    """What a fine-tuned model has from its start, whatever the recipe says; [model] is there to be said otherwise."""
    if not recipe.train.start_from:
        return ()
    return ("tokenizer",) if "model" in recipe.model_fields_set else ("tokenizer", "model")


def refuse_file_in_the_way(run: Path) -> None:
    """Refuse a folder that cannot be made because a file stands there."""
    standing = next(place for place in (run, *run.parents) if place.exists())
    if not standing.is_dir():
        raise UserError(f"{standing}: a file stands where a folder must be: choose another --out.")


def _within(key: str, keys: Sequence[str]) -> bool:
    return any(key == other or key.startswith(other + ".") for other in keys)


def _name(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")


def _cpu_name() -> str:
    return f"CPU, {torch.get_num_threads()} threads"
