"""Small translators of random weights, as bundles on the disk, to export."""

from pathlib import Path
from typing import Any

import torch
from tests.unit.interop.marian_folders import ENGLISH, GERMAN

from heedful.config.reading.load import recipe_from_json
from heedful.config.tokenizer import side_of
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle, read_bundle, write_description, write_weights
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import EncoderDecoder

MODEL = {"family": "transformer", "width": 16, "heads": 4, "layers": 2, "decoder_layers": 1, "inner": 24}


def write_translator(
    folder: Path,
    model: dict[str, Any] | None = None,
    tokenizer: dict[str, Any] | None = None,
    languages: tuple[str, ...] = (),
    data: dict[str, Any] | None = None,
    task: str | None = None,
    decode: dict[str, Any] | None = None,
) -> Bundle[EncoderDecoder]:
    """Write a translator of random weights, whose vocabularies are those of a few sentences; return it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    source, target = folder.parent / "text.en", folder.parent / "text.de"
    source.write_text("\n".join(ENGLISH) + "\n")
    target.write_text("\n".join(GERMAN) + "\n")
    corpus = {"source": str(source), "target": str(target)}
    recipe = recipe_from_json(
        {
            "data": {"train": [corpus | {"to": language} for language in languages] or [corpus], **(data or {})},
            "tokenizer": {"kind": "byte_bpe", "size": 300} | (tokenizer or {}),
            "model": MODEL | (model or {}),
            **({"task": task} if task else {}),
            **({"decode": decode} if decode else {}),
        },
        "recipe",
    )
    sides = {"source": [*ENGLISH], "target": [*GERMAN]}
    if recipe.tokenizer.joint:
        whole = train_tokenizer(side_of(recipe.tokenizer, "source"), [*ENGLISH, *GERMAN], languages)
        vocabularies = Vocabularies(dict.fromkeys(sides, whole))
    else:
        tags = {"source": languages}
        vocabularies = Vocabularies(
            {
                name: train_tokenizer(side_of(recipe.tokenizer, name), texts, tags.get(name, ()))  # type: ignore[arg-type]
                for name, texts in sides.items()
            }
        )
    torch.manual_seed(5)
    network = build_network(recipe.model, vocabularies)
    with torch.no_grad():  # biases of zero and norms of one would hide mistakes
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    write_description(folder, recipe, vocabularies)
    write_weights(folder, network)
    return read_bundle(folder)
