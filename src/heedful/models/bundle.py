"""The bundle: a folder that holds a whole model, and nothing that could run code.

config.json          the format's number, the resolved recipe, a classifier's labels, and the names of what is the
                     caller's own: metrics, a network
tokenizer.json       (tokenizer.source.json and tokenizer.target.json where vocabularies are separate)
model.safetensors    the weights
README.md            the model card
shortlist.safetensors  in translators, once it was learned: what `--shortlist` searches among

The folder of an adapter has adapter.safetensors in place of the weights, and its config the sha256 of those that it
adapts.

Absolute paths of the recipe are no part of it: `config/reading/places.py`.

The config states the sha256 of each tokenizer, and the weights that of what they are worth nothing without: the
tokenizers, the labels and the recipe's [model]. Reading checks both.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, overload

from torch import Tensor, nn

from heedful.base.errors import UserError, by_caller
from heedful.base.files import expand_user, read_bytes, read_json, write_bytes, write_json
from heedful.config.model.pooled import ImageRegressorModel, RegressorModel
from heedful.config.reading.bundle_config import ADAPTER as ADAPTER
from heedful.config.reading.bundle_config import CONFIG as CONFIG
from heedful.config.reading.bundle_config import FORMAT, other_task, read_config
from heedful.config.reading.bundle_config import SHORTLIST as SHORTLIST
from heedful.config.reading.bundle_config import WEIGHTS as WEIGHTS
from heedful.config.reading.bundle_config import base_of as base_of
from heedful.config.reading.bundle_config import read_recipe as read_recipe
from heedful.config.reading.load import recipe_to_json
from heedful.config.reading.places import take_places, write_places
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.config.train.adapters import Lora
from heedful.data.tokenize.vocabularies import Scale, Vocabularies
from heedful.models.adapters.low_rank import Adapter
from heedful.models.adapters.matrices import adapted_matrices
from heedful.models.adapters.start import weights_for
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import EncoderDecoder
from heedful.models.own_parts import build_own_or_usual, handed_over
from heedful.models.weights import (
    config_of,
    first_difference,
    hash_of_weights,
    refuse_larger_model,
    set_weights,
    shapes_of,
    state_config,
    weights_from_bytes,
    weights_to_bytes,
)
from heedful.nn.initialization import OwnDraws
from heedful.version import __version__

CARD: Final = "README.md"

NetworkType = TypeVar("NetworkType", bound=nn.Module, covariant=True)
Wanted = TypeVar("Wanted", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Bundle(Generic[NetworkType]):
    """A model with everything it needs."""

    recipe: Recipe
    vocabularies: Vocabularies
    model: NetworkType
    folder: Path | None = None  # that it was read from


def write_description(folder: Path, recipe: Recipe, vocabularies: Vocabularies, base: str | None = None) -> None:
    """Write what does not change while a model trains: the config and the vocabularies.

    `base` is the sha256 of the weights that are adapted, if the folder is that of an adapter.
    """
    rules, own = recipe.rules, handed_over()
    for name, tokenizer in vocabularies.files().items():
        write_bytes(folder / name, tokenizer.to_json())
    content = recipe_to_json(recipe)
    write_places(folder, take_places(recipe, content))  # before the config, which is not to be read without them
    config = {
        "format": FORMAT,
        "heedful": __version__,
        "tokenizers": {name: tokenizer.fingerprint for name, tokenizer in vocabularies.files().items()},
        **({"adapter": {"base": base}} if base else {}),
        **({"labels": vocabularies.labels} if vocabularies.labels else {}),
        **({"scale": vocabularies.scale._asdict()} if vocabularies.scale else {}),
        **({"network": own.network_name} if own.network else {}),
        **({"metrics": {name: rules.metrics[name] for name in rules.own_metrics}} if rules.own_metrics else {}),
        **({"defaults": recipe.followed.to_json()} if recipe.followed else {}),
        "recipe": content,
    }
    formerly = [identity for identity in _identities(folder) if identity != _identity(config)]
    write_json(folder / CONFIG, config | ({"formerly": formerly} if formerly else {}))


def _identities(folder: Path) -> list[str]:
    """Return the hashes that weights in this folder may state: its config's, and those of configs that it replaced.

    A later version of Heedful may write the same recipe in other words when it resumes a run.
    """
    try:
        config = read_json(folder / CONFIG)
    except UserError:  # there is none yet
        return []
    if not isinstance(config, dict):
        return []
    formerly = config.get("formerly")
    return [_identity(config), *(formerly if isinstance(formerly, list) else [])]


def _identity(config: Mapping[str, Any]) -> str:
    """Return the sha256 of what decides what weights mean, as it is written."""
    recipe = config.get("recipe")
    model = recipe.get("model") if isinstance(recipe, dict) else None
    parts = {"tokenizers": config.get("tokenizers"), "labels": config.get("labels") or [], "model": model}
    if "adapter" in config:
        table = recipe.get("train") if isinstance(recipe, dict) else None
        parts |= {"base": config["adapter"], "adapter": table.get("adapter") if isinstance(table, dict) else None}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def write_weights(folder: Path, model: nn.Module, in_int8: Mapping[str, tuple[Tensor, Tensor]] | None = None) -> None:
    """Write the weights: one rename, so that a reader finds the old model or the new one.

    They state which config they belong to, if it is there already. `in_int8` has matrices in int8, with their scales.
    """
    write_bytes(folder / WEIGHTS, weights_to_bytes(model, next(iter(_identities(folder)), None), in_int8))


def write_adapter(folder: Path, adapter: Adapter) -> None:
    """Write the weights of an adapter, as `write_weights` does those of a model."""
    write_bytes(folder / ADAPTER, weights_to_bytes(adapter, next(iter(_identities(folder)), None)))


def refuse_used_folder(folder: Path) -> None:
    """Refuse to write a new model over another one, or over other files."""
    if folder.exists() and any(folder.iterdir()):
        what = "a model" if (folder / CONFIG).exists() else "files"
        raise UserError(f"{folder} already holds {what}: choose another {by_caller('--out', 'folder')}.")


def copy_weights(source: Path, folder: Path) -> None:
    """Copy the weights of a bundle to another one with the same recipe and vocabularies."""
    file = WEIGHTS if base_of(source) is None else ADAPTER
    data, identities = read_bytes(source / file), _identities(folder)
    write_bytes(folder / file, state_config(data, identities[0]) if identities else data)


@overload
def read_bundle(folder: Path) -> Bundle[EncoderDecoder]: ...
@overload
def read_bundle(
    folder: Path, kind: type[Wanted], rules: TaskRules | None = None, adapter: Path | None = None
) -> Bundle[Wanted]: ...
def read_bundle(
    folder: Path,
    kind: type[nn.Module] = EncoderDecoder,
    rules: TaskRules | None = None,
    adapter: Path | None = None,
) -> Bundle[nn.Module]:
    """Read a bundle of this kind of model, or say in one line what is wrong with it.

    `rules` are those of a task that is not one of Heedful's own. `adapter` is the folder of an adapter of this model,
    which it then has. The folder of an adapter itself is read with the base that its recipe names.
    """
    if adapter is None and base_of(folder) is not None:
        return _read_adapted(_base_folder(folder, rules), folder, kind, rules)
    if adapter is not None:
        return _read_adapted(folder, adapter, kind, rules)
    recipe, vocabularies = read_description(folder, rules)
    if (folder / WEIGHTS).is_file() and own_network_of(folder) is None:
        refuse_larger_model(recipe.model, [folder / WEIGHTS], folder / CONFIG)
    model = build_network_of(folder, recipe, vocabularies)
    if own_network_of(folder) is None and not isinstance(model, kind):
        raise other_task(folder, recipe)
    _read_weights(folder, WEIGHTS, model)
    return Bundle(recipe, vocabularies, model.eval(), folder)


def _read_weights(folder: Path, file: str, model: nn.Module) -> None:
    """Read the weights of a bundle or of an adapter, which must be finite and belong to its config."""
    if not (folder / file).exists():
        raise UserError(
            f"{folder} holds no {file} yet: training has not reached its first validation. "
            f"Continue it with {by_caller('`heedful train --resume`', '`heedful.train(..., resume=True)`')}."
        )
    data = read_bytes(folder / file)
    weights_from_bytes(model, data, folder / file)
    if config_of(data) not in (None, *_identities(folder)):
        raise UserError(
            f"{folder / file} and {folder / CONFIG} belong to different models (their hashes differ): restore both "
            "from a copy of the model."
        )
    if not all(map(_is_finite, model.parameters())):
        raise UserError(f"{folder} holds weights that are not finite: its training diverged. Train again, more gently.")


# --- adapters ---------------------------------------------------------------------------------------------------------


def _read_adapted(base: Path, folder: Path, kind: type[nn.Module], rules: TaskRules | None = None) -> Bundle[nn.Module]:
    """Read a model with the adapter in another folder: a bundle with the adapter's recipe, and its matrices adapted."""
    stated = base_of(folder)
    if stated is None:
        raise UserError(f"{folder} holds a whole model, not an adapter of {base}: use it without {base}.")
    if base_of(base) is not None:
        raise UserError(
            f"{base} is an adapter itself: {by_caller('`heedful merge`', '`heedful.merge`')} makes a model of it and "
            "its base, which can be adapted."
        )
    start = read_bundle(base, nn.Module, rules)
    found = hash_of_weights(start.model, base / WEIGHTS)
    if found != stated:
        raise UserError(
            f"{folder} adapts another model than {base}: it belongs to weights with the sha256 {stated[:8]}, and those "
            f"of {base} have {found[:8]}. Name the model that it was trained on."
        )
    recipe, vocabularies = read_description(folder, rules)
    if recipe.train.adapter is None:
        raise UserError(f"{folder / CONFIG}: `train.adapter` is missing: restore it from a copy of the adapter.")
    refuse_larger_model(recipe.model, [base / WEIGHTS], folder / CONFIG)
    model = build_network_of(folder, recipe, vocabularies)
    if not isinstance(model, kind):
        raise other_task(folder, recipe)
    adapter = adapt_network(model, start.model, recipe.train.adapter, folder)
    _read_weights(folder, ADAPTER, adapter)
    adapter.merge()
    return Bundle(recipe, vocabularies, model.eval(), base)


