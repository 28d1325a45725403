"""The bundle: a folder that holds a model whole, and nothing that could run code.

config.json          the format's number, the resolved recipe, and a classifier's labels
tokenizer.json       (tokenizer.source.json and tokenizer.target.json where vocabularies are separate)
model.safetensors    the weights
README.md            the model card
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, TypeVar, overload

from torch import nn

from heedful.config.model.any import AnyModel
from heedful.config.model.bert import BertModel
from heedful.config.model.classifier import ClassifierModel
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.config.tasks import Task
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.errors import UserError
from heedful.files import read_bytes, read_json, write_bytes, write_json
from heedful.models.build.encoder_only import build_classifier, build_masked_model
from heedful.models.build.network import build_model
from heedful.models.networks import EncoderDecoder, Network
from heedful.models.weights import weights_from_bytes, weights_to_bytes
from heedful.version import __version__

FORMAT: Final = 1
CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
CARD: Final = "README.md"

NetworkType = TypeVar("NetworkType", bound=nn.Module, covariant=True)
Wanted = TypeVar("Wanted", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Tokenizers:
    """The tokenizers of both sides, one object twice where the vocabulary is joint; and the names of classes."""

    source: Tokenizer
    target: Tokenizer
    labels: tuple[str, ...] = ()  # of a classifier, in the order of its scores

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    def other_side(self, others: "Tokenizers") -> str | None:
        """The first side whose vocabulary is not the other tokenizers'; None where both are."""
        if self.source.fingerprint != others.source.fingerprint:
            return "source"
        return "target" if self.target.fingerprint != others.target.fingerprint else None


@dataclass(frozen=True, eq=False)
class Bundle(Generic[NetworkType]):
    """A model with all it needs."""

    recipe: Recipe
    tokenizers: Tokenizers
    model: NetworkType


def write_description(folder: Path, recipe: Recipe, tokenizers: Tokenizers) -> None:
    """Write what does not change while a model trains: the config and the tokenizers."""
    for name, tokenizer in _tokenizer_files(tokenizers).items():
        write_bytes(folder / name, tokenizer.to_json())
    config = {
        "format": FORMAT,
        "heedful": __version__,
        "tokenizers": {name: tokenizer.fingerprint for name, tokenizer in _tokenizer_files(tokenizers).items()},
        **({"labels": tokenizers.labels} if tokenizers.labels else {}),
        "recipe": recipe_to_json(recipe),
    }
    write_json(folder / CONFIG, config)


def write_weights(folder: Path, model: nn.Module) -> None:
    """Write the weights: one rename, so that a reader finds the old model or the new one."""
    write_bytes(folder / WEIGHTS, weights_to_bytes(model))


@overload
def read_bundle(folder: Path) -> Bundle[EncoderDecoder]: ...
@overload
def read_bundle(folder: Path, kind: type[Wanted]) -> Bundle[Wanted]: ...
def read_bundle(folder: Path, kind: type[nn.Module] = EncoderDecoder) -> Bundle[nn.Module]:
    """Read a bundle of this kind of model, or say in one line what is wrong with it."""
    recipe, tokenizers = read_description(folder)
    model = build_network(recipe.model, tokenizers)
    if not isinstance(model, kind):
        raise other_task(folder, recipe)
    if not (folder / WEIGHTS).exists():
        raise UserError(
            f"{folder} holds no {WEIGHTS} yet: training has not come to its first validation. "
            "Let it go on with `heedful train --resume`."
        )
    weights_from_bytes(model, read_bytes(folder / WEIGHTS), folder / WEIGHTS)
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise UserError(f"{folder} holds weights that are not finite: its training diverged. Train again, more gently.")
    return Bundle(recipe, tokenizers, model)


_TASKS: Final[Mapping[Task, tuple[str, str]]] = {  # what a model does, and the verb that uses it
    "translate": ("translates", "translate"),
    "classify": ("classifies", "classify"),
    "fill": ("fills masks", "fill"),
}


def other_task(folder: Path, recipe: Recipe) -> UserError:
    """What to say of a model that does something else than is asked of it."""
    does, verb = _TASKS[recipe.task]
    return UserError(f"{folder} is a model that {does}: use `heedful {verb}`.")


def build_network(config: AnyModel, tokenizers: Tokenizers) -> Network:
    """Make the model of a recipe with fresh weights, drawn from torch's global generator."""
    match config:
        case ClassifierModel():
            return build_classifier(config, tokenizers.source.size, len(tokenizers.labels))
        case BertModel():
            return build_masked_model(config, tokenizers.source.size)
        case _:
            return build_model(config, tokenizers.source.size, tokenizers.target.size)


def read_description(folder: Path) -> tuple[Recipe, Tokenizers]:
    """Read a bundle's recipe and tokenizers without its weights."""
    if not (folder / CONFIG).exists():
        what = "holds no config.json" if folder.is_dir() else "is not a folder"
        raise UserError(f"{folder} {what}: a model is a folder that `heedful train` wrote.")
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or "recipe" not in config:
        foreign = isinstance(config, dict) and "model_type" in config
        way_out = " A model of `transformers` becomes one by `heedful import`." if foreign else ""
        raise UserError(f"{folder / CONFIG} is not a Heedful model's config: `recipe` is missing.{way_out}")
    if config.get("format") != FORMAT:
        raise UserError(
            f"{folder / CONFIG} has format {config.get('format')}, but this Heedful ({__version__}) reads "
            f"format {FORMAT}: install the version that wrote it ({config.get('heedful', 'unknown')})."
        )
    recipe = recipe_from_json(config["recipe"], str(folder / CONFIG))
    tokenizers = replace(_read_tokenizers(folder, recipe), labels=_labels(config, recipe, folder))
    stated = config.get("tokenizers")
    for name, tokenizer in _tokenizer_files(tokenizers).items():
        if not isinstance(stated, dict) or stated.get(name) != tokenizer.fingerprint:
            raise UserError(
                f"{folder / name} is not the tokenizer that this model was trained with (its sha256 is not the one in "
                f"{CONFIG}): restore it from a copy of the model."
            )
    return recipe, tokenizers


def _labels(config: Mapping[str, object], recipe: Recipe, folder: Path) -> tuple[str, ...]:
    """The names of a classifier's classes."""
    labels = config.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise UserError(f"{folder / CONFIG}: `labels` must be a list of names: restore it from a copy of the model.")
    if bool(labels) != (recipe.task == "classify"):
        raise UserError(
            f"{folder / CONFIG}: `labels` must be there for a classifier, and for nothing else: restore it from a copy "
            "of the model."
        )
    return tuple(labels)


def _read_tokenizers(folder: Path, recipe: Recipe) -> Tokenizers:
    def read(name: str) -> Tokenizer:
        return Tokenizer.from_json(read_bytes(folder / name), str(folder / name))

    if recipe.tokenizer.joint:
        joint = read("tokenizer.json")
        return Tokenizers(joint, joint)
    return Tokenizers(read("tokenizer.source.json"), read("tokenizer.target.json"))


def _tokenizer_files(tokenizers: Tokenizers) -> dict[str, Tokenizer]:
    if tokenizers.joint:
        return {"tokenizer.json": tokenizers.source}
    return {"tokenizer.source.json": tokenizers.source, "tokenizer.target.json": tokenizers.target}
