"""Opens a folder in `transformers`, and compares its answers with the original's."""

from pathlib import Path

from torch import nn

from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.samples import Samples
from heedful.interop.transformers.homes import module_of
from heedful.models.bundle import Bundle


def compare(bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    """Compare a folder that `write` has written with the model that it was written from."""
    home = module_of(bundle.recipe.model.family, "comparing")
    assert home is not None, "refused before"
    found: Comparison = home.compare(bundle, folder, samples)
    return found
