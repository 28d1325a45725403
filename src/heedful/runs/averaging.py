"""A bundle with the mean of several weights: of a run's checkpoints, or of models of one shape and vocabulary."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor, nn

from heedful.base.errors import UserError, by_caller, counted
from heedful.base.files import expand_user, new_folder, output_folder
from heedful.config.reading.toml import shown
from heedful.config.task_rules import TaskRules
from heedful.config.train.table import Average
from heedful.models.bundle import (
    WEIGHTS,
    base_of,
    build_network_of,
    read_bundle,
    read_description,
    refuse_used_folder,
    write_description,
    write_weights,
)
from heedful.models.weights import first_difference, mean_weights, set_weights, shapes_of
from heedful.runs.fine_tuning import other_function
from heedful.runs.model_card import write_card
from heedful.runs.run import CHECKPOINTS, checkpoints_to_average
from heedful.tasks.shared.task import Task
from heedful.training.checkpoints import checkpoint_weights


def average(
    models: Sequence[str | Path],
    out: str | Path,
    *,
    last: int | None = None,
    best: int | None = None,
    task: Task | None = None,
) -> list[Path]:
    """Average several models, or the last or best n checkpoints of one run; return the averaged folders."""
    folder = output_folder(out)
    refuse_used_folder(folder)
    first = Path(models[0])
    rules = None if task is None else task.rules
    recipe, vocabularies = read_description(first, rules)
    if len(models) > 1:
        if last or best:
            raise UserError(
                f"{by_caller('--last and --best', '`last` and `best`')} choose checkpoints of one run, but several "
                "models are given: leave them out."
            )
        parts = [Path(model) for model in models]
        twice = next((part for index, part in enumerate(parts) if part in parts[:index]), None)
        if twice:
            raise UserError(f"{twice} is given twice: name each model once.")
        weights = mean_weights(_weights_of(parts, rules))
    else:
        if last and best:
            which = by_caller("--last or --best", "`last` or `best`")
            raise UserError(f"The last and the best checkpoints may differ: leave out {which}.")
        if not (last or best):
            which = by_caller("--last N or --best N", "`last=N` or `best=N`")
            raise UserError(f"A single model has nothing to average: add {which} to average checkpoints of {first}.")
        if base_of(first) is not None:
            raise UserError(
                f"{first} is an adapter, whose checkpoints have no model of their own: average them in training, by "
                "`train.average`, or average models."
            )
        parts = checkpoints_to_average(first / CHECKPOINTS, Average(last=last, best=best), recipe)
        asked = last or best or 0
        if len(parts) < asked:
            kind = "" if last else " validated when saved"
            raise UserError(
                f"{first} holds {counted(len(parts), 'checkpoint')}{kind}, but {asked} were requested: request fewer, "
                f"or train with `train.keep_checkpoints` or `train.average` set to {asked}."
            )
        weights = mean_weights(map(checkpoint_weights, parts))
    model = build_network_of(first, recipe, vocabularies)
    set_weights(model, weights)
    with new_folder(folder) as staged:
        write_description(staged, recipe, vocabularies)
        write_weights(staged, model)
        made = f"the mean of the weights of {', '.join(part.absolute().name for part in parts)}"
        write_card(staged, recipe, model, made, {}, named=folder, task=task)
    return parts


def are_strangers(models: Sequence[str | Path]) -> bool:
    """Whether models started from different weights, so that their mean is most likely noise.

    A model and one that was fine-tuned from it have the same start.
    """
    folders = [Path(model).resolve() for model in models]
    trains = [read_description(folder)[0].train for folder in folders]
    starts = [expand_user(train.start_from).resolve() if train.start_from else None for train in trains]
    began = {
        start or (folder if folder in starts else train.seed)
        for folder, train, start in zip(folders, trains, starts, strict=True)
    }
    return len(began) > 1


def _weights_of(folders: Sequence[Path], rules: TaskRules | None) -> Iterator[dict[str, Tensor]]:
    """Yield the weights of bundles one after the other; refuse a bundle that does not match the first."""
    recipe, first = read_description(folders[0], rules)
    shapes = None
    for folder in folders:
        bundle = read_bundle(folder, nn.Module, rules)
        side = bundle.vocabularies.first_difference(first)
        if side:
            raise UserError(f"{folder} and {folders[0]} have different {side} vocabularies: they cannot be averaged.")
        if bundle.vocabularies.labels != first.labels:
            raise UserError(f"{folder} and {folders[0]} have different classes: they cannot be averaged.")
        if bundle.vocabularies.scale != first.scale:
            raise UserError(f"{folder} and {folders[0]} learned numbers of different scales: they cannot be averaged.")
        if other := other_function(bundle.recipe, recipe):
            key, ours, theirs = other
            raise UserError(
                f"{folder}: `model.{key}` is {shown(ours)}, but in {folders[0]} it is {shown(theirs)}: they cannot be "
                "averaged."
            )
        weights = {name: parameter.data for name, parameter in bundle.model.named_parameters()}
        shapes, here = shapes or shapes_of(weights), shapes_of(weights)
        name = first_difference(shapes, here)
        if name:
            raise UserError(
                f"{folder / WEIGHTS}: `{name}` is {here.get(name, 'missing')}, but in {folders[0]} it is "
                f"{shapes.get(name, 'missing')}: only models of the same shape can be averaged."
            )
        yield weights
