"""Opens a folder with `torch.export`, and compares its answers with the original's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.samples import Samples
from heedful.interop.graphs.comparing import compare_graphs
from heedful.interop.graphs.programs import quiet
from heedful.interop.torch_export.writing import ENDING
from heedful.models.bundle import Bundle


def compare(bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    """Compare a folder that `write` has written with the model that it was written from."""
    with quiet():
        opened = {path.stem: torch.export.load(path).module() for path in sorted(folder.glob(f"*{ENDING}"))}

    def run(name: str, inputs: Mapping[str, Tensor]) -> Sequence[Tensor]:
        found = opened[name](**inputs)
        return found if isinstance(found, tuple) else (found,)

    return compare_graphs(bundle, samples, run)
