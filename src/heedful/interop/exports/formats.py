"""The formats that models are exported to, and what each of them cannot hold: without torch.

A format is a folder of `interop`: `refusals.py`, without torch, has what a recipe asks for that the format cannot
hold; `writing.py` writes a folder; `comparing.py` opens it in the library that the format belongs to.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple

from heedful.config.recipe import Recipe


class Refusal(NamedTuple):
    """A key of a recipe whose value a format cannot hold."""

    key: str  # such as `model.positions`
    why: str  # completes "..., but": "CTranslate2 has no ALiBi with our slopes"


@dataclass(frozen=True)
class Format:
    """A format that models are exported to."""

    name: str  # the value of `--to`
    home: str  # the package of its code
    package: str  # the library that opens it, by its name in Python
    library: str  # the name of that library in sentences
    precisions: tuple[str, ...] = ("float32",)  # of weights that it can hold, the usual one first

    def refusals(self, recipe: Recipe) -> list[Refusal]:
        """Return what a recipe asks for and the format cannot hold; nothing if its models can be exported."""
        found: Iterable[tuple[str, str]] = import_module(f"{self.home}.refusals").refusals(recipe)
        return [Refusal(*each) for each in found]

    @property
    def can_compare(self) -> bool:
        """Whether the library that opens the format is installed."""
        return find_spec(self.package) is not None


_ALL: Final = (
    Format("transformers", "heedful.interop.transformers", "transformers", "transformers"),
    Format("ctranslate2", "heedful.interop.ctranslate2", "ctranslate2", "CTranslate2", ("float32", "bfloat16", "int8")),
    Format("onnx", "heedful.interop.onnx", "onnxruntime", "ONNX Runtime"),
    Format("torch", "heedful.interop.torch_export", "torch", "torch.export"),
)
FORMATS: Final[Mapping[str, Format]] = {each.name: each for each in _ALL}
