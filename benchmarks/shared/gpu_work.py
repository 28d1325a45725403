"""Shared by the GPU benchmarks: the model's shape, the peer, rates, and results that outlive a part's failure."""

import argparse
import gc
import math
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from benchmarks.shared.detailed_results import command_line
from torch import nn

from heedful.base.files import read_json, write_json
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD
from heedful.metrics.recorded_results import record, result_file
from heedful.models.networks import Network
from heedful.runs.job import Job
from heedful.runs.run import build_trainer
from heedful.tasks.shared.task import Task
from heedful.training.checkpoints import Position
from heedful.training.optimizers.build import build_optimizer
from heedful.training.signals import StopRequest
from heedful.training.trainer import Observer, StepMetrics

FIRST_PIECE = 4  # the ids before it are markers
GIB = 1 << 30


@dataclass(frozen=True)
class Shape:
    """The sizes of a Transformer with one tied matrix for all vocabularies; by default those of Transformer-base."""

    width: int = 512
    inner: int = 2048
    heads: int = 8
    layers: int = 6  # of the encoder, and of the decoder
    vocabulary: int = 32_000

    def ours(self, dropout: float) -> TransformerModel:
        return TransformerModel(
            width=self.width, inner=self.inner, heads=self.heads, layers=self.layers, dropout=dropout
        )

    def marian(self, dropout: float) -> nn.Module:
        """The same model of transformers; its attention is by default PyTorch's fused one, and drops no weights."""
        from transformers import MarianConfig, MarianMTModel

        config = MarianConfig(
            vocab_size=self.vocabulary, d_model=self.width, dropout=dropout, attention_dropout=0.0,
            encoder_layers=self.layers, decoder_layers=self.layers, activation_function="relu", scale_embedding=True,
            encoder_ffn_dim=self.inner, decoder_ffn_dim=self.inner, max_position_embeddings=1024,
            encoder_attention_heads=self.heads, decoder_attention_heads=self.heads,
            pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=BEGIN, forced_eos_token_id=None,
        )  # fmt: skip
        model: nn.Module = MarianMTModel(config)
        return model

    def operations(self, source_tokens: float, target_tokens: float) -> float:
        """Those of all matrix products with weights, forward and backward, on real tokens alone."""
        attention, network = 4 * self.width**2, 2 * self.width * self.inner
        encoder, decoder = self.layers * (attention + network), self.layers * (2 * attention + network)
        return 6 * (encoder * source_tokens + (decoder + self.vocabulary * self.width) * target_tokens)


class Listener(Observer):
    """Collects the step metrics of a run, and neither validates nor saves."""

    def __init__(self) -> None:
        self.readings: list[StepMetrics] = []
        self.records: list[Mapping[str, Any]] = []  # of instruments

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        if logged:
            self.readings.append(metrics)

    def validate(self) -> Mapping[str, float]:
        return {}

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None: ...
    def checkpoint(self, position: Position) -> None: ...


def trained_rate(
    recipe: Recipe, task: Task, prepared: Prepared, model: Network, device: torch.device, warm: int
) -> tuple[float, float]:
    """Train as `heedful train` does: tokens per second after the first `warm` steps, and the share of time waiting."""
    optimizer = build_optimizer(recipe.train.optimizer, model)
    objective, feed = task.objective(recipe, prepared), task.feed(recipe, prepared)
    job = Job(recipe, task, prepared, device, model, optimizer, objective, feed)
    position, listener = job.begin(), Listener()  # which settles precision and shape: the trainer is made for them
    build_trainer(job, listener).run(position, StopRequest())
    settled = [reading for reading in listener.readings if reading.step > warm]
    return median(r.tokens_per_second for r in settled), median(r.data_wait for r in settled)


def choose_names(parser: argparse.ArgumentParser, option: str, given: str, known: Sequence[str]) -> list[str]:
    """The names of an option's list; one that is not known ends the program."""
    names = [name for name in given.split(",") if name]
    for name in names:
        if name not in known:
            parser.error(f"{option}: `{name}` is not one of {', '.join(known)}")
    return names


def start_clean() -> None:
    """Forget what ran before: its memory, its peak, and what was compiled for it."""
    gc.collect()
    torch.compiler.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gib() -> float:
    """The peak memory of tensors on the GPU since the clean start."""
    return torch.cuda.max_memory_allocated() / GIB if torch.cuda.is_available() else 0.0


def wait() -> None:
    """Wait until the device has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def rate(step: Callable[[], int], *, warm: int, stretches: int, steps: int = 1) -> float:
    """Units per second, where a step says how many it did: the median over stretches of `steps` steps."""
    for _ in range(warm):
        step()
    rates = []
    for _ in range(stretches):
        wait()
        began = time.perf_counter()
        units = sum(step() for _ in range(steps))
        wait()
        rates.append(units / (time.perf_counter() - began))
    return median(rates)


class Results:
    """Figures as they come in. They are saved after every part, and a part that failed is named next to them."""

    def __init__(self, name: str, folder: Path | None, merge: bool) -> None:
        """Record in a folder, or nowhere; with `merge`, what stands there already and is not measured again stays."""
        self.name, self.folder = name, folder
        self.figures: dict[str, float] = {}
        self.details: dict[str, dict[str, Any]] = {}  # curves: everything that is not a single figure, by name
        self._tried: set[str] = set()
        self._failed: dict[str, str] = {}
        path = None if folder is None else result_file(name, folder)
        self._before = _read(path) if merge and path is not None and path.exists() else {}
        self._began = time.perf_counter()

    def add(self, **figures: float) -> None:
        """Take figures and show them."""
        for key, figure in figures.items():
            if not math.isfinite(figure):
                raise ValueError(f"{key} is {figure}")
            self.figures[key] = figure
            self.say(f"{key:44} {figure:>16,.4f}")

    def say(self, line: str) -> None:
        """Show a line, with the seconds since the start."""
        print(f"{time.perf_counter() - self._began:7.1f}  {line}", flush=True)

    def ratio(self, key: str, ours: str, theirs: str) -> None:
        """Add a ratio of two figures of this run, once both are known."""
        if ours in self.figures and theirs in self.figures:
            self.add(**{key: self.figures[ours] / self.figures[theirs]})

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Run a part from a clean start; if it fails, report it and continue."""
        start_clean()
        self._tried.add(name)
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            first = (str(error).strip() or "no message").splitlines()[0]
            self._failed[name] = f"{type(error).__name__}: {first}"
            self.say(f"{name} failed: {self._failed[name]}")
        self._save()

    def exit(self) -> None:
        """End the program: with 1 if a part failed."""
        sys.exit(1 if self._failed else 0)

    def _save(self) -> None:
        if self.folder is None:
            return
        before = self._before
        figures = {**before.get("figures", {}), **self.figures}
        path = record(self.name, figures, command=command_line(), seeds=[0], folder=self.folder)
        result = _read(path)
        result["versions"]["transformers"] = version("transformers")
        names = dict.fromkeys((*before.get("details", {}), *self.details))
        details = {name: _joined(before.get("details", {}).get(name, {}), self.details.get(name, {})) for name in names}
        failed = {part: error for part, error in before.get("failed", {}).items() if part not in self._tried}
        write_json(path, result | {"details": details, "failed": failed | self._failed})


def _joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables, and those inside them; what is new comes before what is old."""
    inner = {key: _joined(old[key], new[key]) for key in new if isinstance(old.get(key), dict)}
    return {**old, **new, **inner}


def _read(path: Path) -> dict[str, Any]:
    recorded = read_json(path)
    assert isinstance(recorded, dict)
    return recorded
