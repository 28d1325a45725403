"""Opens a folder in ONNX Runtime, and compares its answers with the original's."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.samples import Samples
from heedful.interop.graphs.comparing import compare_graphs
from heedful.interop.onnx.writing import ENDING
from heedful.models.bundle import Bundle


def compare(bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    """Compare a folder that `write` has written with the model that it was written from."""
    library: Any = import_module("onnxruntime")
    options = library.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    opened = {
        path.stem: library.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for path in sorted(folder.glob(f"*{ENDING}"))
    }

    def run(name: str, inputs: Mapping[str, Tensor]) -> Sequence[Tensor]:
        found = opened[name].run(None, {key: value.numpy() for key, value in inputs.items()})
        return [torch.from_numpy(each) for each in found]

    return compare_graphs(bundle, samples, run)
