"""Make golden runs: tiny trainings that were stopped half way, for the test that old runs can be resumed.

    python -m tests.golden.make_runs NAME...

As with golden bundles: made once, never again. A new way to save a run adds a row to `RUNS` and one golden.

runs/NAME/recipe.toml train.* valid.*    what is trained on what, in files beside each other
runs/NAME/run/                           the run folder as it was when it was stopped
runs/NAME/whole.jsonl                    the metrics of a run of the same recipe that nobody stopped
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from tests.golden.cases.texts import column, reviews, running_text, translated, tsv

import heedful

HERE: Final = Path(__file__).parent / "runs"
STOPPED: Final = 10  # steps done; no multiple of the distance of checkpoints, as when somebody presses Ctrl-C
STEPS: Final = 20
_TRAIN: Final = """
steps = 20
clip_norm = 1.0
device = "cpu"
precision = "float32"
threads = 1
log_every = 2
checkpoint_every = 6
validation = { every = 5 }
"""


class Interrupting(StringIO):
    """A screen whose reader presses Ctrl-C at the sight of a step."""

    def write(self, text: str) -> int:
        """Show text."""
        if f"step {STOPPED}/" in text:
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


@dataclass(frozen=True)
class Golden:
    """A run to be made: its recipe without what all share, and its files."""

    recipe: str
    files: Mapping[str, str]


def _pairs() -> dict[str, str]:
    train, valid = translated()[::3], translated()[1::20]
    return {
        f"{part}.{language}": column(rows, number)
        for part, rows in (("train", train), ("valid", valid))
        for number, language in enumerate(("en", "de"))
    }


_PAIRS: Final = """
[data]
train = { source = "train.en", target = "train.de" }
valid = { source = "valid.en", target = "valid.de" }
batch_tokens = 64
[tokenizer]
kind = "word"
"""

RUNS: Final[Mapping[str, Golden]] = {
    "transformer": Golden(
        _PAIRS
        + """
[model]
family = "transformer"
width = 8
heads = 2
layers = 1
inner = 16
[train]
accumulate = 2
schedule = { kind = "noam", warmup = 10 }
keep_checkpoints = 1
""",
        _pairs(),
    ),
    "recurrent": Golden(
        _PAIRS
        + """
[model]
family = "recurrent"
wiring = "luong"
cell = "lstm"
width = 6
encoder_width = 3
[train]
schedule = { kind = "constant", lr = 0.01, warmup = 4 }
scheduled_sampling = { kind = "linear", slope = 0.02 }
""",
        _pairs(),
    ),
    "classifier": Golden(
        """
[data]
train = { tsv = "train.tsv", label = 1, text = 2 }
valid = { tsv = "valid.tsv", label = 1, text = 2 }
batch_tokens = 64
max_length = 32
[tokenizer]
kind = "wordpiece"
size = 60
[model]
family = "classifier"
encoder = { family = "transformer", width = 8, heads = 2, layers = 2, inner = 16 }
pool = "attention"
[train]
optimizer = { kind = "adamw" }
schedule = { kind = "linear", lr = 0.01, warmup = 4 }
class_weights = "balanced"
layer_decay = 0.8
""",
        {"train.tsv": tsv(reviews()[:40]), "valid.tsv": tsv(reviews()[40:])},
    ),
    "bert": Golden(
        """
[data]
train = { text = "train.txt" }
valid = { text = "valid.txt" }
batch_tokens = 96
max_length = 24
[tokenizer]
kind = "word"
[model]
family = "bert"
width = 8
heads = 2
layers = 1
inner = 16
max_positions = 24
[train]
optimizer = { kind = "adamw", weight_decay = 0.1 }
schedule = { kind = "cosine", lr = 0.01, warmup = 4, floor = 0.1 }
""",
        {"train.txt": running_text()[:3200].rpartition("\n\n")[0] + "\n", "valid.txt": running_text()[-800:]},
    ),
}


def make(name: str) -> None:
    """Train twice, whole and to the middle, in a folder that is thrown away, and keep what is needed of both."""
    kept = HERE / name
    if kept.exists():
        raise SystemExit(f"{kept} is there: a golden is made once and stays for ever. Give a new one a new name.")
    golden, before = RUNS[name], Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HEEDFUL_CACHE"] = str(Path(scratch) / "cache")
        made = Path(scratch) / name
        made.mkdir()
        os.chdir(made)  # so that the run names files by themselves, and nothing of this machine
        try:
            for file, text in {"recipe.toml": golden.recipe.strip() + _TRAIN, **golden.files}.items():
                Path(file).write_text(text)
            whole = heedful.train("recipe.toml", "whole", console=Console(file=StringIO()))
            (whole / "metrics.jsonl").rename("whole.jsonl")
            shutil.rmtree(whole.folder)
            with suppress(Exception):  # which says that it was stopped
                heedful.train("recipe.toml", "run", console=Console(file=Interrupting(), width=200))
            shutil.rmtree("run/tensorboard", ignore_errors=True)
            if [path.name for path in Path("run/checkpoints").glob("step-*")] != [f"step-{STOPPED:08d}"]:
                raise SystemExit(f"{name}: the run was not stopped at step {STOPPED}.")
            shutil.copytree(made, kept)
        finally:
            os.chdir(before)


def main(names: Sequence[str]) -> None:
    """Make the goldens of these names."""
    unknown = [name for name in names if name not in RUNS]
    if unknown or not names:
        raise SystemExit(f"Name some of: {', '.join(RUNS)}")
    for name in names:
        make(name)


if __name__ == "__main__":
    main(sys.argv[1:])
