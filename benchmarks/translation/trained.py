"""The translators of Multi30k that several benchmarks ask the same question: trained once per recipe and seed."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.shared.cells import Cell, measure_and_record, run_program
from filelock import FileLock

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.pairs import read_pairs
from heedful.runs.training_run import train
from heedful.tasks.translate.model import Translator

Pair = tuple[str, str]
TINY: Final = (
    "train.steps=20", "train.device=cpu", "train.precision=float32", "train.log_every=5", "train.validation.every=20",
    "train.checkpoint_every=20", "data.batch_tokens=1024", "train.schedule.warmup=5", "model.width=32",
    "model.layers=1", "tokenizer.size=1000",
)  # fmt: skip
TINY_TRANSFORMER: Final = ("model.heads=2", "model.inner=32", "train.average.last=1")
TRANSFORMER: Final = "multi30k-en-de-lc"


PASSED: Final = ("data", "models")


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the folders of the data and of the models."""
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="Multi30k, lowercased and tokenized")
    parser.add_argument(
        "--models", type=Path, default=Path("runs") / "multi30k", help="the folder of models, which programs share"
    )


def translator(recipe: str, seed: int, options: argparse.Namespace, *settings: str) -> Translator:
    """Train a recipe with a seed where that is not done yet, in a folder that programs share.

    Processes that need the same model at the same time wait for the one that trains it.
    """
    name = "-".join([recipe, *(setting.partition("=")[0].rpartition(".")[2] for setting in settings)])
    run: Path = options.models / f"{name}-{seed}{'-tiny' if options.tiny else ''}"
    tiny = [*TINY, *(TINY_TRANSFORMER if recipe == TRANSFORMER else ())] if options.tiny else []
    changed = [*settings, *tiny, *options.set, f"train.seed={seed}"]
    folder = [] if any(setting.startswith("data.folder=") for setting in settings) else [f"data.folder={options.data}"]
    run.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(run.with_name(f"{run.name}.lock")):
        train(load_recipe(recipe, [*changed, *folder]), run, resume=True)
    return Translator.load(run)


def sentences(split: str, folder: Path) -> Sequence[Pair]:
    """Return the pairs of a part of Multi30k, lowercased and tokenized: train, val, test_2016_flickr."""
    files = AlignedFiles(source=f"{split}.lc.norm.tok.en.gz", target=f"{split}.lc.norm.tok.de.gz")
    return list(read_pairs(files, str(folder)))


def run_parts(
    parser: argparse.ArgumentParser,
    name: str,
    parts: Sequence[str],
    kind: type[Cell],
    summarised: Callable[[str, Sequence[Mapping[str, Any]]], Mapping[str, float]],
) -> None:
    """Run a program that measures every part with every seed, and records means over seeds."""
    _add_options(parser)

    def run(options: argparse.Namespace, chosen: Sequence[str], seeds: Sequence[int]) -> int:
        cells = [kind(part, seed, options) for part in chosen for seed in seeds]
        return measure_and_record(name, cells, options, seeds, summarised)

    run_program(parser, parts, kind, run)
