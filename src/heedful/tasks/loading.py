"""Loading of a trained model of any task from its folder."""

import inspect
from collections.abc import Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, overload

from heedful.base.arguments import check_path, check_several
from heedful.base.errors import UserError
from heedful.config.reading.bundle_config import other_task
from heedful.config.recipe import Recipe
from heedful.models.bundle import own_network_of, read_recipe
from heedful.models.own_parts import GivenTokenizer, NetworkBuilder, OwnParts, hand_over
from heedful.tasks.shared.loaded_model import LoadedModel, Placement, adapter_folder
from heedful.tasks.shared.task import Task
from heedful.tasks.table import HOMES

Model = TypeVar("Model", bound=LoadedModel[Any])


def task_named(name: str) -> Task:
    """Return a task of the table."""
    module, _, kind = HOMES[name].partition(":")
    made: Any = getattr(import_module(module), kind)()
    return made


def find_task(recipe: Recipe, given: Task | None = None) -> Task:
    """Return the task of a recipe: the given one, or the one in the table."""
    return task_named(recipe.rules.name) if given is None else given


def next_command(folder: Path) -> str:
    """Return a command that uses the model in a folder."""
    recipe = read_recipe(folder)
    return find_task(recipe).usage(recipe, folder)[0]


@overload
def load(
    path: str | PathLike[str],
    kind: type[Model],
    device: str = "auto",
    precision: str = "auto",
    ensemble: Sequence[str | PathLike[str]] = (),
    *,
    network: NetworkBuilder | None = None,
    tokenizer: GivenTokenizer | None = None,
    adapter: str | PathLike[str] | None = None,
) -> Model: ...
@overload
def load(
    path: str | PathLike[str],
    device: str = "auto",
    precision: str = "auto",
    ensemble: Sequence[str | PathLike[str]] = (),
    task: None = None,
    *,
    network: NetworkBuilder | None = None,
    tokenizer: GivenTokenizer | None = None,
    adapter: str | PathLike[str] | None = None,
) -> LoadedModel[Any]: ...
@overload
def load(
    path: str | PathLike[str],
    device: str = "auto",
    precision: str = "auto",
    ensemble: Sequence[str | PathLike[str]] = (),
    *,
    task: Task | None,
    network: NetworkBuilder | None = None,
    tokenizer: GivenTokenizer | None = None,
    adapter: str | PathLike[str] | None = None,
) -> Any: ...
def load(path: str | PathLike[str], *given: Any, **options: Any) -> Any:
    """Load a model that `heedful train` wrote, as the class of its task, such as a `Translator` or a `TextClassifier`.

    `heedful.load("runs/mine", heedful.Translator)` returns a Translator, for type checkers and readers, and refuses
    a model of another class.

    `device` is "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:1"; `precision` is "float32", "bfloat16",
    on a CPU "int8", or "auto": the recipe's `decode.precision`, and without it bfloat16 on a GPU and float32 elsewhere.
    `ensemble` are models that translate or parse together with the first. `task`, `network` and `tokenizer` are for a
    model that was trained with your own, as by `heedful.train(..., task=task)`. `adapter` is the folder of an adapter
    of this model (`train.adapter`), which it then has: `model.with_adapter` has several of one model in memory.
    """
    by_place = bool(given) and not isinstance(given[0], str)  # the class comes second, where calls may have the device
    return _load(path, *(given if by_place else (None, *given)), **options)


def _load(
    path: str | PathLike[str],
    kind: type[LoadedModel[Any]] | None = None,
    device: str = "auto",
    precision: str = "auto",
    ensemble: Sequence[str | PathLike[str]] = (),
    task: Task | None = None,
    *,
    network: NetworkBuilder | None = None,
    tokenizer: GivenTokenizer | None = None,
    adapter: str | PathLike[str] | None = None,
) -> Any:
    folder = check_path("path", path)
    if kind is not None and not (isinstance(kind, type) and issubclass(kind, LoadedModel)):
        raise UserError(f"`kind` is {kind!r}, but must be a class of models, such as heedful.Translator.")
    others = [check_path("ensemble", other) for other in check_several(ensemble, "ensemble")]
    adapting = adapter_folder(adapter)
    recipe = read_recipe(adapting or folder, None if task is None else task.rules)
    if others and not recipe.rules.searches:
        raise UserError(
            f"{path} neither translates nor parses, and only such models make an ensemble: leave out `ensemble`."
        )
    if network is not None and own_network_of(folder) is None:
        raise UserError(f"{path} was trained without a network of its own: leave out `network`.")
    with hand_over(OwnParts.of(network, tokenizer)):
        given = {} if adapting is None else {"adapter": adapting}
        loaded = find_task(recipe, task).load(folder, Placement.of(device, precision), others, **given)
    if kind is not None and not isinstance(loaded, kind):
        raise other_task(folder, recipe)
    return loaded


load.__signature__ = inspect.signature(_load)  # type: ignore[attr-defined]  # which `help` shows
