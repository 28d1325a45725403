"""A golden model: its recipe, and what to ask it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_TRAIN: Final = """
[train]
steps = {steps}
schedule = {{ kind = "linear", lr = {lr}, warmup = 10 }}
clip_norm = 1.0
device = "cpu"
precision = "float32"
threads = 1
validation = {{ every = {steps} }}
"""


@dataclass(frozen=True)
class Golden:
    """A model to be made, and what to ask it."""

    data: str
    model: str
    asked: Mapping[str, Any]
    steps: int = 150
    lr: float = 0.03

    @property
    def recipe(self) -> str:
        """The whole recipe in TOML."""
        return self.data + self.model + _TRAIN.format(steps=self.steps, lr=self.lr)
