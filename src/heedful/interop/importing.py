"""Converts a model saved by another toolkit into a Heedful bundle."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torch import nn

from heedful.base.errors import UserError
from heedful.base.files import new_folder, output_folder
from heedful.interop.transformers.encoders.reading import (
    read_bert,
    read_distilbert,
    read_roberta,
    read_xlm_roberta,
)
from heedful.interop.transformers.images.reading import read_vit
from heedful.interop.transformers.language.reading import read_gpt2, read_llama, read_mistral, read_qwen2
from heedful.interop.transformers.model_folder import ModelFolder, open_folder
from heedful.interop.transformers.pairs.marian import read_marian
from heedful.interop.transformers.pairs.multilingual import read_m2m_100, read_mbart
from heedful.interop.transformers.pairs.pegasus import read_pegasus
from heedful.models.bundle import Bundle, refuse_used_folder, write_description, write_weights
from heedful.runs.model_card import write_card

READERS: Final[Mapping[str, Callable[[ModelFolder], Bundle[nn.Module]]]] = {  # by `model_type`
    "marian": read_marian,
    "pegasus": read_pegasus,
    "m2m_100": read_m2m_100,
    "mbart": read_mbart,
    "bert": read_bert,
    "roberta": read_roberta,
    "xlm-roberta": read_xlm_roberta,
    "distilbert": read_distilbert,
    "gpt2": read_gpt2,
    "llama": read_llama,
    "mistral": read_mistral,
    "qwen2": read_qwen2,
    "vit": read_vit,
}


@dataclass(frozen=True)
class ImportedModel:
    """The type and size of an imported model."""

    model_type: str
    parameters: int


def import_model(path: str | Path, out: str | Path) -> ImportedModel:
    """Write the bundle of a model in a Hugging Face folder, of which no code is run and nothing is changed."""
    folder, bundle_folder = open_folder(Path(path)), output_folder(out)
    refuse_used_folder(bundle_folder)
    if folder.model_type not in READERS:
        raise UserError(
            f"{folder.config.where}: `model_type` is {folder.model_type}, but Heedful imports {', '.join(READERS)}."
        )
    bundle = READERS[folder.model_type](folder)
    name, kind = folder.path.absolute().name, folder.model_type
    made = f"imported from {name}, a {kind} model of `transformers`, training data unknown"
    with new_folder(bundle_folder) as staged:
        write_description(staged, bundle.recipe, bundle.vocabularies)
        write_weights(staged, bundle.model)
        write_card(staged, bundle.recipe, bundle.model, made, {}, named=bundle_folder)
    return ImportedModel(folder.model_type, sum(parameter.numel() for parameter in bundle.model.parameters()))
