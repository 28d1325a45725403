"""Writes a folder of programs that `torch.export.load` opens."""

from pathlib import Path
from typing import Final

import torch
from torch import nn

from heedful.interop.graphs.card import card_of, write_rest
from heedful.interop.graphs.graphs import graphs_of, longest_of
from heedful.interop.graphs.programs import program_of, quiet
from heedful.models.bundle import Bundle

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
        program = program_of(graph, longest_of(bundle))
        program.example_inputs = None  # torch would write them as a pickle
        with quiet():
            torch.export.save(program, folder / f"{name}{ENDING}")
    write_rest(bundle, folder, card_of(bundle, "torch.export", "torch numpy tokenizers", _START))
