"""Writes a translator as a MarianMT or Pegasus model: weights, tokenizers, defaults, card."""

from pathlib import Path
from typing import Final

from safetensors.torch import save
from torch import nn

from heedful.base.files import write_bytes, write_json
from heedful.config.model.transformer import TransformerModel
from heedful.config.task_rules import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.tensors import write_pairs
from heedful.interop.transformers.model_folder import CONFIG, WEIGHTS
from heedful.interop.transformers.pairs.configs import generation_config, longest, written_config
from heedful.interop.transformers.pairs.layouts import WRITTEN, embedding_pairs, stack_pairs, whole_tensors
from heedful.interop.transformers.pairs.vocabularies import TARGET, write_vocabularies
from heedful.models.bundle import CARD, Bundle

_METADATA: Final = {"format": "pt"}  # without it, transformers refuses the file


def write(bundle: Bundle[nn.Module], folder: Path) -> None:
    """Write a translator that `refusals` accepts."""
    recipe, vocabularies = bundle.recipe, bundle.vocabularies
    model = model_of(recipe, TransformerModel)
    layout, interleaved = WRITTEN[model.norm], model.positions == "sinusoidal"
    pairs = [*stack_pairs(layout, model, interleaved), *embedding_pairs(model, interleaved)]
    tensors = whole_tensors(dict(bundle.model.named_parameters()), pairs, model)
    source, target = vocabularies["source"], vocabularies["target"]
    write_vocabularies(folder, vocabularies, recipe, longest(recipe))
    own = {
        "positions": model.positions,
        "output_bias": model.output_bias,
        "source": recipe.tokenizer.kind,
        "target": (recipe.tokenizer.target or recipe.tokenizer).kind,
        "joint": vocabularies.joint,
        "nfc": recipe.data.nfc,
        "lowercase": recipe.data.lowercase,
        "max_length": recipe.data.max_length,
        "max_extra": recipe.decode.max_extra,
        "length_penalty_kind": recipe.decode.length_penalty_kind,
    }
    write_json(folder / CONFIG, written_config(recipe, model, layout, (source.size, target.size), own))
    write_json(folder / "generation_config.json", generation_config(recipe, [*target.tags.values()]))
    write_bytes(folder / CARD, _card(bundle, layout.architecture).encode())
    write_bytes(folder / WEIGHTS, save(write_pairs(pairs, tensors), metadata=_METADATA))


def _card(bundle: Bundle[nn.Module], architecture: str) -> str:
    name = "model" if bundle.folder is None else bundle.folder.absolute().name
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    target = "" if bundle.vocabularies.joint else f'target = AutoTokenizer.from_pretrained(folder + "/{TARGET}")\n'
    reader = "target" if target else "tokenizer"
    return f"""---
library_name: transformers
pipeline_tag: translation
tags:
- heedful
---
# {name}

A translator of {parameters:,} parameters that was trained with Heedful, as a `{architecture}` of `transformers`.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = "{name}"
tokenizer = AutoTokenizer.from_pretrained(folder)
{target}model = AutoModelForSeq2SeqLM.from_pretrained(folder)
found = model.generate(**tokenizer(["{_example(bundle.vocabularies)}"], return_tensors="pt", padding=True))
print({reader}.batch_decode(found, skip_special_tokens=True))
```
{_notes(bundle)}"""


def _example(vocabularies: Vocabularies) -> str:
    tags = vocabularies["source"].tags
    return f"<2{next(iter(tags))}> A sentence to translate." if len(tags) > 1 else "A sentence to translate."


def _notes(bundle: Bundle[nn.Module]) -> str:
    """Return what a user has to know about the texts that the model reads and writes."""
    tags, tokenized = list(bundle.vocabularies["source"].tags), bundle.recipe.data.tokenized
    notes = []
    if len(tags) > 1:
        listed = ", ".join(f"`<2{language}>`" for language in tags)
        notes.append(f"A text begins with the tag of the language that it is translated to: {listed}.")
    if tokenized is not None:
        notes.append("It reads and writes text that is tokenized by Moses' rules: words and punctuation are separate.")
    return "".join(f"\n{note}\n" for note in notes)
