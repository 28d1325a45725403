"""Writes a folder of graphs that ONNX Runtime opens."""

import contextlib
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from torch import nn

from heedful.base.errors import UserError
from heedful.interop.graphs.card import card_of, write_rest
from heedful.interop.graphs.graphs import graphs_of, longest_of
from heedful.interop.graphs.programs import program_of, quiet
from heedful.models.bundle import Bundle

ENDING: Final = ".onnx"
_NEEDED: Final = ("onnx", "onnxscript")
_LARGE: Final = 1_500_000_000  # bytes of weights that get a file of their own: a file of ONNX has at most 2 GB
_START: Final = """\
import onnxruntime

sessions = {name: onnxruntime.InferenceSession(f"{name}.onnx") for name in NAMES}


def run(name, **inputs):
    return sessions[name].run(None, inputs)

"""


def write(bundle: Bundle[nn.Module], folder: Path, precision: str) -> None:
    """Write a model that `refusals` accepts."""
    missing = [package for package in _NEEDED if find_spec(package) is None]
    if missing:
        raise UserError(f"Writing ONNX needs {' and '.join(missing)}: `pip install onnx onnxscript onnxruntime`.")
    for name, graph in graphs_of(bundle).items():
        program = program_of(graph, longest_of(bundle))
        with _silent():
            found = torch.onnx.export(program, dynamo=True, output_names=list(graph.outputs), verbose=False)
        assert found is not None
        size = sum(weight.numel() * weight.element_size() for weight in program.state_dict.values())
        found.save(folder / f"{name}{ENDING}", external_data=size > _LARGE)
    write_rest(bundle, folder, card_of(bundle, "ONNX Runtime", "onnxruntime numpy tokenizers", _START))


@contextmanager
def _silent() -> Iterator[None]:
    """Hide what the translation prints and logs, such as operators that are not installed."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with quiet(), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(before)
