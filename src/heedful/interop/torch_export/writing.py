"""Writes a folder of programs that `torch.export.load` opens."""

from pathlib import Path
from typing import Final

import torch
from torch import nn

from heedful.base.files import write_bytes, write_json
from heedful.interop.graphs.card import card_of
from heedful.interop.graphs.graphs import graphs_of, longest_of
from heedful.interop.graphs.programs import program_of, quiet
from heedful.models.bundle import CARD, Bundle

ENDING: Final = ".pt2"
_START: Final = """\
import torch

graphs = {name: torch.export.load(f"{name}.pt2").module() for name in NAMES}


def run(name, **inputs):
    found = graphs[name](**{key: torch.from_numpy(value) for key, value in inputs.items()})
    return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]

"""


def write(bundle: Bundle[nn.Module], folder: Path, precision: str) -> None:
    """Write a model that `refusals` accepts."""
    for name, graph in graphs_of(bundle).items():
        with quiet():
            torch.export.save(program_of(graph, longest_of(bundle)), folder / f"{name}{ENDING}")
    write_rest(bundle, folder, card_of(bundle, "torch.export", "torch numpy tokenizers", _START))


def write_rest(bundle: Bundle[nn.Module], folder: Path, card: str) -> None:
    """Write what belongs to graphs: tokenizers, names of classes, and the card."""
    for name, tokenizer in bundle.vocabularies.files().items() if bundle.vocabularies.tokenizers else ():
        write_bytes(folder / name, tokenizer.to_json())
    if bundle.vocabularies.labels:
        write_json(folder / "labels.json", list(bundle.vocabularies.labels))
    write_bytes(folder / CARD, card.encode())
