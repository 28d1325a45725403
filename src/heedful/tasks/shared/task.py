"""What a task is, as runs, `heedful.load` and the command line use it.

The torch-free half of a task is its `rules` (`config.tasks`). A task from outside Heedful is passed to `heedful.train`
and `heedful.load`; the others are in `tasks.table`.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from heedful.base.errors import UserError
from heedful.base.notes import ShowProgress, show_nothing
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.collate import StaticShape
from heedful.data.epochs.loader import TrainingFeed
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.models.bundle import Bundle
from heedful.tasks.shared.answering.service import Service
from heedful.tasks.shared.evaluation import Evaluation
from heedful.tasks.shared.line import BASELINE, Line
from heedful.tasks.shared.loaded_model import LoadedModel, Placement, read_model
from heedful.tasks.shared.validation import Asked, Sample, Validated, refuse_diverged
from heedful.training.objectives import Objective


class Task(ABC):
    """What a model is trained for: makes data, objective and batches from a recipe, and a usable model from a bundle.

    Trainer, checkpoints, resume, averaging, fine-tuning, cards and `heedful evaluate` work with every task.
    """

    rules: TaskRules  # of its recipes, and the names of its models; without torch
    model_type: type[LoadedModel[Any]]  # class of its loaded models
    service_type: type[Service] | None = None  # what they offer to other programs; None if they answer no requests
    doing: ClassVar[str] = "evaluating"  # what progress calls an evaluation
    arguments: ClassVar[tuple[str, str]] = ("", "")  # examples of what its command and its method get: see `usage`
    _in_use: LoadedModel[Any] | None = None
    # What the line to beat was learned from, what was asked for, and its scores:
    _line: tuple[tuple[object, str, int | None], Mapping[str, float]] | None = None

    @abstractmethod
    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; given vocabularies and classes are kept."""

    def set_weights(self, network: nn.Module, recipe: Recipe, prepared: Prepared) -> None:
        """Change the initial weights of a network, without any random choice; most tasks do not."""
        return

    @abstractmethod
    def objective(self, recipe: Recipe, prepared: Prepared) -> Objective[Any]:
        """Make the objective that training minimises."""

    @abstractmethod
    def feed(self, recipe: Recipe, prepared: Prepared) -> TrainingFeed[Any]:
        """Make the training batches, ragged: `placed` converts them to the form that a device needs."""

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """Return the common shape of a GPU's batches if attention needs no padding; None if batches stay ragged."""
        return None

    def validator(self, bundle: Bundle[Any], prepared: Prepared) -> "Validator":
        """Make the validator that scores the model during training; the recipe's metric comes first."""
        return Validator(self, bundle, prepared)

    def model_in_use(self, bundle: Bundle[Any]) -> Any:
        """Return the model of a bundle that is being trained, the same at each call: it keeps what a GPU recorded."""
        if self._in_use is None or self._in_use.bundle is not bundle:
            self._in_use = self.model_type(bundle)
        return self._in_use

    def validate(self, bundle: Bundle[Any], prepared: Prepared, asked: Asked) -> Validated:
        """Evaluate a model that is being trained on the validation corpora, of which there is one at least."""
        raise NotImplementedError

    def baseline(
        self, bundle: Bundle[Any], prepared: Prepared, asked: Asked, say: Callable[[str], None]
    ) -> Mapping[str, float]:
        """Return the scores of the line to beat by name, the usual metric first; none where a task has no such line.

        It is learned once per run, which is said, and kept for the next validations.
        """
        if not self.rules.line or not prepared.train:
            return {}
        key = prepared.train, asked.metric, asked.most
        if self._line is None or self._line[0][0] is not key[0] or self._line[0][1:] != key[1:]:
            began = time.perf_counter()
            with torch.inference_mode(False):
                found = self.line(bundle, prepared, asked)
            if found:
                names = dict.fromkeys((*filter(found.scores.__contains__, [asked.metric]), next(iter(found.scores))))
                named = ", ".join(f"{name} {found.scores[name]:.4g}" for name in names)
                took = f"{time.perf_counter() - began:.1f} s"
                say(f"the line to beat: {named}, of {self.rules.line}, learned from {found.learned_from} ({took})")
            self._line = key, found.scores if found else {}
        return self._line[1]

    def line(self, bundle: Bundle[Any], prepared: Prepared, asked: Asked) -> Line | None:
        """Learn the line to beat from the training rows, in seconds and without any random choice, and score it.

        It is scored on the rows of a validation; None where the validation has no score to compare it with.
        """
        raise NotImplementedError

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens of an epoch, as training speed counts them: by default those that the model reads."""
        feed: Any = self.feed(recipe, prepared)
        weighted = zip(prepared.train, prepared.weights, strict=True)
        costs = feed.collator.costs
        return float(sum(weight * costs([store], np.arange(len(store)))[0].sum() for store, weight in weighted))

    def load(
        self, folder: Path, placement: Placement, ensemble: Sequence[Path] = (), adapter: Path | None = None
    ) -> Any:
        """Load a bundle as a usable model, with an adapter in another folder; an ensemble applies to what searches."""
        return read_model(self.model_type, [folder, *ensemble], placement, self.rules, adapter)

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """Return how to use such a model: a command, and a call in Python on `model`."""
        of_command, of_call = self.arguments
        return f"heedful {self.rules.verb} {folder} {of_command}", f"{self.rules.verb}({of_call})"

    def evaluate(
        self,
        model: Any,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> Evaluation:
        """Score a loaded model on a corpus whose files are in `folder`; `options` are those of the search."""
        rows = list(self.read_corpus(model, corpus, folder))
        with show(self.doing, self.count(rows)) as progress:
            given = {**(options or {}), **self.corpus_options(corpus)}
            found: Evaluation = model.evaluate_rows(rows, name=corpus.title, progress=progress, **given)
        return found

    def corpus_options(self, corpus: AnyCorpus) -> Mapping[str, Any]:
        """Return options of an evaluation that a corpus decides."""
        return {}

    def read_corpus(self, model: Any, corpus: AnyCorpus, folder: str) -> Iterable[Any]:
        """Read the rows of a corpus that a model is evaluated on, by its method `evaluate_rows`."""
        raise NotImplementedError

    def count(self, rows: Sequence[Any]) -> int:
        """Return the number of what is evaluated in rows."""
        return len(rows)


@dataclass(eq=False)
class Validator:
    """Validates the model of a run; the recipe's metric comes first, and that of the line to beat last."""

    task: Task
    bundle: Bundle[Any]
    prepared: Prepared
    metrics: Metrics = field(default_factory=dict)  # of the caller's program
    show: ShowProgress = show_nothing
    say: Callable[[str], None] = lambda line: None
    samples: Sequence[Sample] = ()  # of the last validation
    to_beat: Mapping[str, float] = field(default_factory=dict)  # what a resumed run has recorded of the line to beat

    def __call__(self) -> Mapping[str, float]:
        """Return all scores; none without validation corpora."""
        settings = self.bundle.recipe.train.validation
        if not self.prepared.valid:
            return {}
        asked = Asked(settings.metric, settings.max_sentences, bool(self.metrics), self.show)
        found = self.task.validate(self.bundle, self.prepared, asked)
        if self.metrics and not found.outputs:
            raise UserError("`metrics` score outputs, which this task's validation does not have: leave them out.")
        self.samples = found.samples
        scores = {**found.scores, **score_outputs(self.metrics, found.outputs, found.references)}
        refuse_diverged(scores["loss"])
        if not self.to_beat:
            found_by_line = self.task.baseline(self.bundle, self.prepared, asked, self.say)
            line = {name: score for name, score in found_by_line.items() if name in scores}
            metric = settings.metric if settings.metric in line else next(iter(line), "")
            self.to_beat = {f"{BASELINE}{metric}": line[metric]} if line else {}
        return {settings.metric: scores[settings.metric], **scores, **self.to_beat}
