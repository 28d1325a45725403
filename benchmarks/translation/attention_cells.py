"""The cells of benchmarks.translation.attention_zoo: a recipe for every family and alignment, all with one budget."""

import argparse
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from heedful.config.model.attention import FIXED_LENGTH, AlignmentName
from heedful.config.reading.load import load_recipe, recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe

ALIGNMENTS: tuple[str, ...] = get_args(AlignmentName)
OWN = {"recurrent": "additive", "transformer": "scaled_dot"}  # the alignment of the family's own paper
CELLS = tuple(f"{family}-{alignment}" for family in OWN for alignment in ALIGNMENTS)


@dataclass(frozen=True)
class Scale:
    """The recipe that gives the data, and the sizes of the models."""

    recipe: str
    width: int
    heads: int
    layers: int
    inner: int
    steps: int


FULL = Scale("multi30k-en-de-lc", width=256, heads=4, layers=3, inner=1024, steps=8000)
TINY = Scale("demo-en-es", width=16, heads=2, layers=1, inner=32, steps=6)
TINY_PAIRS = {"train": 600, "valid": 20, "test": 20}


@dataclass(frozen=True)
class Budget:
    """What all cells have in common."""

    data: str
    steps: int
    batch_tokens: int | None
    dropout: float
    rates: dict[str, float]  # the highest learning rate, by family
    device: str
    tiny: bool

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Budget":
        scale = TINY if options.tiny else FULL
        return cls(
            data=str(options.data or ""),
            steps=options.steps or scale.steps,
            batch_tokens=options.batch_tokens,
            dropout=options.dropout,
            rates={"recurrent": options.recurrent_rate, "transformer": options.transformer_rate},
            device="cpu" if options.tiny else options.device,
            tiny=options.tiny,
        )

    def arguments(self) -> list[str]:
        """The options that say the same."""
        given = {
            "--data": self.data,
            "--steps": self.steps,
            "--batch-tokens": self.batch_tokens,
            "--dropout": self.dropout,
            **{f"--{family}-rate": rate for family, rate in self.rates.items()},
            "--device": self.device,
        }
        said = [word for option, value in given.items() if value for word in (option, str(value))]
        return [*said, *(["--tiny"] if self.tiny else [])]

    @cached_property
    def base(self) -> Recipe:
        """The recipe that gives the data."""
        return load_recipe((TINY if self.tiny else FULL).recipe)

    def recipe(self, cell: str, seed: int) -> Recipe:
        """The recipe of a cell: an impossible one is a UserError."""
        family, alignment = cell.split("-")
        values = recipe_to_json(self.base)
        data: dict[str, Any] = values["data"] | {"folder": self.data}
        if self.batch_tokens:
            data["batch_tokens"] = self.batch_tokens
        if self.tiny:
            for split, count in TINY_PAIRS.items():
                data[split] = [corpus | {"count": count} for corpus in data[split]]
        train = values["train"] | {
            "steps": self.steps,
            "schedule": {
                "kind": "inverse_sqrt", "lr": self.rates[family], "warmup": max(1, self.steps // 4),
            },
            "clip_norm": 1.0,
            "log_every": max(1, self.steps // 80),
            "checkpoint_every": max(1, self.steps // 32),
            "average": {"last": 10},
            "validation": {"every": max(1, self.steps // 16), "metric": "perplexity"},
            "seed": seed,
            "threads": 1,
            "device": self.device,
        }  # fmt: skip
        model = self._model(family, alignment, data["max_length"])
        return recipe_from_json(values | {"data": data, "train": train, "model": model}, cell)

    def _model(self, family: str, alignment: str, max_length: int) -> dict[str, Any]:
        scale = TINY if self.tiny else FULL
        shared = {"family": family, "alignment": alignment, "width": scale.width, "dropout": self.dropout, "tie": "all"}
        if alignment in FIXED_LENGTH:
            shared["max_places"] = max_length + 1
        if family == "recurrent":
            return {**shared, "wiring": "bahdanau", "cell": "gru", "encoder_width": scale.width // 2}
        return {**shared, "heads": scale.heads, "layers": scale.layers, "inner": scale.inner, "norm": "pre"}
