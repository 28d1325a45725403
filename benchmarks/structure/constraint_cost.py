"""Time of a parser's search with the constraint of trees, divided by its time without it, on the same outputs.

    python -m benchmarks.structure.constraint_cost --data GUM --model FOLDER [--beam 4] [--sentences 300] [--rounds 5]
    python -m benchmarks.structure.constraint_cost --data GUM --tiny   trains a small parser first; records nothing

FOLDER is a parser, such as one that `benchmarks.structure.gum` trained (runs/gum/parse-1/run). The sentences are those
of GUM's dev.trees.gz for which both searches find the same tree, so that both take the same steps. They are timed in
turns, `--rounds` times each; the figure is the ratio of the medians. On a machine with a GPU both devices are measured.

Records constraint_cost.json: `ratio` (CPU) and `ratio_gpu`; in `details` the seconds of each round, and how many of the
sentences had the same trees.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from benchmarks.shared.detailed_results import Detailed, recorded, save

from heedful.base.errors import HeedfulError, UserError
from heedful.config.corpora.containers import Trees
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.trees import read_trees
from heedful.metrics.recorded_results import RESULTS
from heedful.runs.training_run import train
from heedful.tasks.parse.model import Parser

NAME: Final = "constraint_cost"
FIGURES: Final = {"cpu": "ratio", "cuda": "ratio_gpu"}
TINY: Final = (
    "model.width=32", "model.heads=2", "model.layers=1", "model.inner=64", "model.dropout=0.0",
    "model.dropout_attention=0.0", "model.dropout_words=0.0", "train.steps=400", "train.device=cpu",
    "train.precision=float32", "train.validation.every=400", "train.checkpoint_every=400", "data.batch_tokens=256",
    "train.schedule.lr=0.01", "train.schedule.warmup=20", "train.average={ last = 1 }", "train.threads=1",
)  # fmt: skip
TINY_SENTENCES: Final = 12


def sentences_of(data: Path, most: int) -> list[str]:
    """Return the first sentences of the validation trees."""
    trees = read_trees(Trees(trees="dev.trees.gz"), str(data))
    return list(islice((" ".join(tree.words) for tree in trees if tree is not None), most))


def train_tiny(data: Path, runs: Path) -> Path:
    """Train a small parser on the sentences that it is measured on."""
    few = f'{{ trees = "dev.trees.gz", leaves = "tag", lines = "1-{TINY_SENTENCES}" }}'
    corpora = [f"data.{split}={few}" for split in ("train", "valid", "test")]
    train(load_recipe("gum-parse", [f"data.folder={data.absolute()}", *corpora, *TINY]), runs / NAME, resume=True)
    return runs / NAME


def same_sentences(parser: Parser, sentences: Sequence[str], beam: int) -> list[str]:
    """Return the sentences for which both searches find the same tree."""
    free = parser.parse(sentences, beam=beam, unconstrained=True)
    bound = parser.parse(sentences, beam=beam)
    triples = zip(sentences, free, bound, strict=True)
    return [sentence for sentence, left, right in triples if left is not None and left == right]


def timed(parser: Parser, sentences: Sequence[str], beam: int, unconstrained: bool) -> float:
    """Return the seconds of one search for all sentences."""
    began = time.perf_counter()
    parser.parse(sentences, beam=beam, unconstrained=unconstrained)
    if parser.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(parser: Parser, sentences: Sequence[str], options: argparse.Namespace) -> tuple[float, dict[str, Any]]:
    """Return the ratio on the parser's device, and how it came about."""
    same = same_sentences(parser, sentences, options.beam)
    if not same:
        raise UserError("The parser finds no sentence's tree without the constraint: train it longer.")
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(options.rounds + 1):
        for unconstrained in (True, False) if number % 2 else (False, True):
            taken = timed(parser, same, options.beam, unconstrained)
            if number:  # the first round warms up
                seconds[unconstrained].append(taken)
    ratio = median(seconds[False]) / median(seconds[True])
    details = {
        "sentences": len(sentences),
        "same": len(same),
        "beam": options.beam,
        "seconds_with": seconds[False],
        "seconds_without": seconds[True],
        "threads": torch.get_num_threads(),
        "precision": str(parser.precision),
    }
    return ratio, details


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="GUM's trees")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="a trained parser")
    parser.add_argument("--devices", help="some of cpu,cuda; by default all that the machine has")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=Path, default=Path("runs") / NAME, help="the folder of --tiny's parser")
    parser.add_argument("--results", type=Path, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="a small parser, on a CPU")
    options = parser.parse_args(given)
    if options.model is None and not options.tiny:
        parser.error("--model: say which parser is measured")
    if options.results is None and not options.tiny:
        options.results = RESULTS
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = arguments(given)
    try:
        model = train_tiny(options.data, options.runs) if options.tiny else options.model
        sentences = sentences_of(options.data, TINY_SENTENCES if options.tiny else options.sentences)
        usual = "cpu" if options.tiny or not torch.cuda.is_available() else "cpu,cuda"
        before = recorded(NAME, options.results) if options.results else Detailed()
        figures, details = dict(before.figures), dict(before.details)
        for device in (options.devices or usual).split(","):
            ratio, details[device] = measure(Parser.load(model, device), sentences, options)
            figures[FIGURES[device]] = round(ratio, 4)
            print(f"{FIGURES[device]} {ratio:.3f} on {details[device]['same']} sentences", flush=True)
        if options.results:
            save(NAME, Detailed(figures, details), options.results)
        return 0
    except HeedfulError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
