"""Phonemes of English words by recipes/cmudict.toml: error rates on words that training never showed.

    python -m benchmarks.structure.cmudict --data CMUDICT [--seeds 1,2,3] [--jobs 3]
    python -m benchmarks.structure.cmudict --data CMUDICT --prepare FOLDER      only writes the files of the recipe
    python -m benchmarks.structure.cmudict --data CMUDICT --tiny      a tiny model on few words; records nothing

CMUDICT holds cmudict.dict, a word and its phonemes on each line: `tomato(2) T AH0 M AA1 T OW2 # comment`. Stress is
left out, and variants that differ in nothing else are one. Words are split by the sha256 of their UTF-8, as a number
modulo 20: 0 is the test set, 1 the validation set, the others train. Every variant of a word is right: PER counts the
edits to the nearest one, WER the words that equal none.

Each seed trains and is evaluated in a process of its own, --jobs of them side by side; what is ready is not trained
again. Records cmudict.json: `per` and `wer` in percent, means over seeds, with deviations (`_sd`) and the worst seed
(`_most`); in `details` every seed with its training time.
"""

import argparse
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final

from benchmarks.shared.cells import Cell, known_by_part, make_parser, measure_cells, run_program, show
from benchmarks.shared.detailed_results import Detailed, save

from heedful.base.errors import UserError
from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.runs.training_run import train
from heedful.tasks.evaluate import evaluate

NAME: Final = "cmudict"
PARTS: Final = ("phonemes",)
SCORES: Final = ("per", "wer")
SPLITS: Final[Mapping[int, str]] = {0: "test", 1: "valid"}  # by the hash of a word modulo the number of shares
SHARES: Final = 20
TINY: Final = (
    "train.steps=20", "train.device=cpu", "train.precision=float32", "train.schedule.warmup=5", "train.log_every=10",
    "train.validation.every=20", "train.checkpoint_every=20", "data.batch_tokens=512", "model.width=32",
    "model.inner=64", "model.layers=1", "train.average.last=1", "decode.beam=1",
)  # fmt: skip
TINY_WORDS: Final = 50  # one word in this many is taken

Entry = tuple[str, str]  # a word, and its phonemes with a space between them


def read_entries(lines: Iterable[str], name: str) -> Iterator[Entry]:
    """Yield the words of a dictionary with their phonemes, without stress, comments and the numbers of variants."""
    seen: set[Entry] = set()
    for number, line in enumerate(lines, start=1):
        word, *phonemes = line.partition("#")[0].split() or [""]
        if not word or word.startswith(";;;"):
            continue
        if not phonemes:
            raise UserError(f"{name}, line {number:,} has a word without phonemes: `{line}`.")
        entry = re.sub(r"\(\d+\)$", "", word), " ".join(phoneme.rstrip("012") for phoneme in phonemes)
        if entry not in seen:
            seen.add(entry)
            yield entry


def split_of(word: str) -> str:
    """Return the split of a word."""
    return SPLITS.get(int(hashlib.sha256(word.encode()).hexdigest(), 16) % SHARES, "train")


def prepare(dictionary: Path, folder: Path, every: int = 1) -> None:
    """Write the recipe's files; with `every`, only one word in this many is taken."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[str]] = {split: [] for split in ("train", *SPLITS.values())}
    numbers: dict[str, int] = {}
    for word, phonemes in read_entries(read_lines(locate(str(dictionary))), str(dictionary)):
        if numbers.setdefault(word, len(numbers)) % every == 0:
            rows[split_of(word)].append(f"{word}\t{phonemes}\n")
    for split, lines in rows.items():
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")


class Run(Cell):
    """The recipe with a seed."""

    program = f"structure.{NAME}"

    @property
    def settings(self) -> list[str]:
        """What is set otherwise than in the recipe."""
        tiny = TINY if self.options.tiny else ()
        return [f"data.folder={files_of(self.options).absolute()}", *tiny, *self.options.set, f"train.seed={self.seed}"]

    def measure(self) -> dict[str, Any]:
        """Train, and write the phonemes of the test words."""
        train(load_recipe(NAME, self.settings), self.folder, resume=True)
        (evaluation,) = evaluate(self.folder, metrics=SCORES).values()
        scores = {score.name: score.value for score in evaluation.scores()}
        return {"training": describe_training(self.folder), "scores": scores}


def files_of(options: argparse.Namespace) -> Path:
    """Return the folder of the recipe's files, which are made where they are missing."""
    runs: Path = options.runs
    folder = runs / ("data-tiny" if options.tiny else "data")
    if not (folder / "test.tsv").exists():
        prepare(options.data / "cmudict.dict", folder, TINY_WORDS if options.tiny else 1)
    return folder


def figures_of(found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each score over seeds, its deviation, and its greatest value."""
    figures: dict[str, float] = {}
    for name in SCORES if found else ():
        values = [one["scores"][name] for one in found]
        figures |= {name: round(mean(values), 4), f"{name}_most": round(max(values), 4)}
        figures |= {f"{name}_sd": round(stdev(values), 4)} if len(values) > 1 else {}
    return figures


def take(
    options: argparse.Namespace, asked: Sequence[Run], seeds: Sequence[int], failed: Mapping[str, str]
) -> dict[str, float]:
    """Collect what is ready, and record it unless the models are tiny; return the figures."""
    found = [one for part in known_by_part(asked).values() for one in part]
    figures = figures_of(found)
    details = {str(one["seed"]): {**one["scores"], **one["training"]} for one in found}
    if figures and not options.tiny:
        save(NAME, Detailed(figures, details, failed), options.results, seeds)
    return figures


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate what is not ready yet; return the exit code."""
    if options.prepare:
        prepare(options.data / "cmudict.dict", options.prepare)
        return 0
    failed: dict[str, str] = {}
    asked = [Run(part, seed, options) for part in parts for seed in seeds]
    measure_cells(asked, options, failed, lambda: take(options, asked, seeds, failed))
    return show(take(options, asked, seeds, failed), failed)


def main() -> None:
    """Run the program."""
    parser = make_parser(__doc__, NAME, PARTS)
    parser.add_argument("--data", type=Path, required=True, metavar="CMUDICT", help="the folder of cmudict.dict")
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="write the recipe's files there, and end")
    run_program(parser, PARTS, Run, run)


if __name__ == "__main__":
    main()