def adapt_network(model: nn.Module, start: nn.Module, settings: Lora, where: Path, seed: int = 0) -> Adapter:
    """Give a network the weights of the model that it starts from, and make an adapter of it, which adds nothing yet.

    What the start does not have, such as another head, is trained as a whole.
    """
    own, given = dict(model.named_parameters()), weights_for(model, start)
    shared = {name: weight for name, weight in own.items() if name in given}
    different = first_difference(shapes_of(shared), shapes_of(given))
    if different is not None:
        raise UserError(
            f"{where} does not fit its base: `{different}` has another shape there: restore it from a copy of the "
            "adapter."
        )
    set_weights(model, {**own, **given})
    new = [name for name in own if name not in given]
    return Adapter(model, adapted_matrices(model, settings, frozenset(new)), new, settings, seed)


def _base_folder(adapter: Path, rules: TaskRules | None) -> Path:
    """Return the folder of an adapter's base on this machine, as its recipe names it."""
    base = expand_user(read_recipe(adapter, rules).train.start_from)
    if not base.is_dir():
        way_out = by_caller(
            f"name both: `heedful VERB BASE --adapter {adapter}`",
            f'name both: `heedful.load(base, adapter="{adapter}")`',
        )
        raise UserError(f"{adapter} is an adapter, and its base {base} is not there: {way_out}.")
    return base


