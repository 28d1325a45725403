"""The bundle: a folder that holds a model whole, and nothing that could run code.

config.json          the format's number and the resolved recipe
tokenizer.json       (tokenizer.source.json and tokenizer.target.json where vocabularies are separate)
model.safetensors    the weights
README.md            the model card
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heedful.config.load import recipe_from_json, recipe_to_json
from heedful.config.schema import Recipe
from heedful.data.tokenizer import Tokenizer
from heedful.errors import UserError
from heedful.files import read_bytes, read_json, write_bytes, write_json
from heedful.models.build import build_model
from heedful.models.families import EncoderDecoder
from heedful.models.weights import weights_from_bytes, weights_to_bytes
from heedful.version import __version__

FORMAT: Final = 1
CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
CARD: Final = "README.md"


@dataclass(frozen=True, eq=False)
class Tokenizers:
    """The tokenizers of both sides; one object twice where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

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
class Bundle:
    """A model with all it needs."""

    recipe: Recipe
    tokenizers: Tokenizers
    model: EncoderDecoder


def write_description(folder: Path, recipe: Recipe, tokenizers: Tokenizers) -> None:
    """Write what does not change while a model trains: the config and the tokenizers."""
    for name, tokenizer in _tokenizer_files(tokenizers).items():
        write_bytes(folder / name, tokenizer.to_json())
    config = {
        "format": FORMAT,
        "heedful": __version__,
        "tokenizers": {name: tokenizer.fingerprint for name, tokenizer in _tokenizer_files(tokenizers).items()},
        "recipe": recipe_to_json(recipe),
    }
    write_json(folder / CONFIG, config)


def write_weights(folder: Path, model: EncoderDecoder) -> None:
    """Write the weights: one rename, so that a reader finds the old model or the new one."""
    write_bytes(folder / WEIGHTS, weights_to_bytes(model))


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle, or say in one line what is wrong with it."""
    recipe, tokenizers = read_description(folder)
    model = build_model(recipe.model, tokenizers.source.size, tokenizers.target.size)
    if not (folder / WEIGHTS).exists():
        raise UserError(
            f"{folder} holds no {WEIGHTS} yet: training has not come to its first validation. "
            "Let it go on with `heedful train --resume`."
        )
    weights_from_bytes(model, read_bytes(folder / WEIGHTS), folder / WEIGHTS)
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise UserError(f"{folder} holds weights that are not finite: its training diverged. Train again, more gently.")
    return Bundle(recipe, tokenizers, model)


def read_description(folder: Path) -> tuple[Recipe, Tokenizers]:
    """Read a bundle's recipe and tokenizers without its weights."""
    if not (folder / CONFIG).exists():
        what = "holds no config.json" if folder.is_dir() else "is not a folder"
        raise UserError(f"{folder} {what}: a model is a folder that `heedful train` wrote.")
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or "recipe" not in config:
        raise UserError(f"{folder / CONFIG} is not a Heedful model's config: `recipe` is missing.")
    if config.get("format") != FORMAT:
        raise UserError(
            f"{folder / CONFIG} has format {config.get('format')}, but this Heedful ({__version__}) reads "
            f"format {FORMAT}: install the version that wrote it ({config.get('heedful', 'unknown')})."
        )
    recipe = recipe_from_json(config["recipe"], str(folder / CONFIG))
    tokenizers = _read_tokenizers(folder, recipe)
    stated = config.get("tokenizers")
    for name, tokenizer in _tokenizer_files(tokenizers).items():
        if not isinstance(stated, dict) or stated.get(name) != tokenizer.fingerprint:
            raise UserError(
                f"{folder / name} is not the tokenizer that this model was trained with (its sha256 is not the one in "
                f"{CONFIG}): restore it from a copy of the model."
            )
    return recipe, tokenizers


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
