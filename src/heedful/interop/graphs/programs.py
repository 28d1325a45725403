"""Graphs as programs of `torch.export`, from which all files are written."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.export import Dim, ExportedProgram, export

from heedful.interop.graphs.graphs import Graph, bounds_of


def program_of(graph: Graph, longest: int) -> ExportedProgram:
    """Trace a graph, whose free dimensions stay free."""
    dims = {name: Dim(name, min=least, max=most) for name, (least, most) in bounds_of(longest).items()}
    shapes = {name: {axis: dims[what] for axis, what in graph.free.get(name, {}).items()} for name in graph.inputs}
    with quiet(), torch.no_grad():
        return export(graph.module, (), dict(graph.inputs), dynamic_shapes=shapes, strict=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide what tracing warns of, which no user can change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
