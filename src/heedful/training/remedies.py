"""Remedies that change what is minimised, around the objective of any task: R-Drop, and distillation from a teacher.

In distillation, a model learns to predict what a trained teacher predicts (Hinton et al. 2015; Kim and Rush 2016). At
word level, as here, the student learns the teacher's probabilities of every token, class or label of the training data.
At sequence level it learns from the teacher's translations, which `heedful translate` writes.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heedful.base.errors import UserError
from heedful.base.files import expand_user, read_bytes
from heedful.config.model.pooled import ClassifierModel
from heedful.config.reading.toml import shown
from heedful.config.recipe import Recipe
from heedful.config.train.table import Distillation, Train
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import ADAPTER, WEIGHTS, base_of, read_bundle, read_description
from heedful.training.objectives import Objective, PredictiveObjective, Sums

_TEXT_FORM = ("nfc", "lowercase", "tokenized")  # keys of [data]


class Distilled(PredictiveObjective[Any, Any]):
    """L = (1 - w) L_data + w t^2 KL(teacher || student), with scores divided by the temperature t

    The teacher reads the same batch, without dropout; it has no gradients, and draws nothing.
    """

    def __init__(self, objective: PredictiveObjective[Any, Any], teacher: nn.Module, settings: Distillation) -> None:
        self.objective, self.teacher = objective, teacher.eval().requires_grad_(False)
        self.weight, self.temperature = settings.weight, settings.temperature
        self._taught: Any = None  # what the teacher predicts for the batch that was drawn last

    def draw(self, batch: Any) -> Any:
        """Return the batch after random changes, and let the teacher read it."""
        drawn = self.objective.draw(batch)
        with torch.no_grad():
            self._taught = self.objective.predict(self.teacher, drawn)
        return drawn

    def predict(self, model: Any, batch: Any) -> Any:
        """Run the student."""
        return self.objective.predict(model, batch)

    def score(self, predicted: Any, batch: Any) -> Sums:
        """Sum the loss over the units of a micro-batch that `draw` returned."""
        sums = self.objective.score(predicted, batch)
        divergence = predicted.divergence_from(self._taught, self.temperature)
        return Sums((1 - self.weight) * sums.loss + self.weight * divergence, sums.likelihood)

    def units(self, batch: Any) -> int:
        """Return the number of units in the sums."""
        return self.objective.units(batch)

    def tokens(self, batch: Any) -> int:
        """Return the number of tokens by which speed is measured."""
        return self.objective.tokens(batch)


@dataclass(frozen=True, eq=False)
class Teacher:
    """A trained model that another learns from."""

    folder: Path
    recipe: Recipe
    network: nn.Module
    fingerprint: str  # of its weights
    gives_start: bool = False  # whether the other model begins with its weights


def as_student(recipe: Recipe) -> tuple[Recipe, Vocabularies | None]:
    """Return the recipe with the tokenizer of its teacher, and the teacher's vocabularies, which the student has too.

    Without a teacher, the recipe stays as it is, and has no vocabularies yet. A [tokenizer] table that is not the
    teacher's is refused.
    """
    if recipe.train.distill is None:
        return recipe, None
    folder = _folder(recipe.train.distill)
    theirs, vocabularies = read_description(folder)
    _refuse_other_task(recipe, theirs, folder)
    if "tokenizer" in recipe.model_fields_set and recipe.tokenizer != theirs.tokenizer:
        raise UserError(
            f"[tokenizer] differs from that of the teacher {folder}, but a student has its teacher's vocabulary: leave "
            "the table out, or translate the training data with the teacher (`heedful translate`)."
        )
    try:
        return recipe.with_tokenizer(theirs.tokenizer), vocabularies
    except ValueError as error:
        raise UserError(f"With the vocabulary of the teacher {folder}, {error}.") from error


def read_teacher(recipe: Recipe, vocabularies: Vocabularies, device: torch.device) -> Teacher | None:
    """Read the teacher of a recipe; refuse one that predicts or reads something else than the student."""
    if recipe.train.distill is None:
        return None
    folder = _folder(recipe.train.distill)
    bundle = read_bundle(folder, nn.Module)
    _refuse_other_task(recipe, bundle.recipe, folder)
    different = vocabularies.first_difference(bundle.vocabularies)
    if different is not None:
        raise UserError(
            f"The {different} vocabulary of the teacher {folder} is not that of the student, so their probabilities "
            "cannot be compared: train the student with the teacher's vocabulary, or on its translations."
        )
    if vocabularies.labels != bundle.vocabularies.labels:
        raise UserError(
            f"The classes of the teacher {folder} are not those of the student: train both on data with the same "
            "classes."
        )
    file = WEIGHTS if base_of(folder) is None else ADAPTER  # an adapter names its base by its hash
    fingerprint = hashlib.sha256(read_bytes(folder / file)).hexdigest()
    return Teacher(folder, bundle.recipe, bundle.model.to(device), fingerprint, recipe.train.distill.start)


def _folder(settings: Distillation) -> Path:
    folder = expand_user(settings.teacher)
    if not folder.exists():
        raise UserError(f"`train.distill.teacher` is {folder}, which is not a folder: train that model first.")
    return folder


def _refuse_other_task(recipe: Recipe, theirs: Recipe, folder: Path) -> None:
    if recipe.rules.name != theirs.rules.name:
        raise UserError(f"The teacher {folder} {theirs.rules.does}, but the student is {recipe.rules.learner}.")
    key = next((key for key in _TEXT_FORM if getattr(recipe.data, key) != getattr(theirs.data, key)), None)
    if key is not None:
        values = (getattr(data, key) for data in (recipe.data, theirs.data))
        own, other = ("unset" if value is None else shown(value) for value in values)
        raise UserError(
            f"`data.{key}` is {own}, but must be that of the teacher {folder}, as both read the same texts: {other}."
        )
    if _reads(recipe) != _reads(theirs):
        raise UserError(
            f"The teacher {folder} reads texts in another form than the student: both must be hierarchical or not, "
            "join pairs in the same way, and predict the same number of labels."
        )
    end = theirs.model.longest
    if end is not None and recipe.data.max_length >= end[0]:
        raise UserError(
            f"`data.max_length` is {recipe.data.max_length:,}, but the teacher {folder} has positions for "
            f"{end[0]:,} tokens, markers included: lower it."
        )


def _reads(recipe: Recipe) -> tuple[object, ...]:
    """Return what decides the form of a batch."""
    model = recipe.model
    if isinstance(model, ClassifierModel):
        return model.nested, model.joins_after_reading, model.reads_letters, model.labels
    return getattr(model, "next_sentence", None), getattr(model, "mark_matches", None), recipe.data.borders


class RDrop:
    """L = 1/2 (L_1 + L_2) + alpha/2 * D(P_1, P_2),  D(P, Q) = 1/2 KL(P || Q) + 1/2 KL(Q || P)

    Liang et al. 2021, (4), divided by 2, so that the loss, its gradients and their norm stay those of one pass. P_1 and
    P_2 are what the network predicts for the same batch in two passes. Their dropout comes one after the other from the
    generator that the trainer seeds for each micro-batch, so a resumed run draws the same. Random changes of the batch
    itself, such as those of images, are drawn once. The batch keeps its shape: updates can be captured.
    """

    def __init__(self, objective: PredictiveObjective[Any, Any], alpha: float) -> None:
        self.objective, self.alpha = objective, alpha
        self.units, self.tokens = objective.units, objective.tokens

    def __call__(self, model: Any, batch: Any) -> Sums:
        """Sum the loss over the units of a micro-batch."""
        drawn = self.objective.draw(batch)
        first, second = (self.objective.predict(model, drawn) for _ in range(2))
        one, other = self.objective.score(first, drawn), self.objective.score(second, drawn)
        loss = (one.loss + other.loss + self.alpha * first.divergence(second)) / 2
        return Sums(loss, (one.likelihood + other.likelihood) / 2)


def with_remedies(objective: Objective[Any], train: Train, teacher: nn.Module | None = None) -> Objective[Any]:
    """Return what a recipe minimises: the objective of its task, with a teacher and with R-Drop where these are set."""
    if train.distill is not None and teacher is not None:
        objective = Distilled(_predictive(objective, "train.distill"), teacher, train.distill)
    if train.r_drop is None:
        return objective
    return RDrop(_predictive(objective, "train.r_drop"), train.r_drop)


def _predictive(objective: Objective[Any], key: str) -> PredictiveObjective[Any, Any]:
    if not isinstance(objective, PredictiveObjective):
        raise UserError(
            f"`{key}` compares predictions, which the objective of this task does not make in a step of their own: "
            "leave it out, or derive the objective from `heedful.training.objectives.PredictiveObjective`."
        )
    return objective
