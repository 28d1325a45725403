"""Tiny bundles of random weights to export to `transformers`, and how they come back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Scale, Vocabularies
from heedful.interop.exports.exporting import ExportedModel, export_model
from heedful.interop.importing import import_model
from heedful.models.bundle import read_bundle, write_description, write_weights
from heedful.models.from_recipe.network import build_network

TEXTS: Final = (
    "the old house was sold, and the dog ran away!",
    "Never say never. Again: what is it? It's a bird",
    "über den Wolken 12 3\nis a second line",
) * 3
ENCODER: Final = {"family": "bert", "width": 16, "heads": 4, "layers": 2, "inner": 24, "max_positions": 64}
GPT: Final = {
    "family": "transformer",
    "width": 16,
    "heads": 4,
    "layers": 2,
    "inner": 24,
    "max_positions": 64,
}
LLAMA: Final = {
    "family": "transformer",
    "width": 16,
    "heads": 4,
    "key_value_heads": 2,
    "layers": 2,
    "inner": 24,
    "norm_kind": "rms",
    "activation": "swiglu",
    "positions": "rope",
    "bias": False,
}
VIT: Final = {"family": "vit", "width": 16, "heads": 4, "layers": 2, "inner": 24, "patch": 4, "grid": 2}
_ROWS: Final[Mapping[str, dict[str, Any]]] = {
    "bert": {"text": "x.txt"},
    "classifier": {"tsv": "x.tsv", "text": 1, "label": 2},
    "regressor": {"tsv": "x.tsv", "text": 1, "number": 2},
    "tagger": {"conll": "x.conll"},
    "reader": {"squad": "x.json"},
    "language": {"text": "x.txt"},
    "image_classifier": {"images": "x"},
}
LABELS: Final = ("a", "b", "c")


def tiny_recipe(model: Mapping[str, Any], kind: str = "wordpiece", data: Mapping[str, Any] | None = None) -> Recipe:
    """Return the recipe of a model with this kind of tokenizer, whose data does not exist."""
    family = model["family"]
    images = family == "image_classifier"
    form = {"images": {"height": 8, "width": 8}} if images else {"max_length": 64}
    described = {
        "data": {"train": [_ROWS[family]], **form, **(data or {})},
        **({} if images else {"tokenizer": {"kind": kind, "size": 320}}),
        "model": dict(model),
    }
    return recipe_from_json(described, "recipe.toml")


def make_model(
    folder: Path,
    model: Mapping[str, Any],
    kind: str = "wordpiece",
    data: Mapping[str, Any] | None = None,
    labels: Sequence[str] = LABELS,
    tokenizer: Tokenizer | None = None,
) -> Path:
    """Write a bundle of random weights, none of them zero."""
    family, recipe = model["family"], tiny_recipe(model, kind, data)
    trained = tokenizer or train_tokenizer(recipe.tokenizer, TEXTS, mask=family == "bert")
    names = tuple(labels) if family in ("classifier", "tagger", "image_classifier") else ()
    scale = Scale(3.0, 2.0) if family == "regressor" else None
    vocabularies = Vocabularies({} if family == "image_classifier" else {"text": trained}, names, scale)
    torch.manual_seed(2)
    network = build_network(recipe.model, vocabularies)
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    folder.mkdir(parents=True)
    write_description(folder, recipe, vocabularies)
    write_weights(folder, network)
    return folder


def weights_of(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a bundle."""
    return dict(read_bundle(folder, nn.Module).model.named_parameters())


def there_and_back(model: Path, folder: Path) -> tuple[ExportedModel, dict[str, Tensor]]:
    """Export a model and import what was written; return the export, and the weights that came back."""
    exported = export_model(model, "transformers", folder / "theirs")
    import_model(folder / "theirs", folder / "back")
    return exported, weights_of(folder / "back")


def assert_equal(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Compare weights, bit by bit."""
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name
