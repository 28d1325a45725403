"""Golden curves: the losses of twenty updates of every family, so that a change of the code shows as one of numbers.

A change that is not meant to alter what is computed shows the same bits before and after it, on one machine:

    python tests/golden/curves.py --record before.json      # in the commit before
    python tests/golden/curves.py --compare before.json     # in the commit after; tells what differs, and from where on

`curves.json`, which the tests compare with, holds for other machines too, within a tolerance. It was made once; a case
that is added adds a row: python tests/golden/curves.py --write --only NAME. To write a row anew is to say that the
numbers were meant to change.

Everything goes the way of a user: texts and a recipe in files, a run, what it recorded and the weights that it left.
What else is asked of the package stands in `training`.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from rich.console import Console
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # as a program it finds its cases by their full names

from tests.golden.cases.curve_texts import write_texts
from tests.golden.cases.curves import CASES, UPDATES, Case

COMMITTED: Final = Path(__file__).with_name("curves.json")


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """What a run computed: the loss of every update, and in the end the sum of all weights and that of their sizes.

    The sums are rounded once, so that they depend neither on the order of weights nor on their names.
    """

    losses: tuple[float, ...]
    weights: tuple[float, float]


@contextmanager
def training(static: bool) -> Iterator[Callable[..., Path]]:
    """What trains a recipe into a run folder. All that these curves ask of the package's modules is imported here.

    A static run has the batches that a GPU has in bfloat16: its whole budget, dummies behind the sentences, a fixed
    bound. Each is copied to where the first one was, as it is for a recorded CUDA graph. The rest is a CPU's.
    """
    import torch

    from heedful.runs.job import Job
    from heedful.runs.training_run import train
    from heedful.training.updates import EagerUpdates

    begin, shapes = Job.begin, []

    def begin_static(job: Job) -> Any:
        position, shape = begin(job), job.task.static_shape(job.recipe, torch.bfloat16)
        assert shape is not None, "a GPU would have ragged batches too"
        shapes.append(shape)
        job.feed = job.feed.placed(shape, pin=False)
        return position

    def add_in_place(computing: Any, batch: Any, first: bool) -> Any:
        if not hasattr(computing, "first_batch"):
            computing.first_batch = batch
        else:
            computing.first_batch.copy_(batch)
        return computing.differentiate(computing.first_batch)

    if not static:
        yield train
        return
    with patch.object(Job, "begin", begin_static), patch.object(EagerUpdates, "add", add_in_place):
        yield train
    assert shapes, "nothing was laid out in one shape"


def curve(case: Case, home: Path) -> Curve:
    """Train a case in an empty folder."""
    from heedful.config.reading.load import load_recipe

    texts, recipe, run = home / "texts", home / "recipe.toml", home / "run"
    texts.mkdir()
    write_texts(texts)
    recipe.write_text("".join(f"{key} = {_toml(table)}\n" for key, table in case.recipe(texts).items()))
    with patch.dict(os.environ, {"HEEDFUL_CACHE": str(home / "cache")}), training(case.static) as train:
        train(load_recipe(recipe), run, console=Console(file=StringIO()))
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    losses = tuple(line["loss"] for line in lines if line["part"] == "train")
    assert len(losses) == UPDATES, f"{len(losses)} updates were recorded"
    weights = [weight for tensor in load_file(run / "model.safetensors").values() for weight in tensor.ravel().tolist()]
    return Curve(losses, (math.fsum(weights), math.fsum(map(abs, weights))))


def _toml(value: Any) -> str:
    """A value on one line of TOML, whose scalars are written as JSON's."""
    match value:
        case dict():
            return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            return json.dumps(value)


def curves(names: Iterable[str]) -> Iterator[tuple[str, Curve]]:
    """Train cases, one after the other, and say how long each took."""
    for name in names:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as home:
            made = curve(CASES[name], Path(home))
        print(f"{name}: {made.losses[0]:.4f} to {made.losses[-1]:.4f}, {time.perf_counter() - began:.1f} s", flush=True)
        yield name, made


# --- what is kept of them ---------------------------------------------------------------------------------------------


def record(file: Path, names: Sequence[str]) -> None:
    """Write the exact numbers of cases."""
    rows = {
        name: {"losses": [x.hex() for x in made.losses], "weights": [x.hex() for x in made.weights]}
        for name, made in curves(names)
    }
    file.write_text(json.dumps(rows, indent=1) + "\n")


def compare(file: Path, names: Sequence[str]) -> int:
    """Say how many cases differ from what was recorded, and how."""
    rows = json.loads(file.read_text())
    differing = {name: found for name, made in curves(names) if (found := difference(made, rows.get(name)))}
    for name, found in differing.items():
        print(f"DIFFERS  {name}: {found}")
    print(f"{len(names) - len(differing)} of {len(names)} curves have the bits of {file}")
    return len(differing)


def difference(made: Curve, row: Mapping[str, Sequence[str]] | None) -> str:
    """Where a curve leaves the recorded one, in words; nothing where it does not."""
    if row is None:
        return "it was not recorded"
    losses, weights = (tuple(map(float.fromhex, row[key])) for key in ("losses", "weights"))
    if len(losses) != len(made.losses):
        return f"{len(losses)} updates were recorded, and {len(made.losses)} made"
    steps = enumerate(zip(losses, made.losses, strict=True), start=1)
    apart = next(((step, was, now) for step, (was, now) in steps if was != now), None)
    if apart:
        most = max(abs(was - now) for was, now in zip(losses, made.losses, strict=True))
        return f"at step {apart[0]} the loss was {apart[1]!r} and is {apart[2]!r}; at most they are {most:.2g} apart"
    return "" if weights == made.weights else f"the weights summed up to {weights} and do to {made.weights}"


def committed() -> dict[str, list[float]]:
    """The losses of all cases that are kept beside this file."""
    kept: dict[str, list[float]] = json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    return kept


def write(names: Sequence[str]) -> None:
    """Put the losses of cases into the kept file, in the order of the cases."""
    rows = committed() | {name: [round(loss, 7) for loss in made.losses] for name, made in curves(names)}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(rows[name])}" for name in CASES if name in rows)
    COMMITTED.write_text("{\n" + lines + "\n}\n")


def main() -> int:
    """Record, compare or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--record", metavar="FILE", type=Path, help="write the exact numbers of this commit")
    ways.add_argument("--compare", metavar="FILE", type=Path, help="compare with them, bit by bit; 1 where some differ")
    ways.add_argument("--write", action="store_true", help="write the rows of curves.json")
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=CASES, default=list(CASES), help="some cases")
    said = parser.parse_args()
    if said.record:
        record(said.record, said.only)
    elif said.compare:
        return 1 if compare(said.compare, said.only) else 0
    else:
        write(said.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