# --- networks ---------------------------------------------------------------------------------------------------------


def _is_finite(weight: Tensor) -> bool:
    """Whether all numbers are finite. Where their sum is, which takes a third of the time, all of them are."""
    return bool(weight.sum().isfinite()) or bool(weight.isfinite().all())


def build_network_of(folder: Path, recipe: Recipe, vocabularies: Vocabularies) -> nn.Module:
    """Build the network of a bundle with new weights: as its recipe says, or by the function that is handed over."""
    own = own_network_of(folder)
    if own is None:
        with OwnDraws():
            return build_network(recipe.model, vocabularies)
    if handed_over().network is None:
        raise UserError(
            f"{folder} has a network of the program that trained it (`{own}`): only `heedful.load(..., network=...)` "
            "and `heedful.train(..., network=...)` can use it."
        )
    return build_own_or_usual(recipe, vocabularies)


def own_network_of(folder: Path) -> str | None:
    """Return the name of the caller's function that built a bundle's network; None for a network of Heedful."""
    name = read_config(folder).get("network")
    if not isinstance(name, str | None):
        raise UserError(f"{folder / CONFIG}: `network` must be a name: restore it from a copy of the model.")
    return name


def read_description(folder: Path, rules: TaskRules | None = None) -> tuple[Recipe, Vocabularies]:
    """Read a bundle's recipe and vocabularies without its weights."""
    config, recipe = read_config(folder), read_recipe(folder, rules)
    labels, scale = _labels(config, recipe, folder), _scale(config, recipe, folder)
    given = handed_over().tokenizers(recipe.rules)
    vocabularies = Vocabularies.read(folder, recipe.rules.vocabularies, recipe.tokenizer.joint, labels, given, scale)
    stated = config.get("tokenizers")
    for name, tokenizer in vocabularies.files().items():
        if not isinstance(stated, dict) or stated.get(name) != tokenizer.fingerprint:
            raise UserError(
                f"{folder / name} is not the tokenizer that this model was trained with (its sha256 is not the one in "
                f"{CONFIG}): restore it from a copy of the model."
            )
    return recipe, vocabularies


def _labels(config: Mapping[str, object], recipe: Recipe, folder: Path) -> tuple[str, ...]:
    """Return the names of a classifier's classes."""
    labels = config.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise UserError(f"{folder / CONFIG}: `labels` must be a list of names: restore it from a copy of the model.")
    if bool(labels) != recipe.rules.labels:
        raise UserError(
            f"{folder / CONFIG}: `labels` must be there for a classifier, and for nothing else: restore it from a copy "
            "of the model."
        )
    return tuple(labels)


def _scale(config: Mapping[str, object], recipe: Recipe, folder: Path) -> Scale | None:
    """Return the mean and the deviation of a regressor's numbers."""
    if not isinstance(recipe.model, RegressorModel | ImageRegressorModel):
        return None
    scale = config.get("scale")
    found = [scale.get(name) if isinstance(scale, dict) else None for name in Scale._fields]
    numbers = [float(value) for value in found if isinstance(value, int | float) and isfinite(value)]
    if len(numbers) < len(found) or numbers[1] <= 0:
        raise UserError(
            f"{folder / CONFIG}: `scale` must have the `mean` and the `deviation` of a regressor's numbers: restore it "
            "from a copy of the model."
        )
    return Scale(*numbers)
