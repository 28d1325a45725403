"""Models that are served: loaded from local bundles, each with a name, a thread, and what it offers."""

import re
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.config.recipe import Recipe
from heedful.models.bundle import read_recipe
from heedful.server.errors import Refused
from heedful.server.settings import named_folders
from heedful.server.worker import Worker
from heedful.tasks.loading import find_task, load
from heedful.tasks.shared.answering.service import Service
from heedful.tasks.shared.loaded_model import LoadedModel, describe_size

_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
_PACKED: Final = (".gz", ".xz", ".zst")
_BUILTIN: Final = {"english": "en", "spanish": "es"}


@dataclass
class Served:
    """One model of a server."""

    name: str
    service: Service
    source: str | None = None  # language codes, of a translator where they are known
    targets: Sequence[str] = ()
    worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        self.worker = Worker(self.service, self.name)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the model."""
        return self.service.model.recipe

    @cached_property
    def verb(self) -> str:
        """The command that uses such a model, and the last part of its route."""
        return self.recipe.rules.verb

    def without_folder(self, message: str) -> str:
        """Return a message with the name of the model in place of its folder, which is nobody's business."""
        folder = self.service.model.bundle.folder
        return message if folder is None else message.replace(str(folder), self.name)

    def facts(self) -> dict[str, Any]:
        """Return what `/v1/models` says of it."""
        service, model = self.service, self.service.model
        return {
            "id": self.name,
            "object": "model",
            "created": 0,
            "owned_by": "heedful",
            "task": self.recipe.rules.name,
            "verb": self.verb,
            "family": self.recipe.model.family,
            "size": describe_size(model.network, model.vocabularies),
            "languages": list(service.languages),
            "labels": list(getattr(model, "labels", ())),
            "roles": list(service.roles),
            "explains": service.explains,
            "embeds": service.embeds,
            "streams": service.streams,
        }


class Models:
    """All models of a server, and a thread beside theirs for explanations."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = list(served)
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="heedful-explain")
        self.explaining = 0  # explanations that wait or are computed
        self.asked_to_explain = 0  # requests for them; the others belong to calls of models
        self.most = 0  # requests that were ever accepted at once

    @property
    def beside(self) -> ThreadPoolExecutor:
        """What runs explanations, one after the other."""
        return self._beside

    def start(self) -> None:
        """Begin to answer."""
        for one in self.served:
            one.worker.start()

    def halt(self) -> None:
        """Refuse what is under way."""
        for one in self.served:
            one.worker.halt()

    def stop(self) -> None:
        """End all threads."""
        for one in self.served:
            one.worker.stop()
        self._beside.shutdown(wait=True, cancel_futures=True)

    @property
    def under_way(self) -> int:
        """Amount of work that waits or is under way."""
        return self.accepted + self.explaining

    @property
    def accepted(self) -> int:
        """Number of requests that wait or are under way: never more than the queue has room for."""
        return sum(one.worker.under_way for one in self.served) + self.asked_to_explain

    def find(self, name: str | None, verb: str | None = None, roles: Container[str] = ()) -> Served:
        """Return the named model, or the one of a verb that reads the most of these roles and no others."""
        fitting = [one for one in self.served if verb in (None, one.verb)]
        if name is None and fitting:
            reading = [one for one in fitting if all(role in roles for role in one.service.roles)]
            return max(reading, key=lambda one: len(one.service.roles), default=fitting[0])
        found = next((one for one in self.served if one.name == name), None)
        if found is None and name is not None:
            known = ", ".join(one.name for one in self.served)
            raise Refused(404, f"There is no model `{name}`. Those that are served: {known}.", "model")
        if found is None or found not in fitting:
            does = ", ".join(f"{one.name} ({one.verb})" for one in self.served)
            raise Refused(404, f"No model is served for /v1/{verb}. Those that are served: {does}.", "model")
        return found


def load_models(
    given: Sequence[str | Path] | Mapping[str, Any], device: str, precision: str, languages: Sequence[str] = ()
) -> list[Served]:
    """Load models from folders, each by its name or as `name=folder`; a mapping may have loaded ones."""
    given = [given] if isinstance(given, str | Path) else given
    named: list[tuple[str, Any]] = [*given.items()] if isinstance(given, Mapping) else named_folders(map(str, given))
    if not named:
        raise UserError("There is no model to serve: give the folder of one.")
    names = [name for name, _ in named]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"Two models are called `{twice}`: give one of them another name, NAME=FOLDER.")
    for _, folder in named:
        if not isinstance(folder, LoadedModel):
            read_recipe(expand_user(str(folder)))  # before the first one is loaded
    pairs, served = list(languages), []
    for name, one in named:
        made = _served(name, one if isinstance(one, LoadedModel) else load(str(one), device, precision))
        if made.verb == "translate" and pairs and not (made.source and made.targets):
            source, _, target = (pairs.pop(0) if len(pairs) > 1 else pairs[0]).partition("-")
            made.source, made.targets = made.source or source, made.targets or (target,)
        served.append(made)
    return served


def _served(name: str, model: LoadedModel[Any]) -> Served:
    task = find_task(model.recipe)
    if task.service_type is None:
        raise UserError(f"{name} {model.recipe.rules.does}, and such models answer no requests: leave it out.")
    service = task.service_type(model)
    source, targets = languages_of(model.recipe)
    return Served(name, service, source, service.languages or targets)


def languages_of(recipe: Recipe) -> tuple[str | None, tuple[str, ...]]:
    """Return the languages of a translator's corpora, as far as their names tell: those of train.en.gz and train.de."""
    sides: list[str | None] = []
    for side in ("source", "target"):
        names = [getattr(corpus, side, None) for corpus in recipe.data.train]
        found = {_language(str(name)) for name in names if name is not None}
        sides.append(found.pop() if len(found) == 1 else None)
    builtin = [getattr(corpus, "builtin", None) for corpus in recipe.data.train]
    if sides == [None, None] and builtin and isinstance(builtin[0], str) and "-" in builtin[0]:
        sides = [_BUILTIN.get(part) for part in builtin[0].split("-")[:2]]
    source, target = sides
    return source, () if target is None else (target,)


def _language(name: str) -> str | None:
    while name.endswith(_PACKED):
        name = name.rpartition(".")[0]
    last = name.rpartition(".")[2]
    return last if "." in name and _LANGUAGE.fullmatch(last) else None
