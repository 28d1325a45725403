"""Constituency trees of the GUM corpus by the recipes that ship with Heedful, from words alone.

    python -m benchmarks.gum --data GUM [--wikitext FOLDER] [--parts parse,silver] [--seeds 1,2,3] [--jobs 3]
    python -m benchmarks.gum --data GUM --parts explore [--jobs 6]      validation scores of other settings
    python -m benchmarks.gum --data GUM --wikitext FOLDER --tiny        a few trees and steps, on a CPU

GUM holds train.trees.gz, dev.trees.gz and test.trees.gz, one tree per line; FOLDER holds WikiText-2's
wiki.train.tokens.gz. Scores are those of the test trees; the validation trees choose the checkpoint. Each part with
each seed is trained and evaluated in a process of its own, `--jobs` of them side by side; what is ready is not trained
again.

parse     recipes/gum-parse.toml: from scratch; with the constraint of trees, and without it
silver    recipes/gum-parse-silver.toml: the parser of the same seed finds trees of sentences of WikiText-2, on which a
          new parser is trained together with the gold trees
explore   other settings than the recipe's, with the first seed, scored on the validation trees; not recorded

Records gum.json: `f1`, `f1_unconstrained`, `f1_silver` (means over seeds), with their deviations (`_sd`); as
`well_formed` the lowest share of trees over exactly the words of their sentences, of all seeds and of beams of 1, 4 and
21, on the test sentences, an empty one, one of one word and one of 200 words; in `details` each seed.
"""

import argparse
import gzip
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final, NoReturn

from benchmarks.detailed_results import Detailed, recorded, save
from benchmarks.side_by_side import Task, run_side_by_side

from heedful.cli.reports.scores import describe_training
from heedful.config.corpora.texts import PlainTexts
from heedful.config.corpora.trees import TreeCorpus
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.documents import read_documents
from heedful.data.corpora.trees import read_trees
from heedful.data.text_form import TextForm
from heedful.errors import HeedfulError
from heedful.files import read_json, write_json
from heedful.metrics.recorded_results import RESULTS, machine
from heedful.runs.training_run import train
from heedful.tasks.evaluate import evaluate
from heedful.tasks.parse.model import Parser

NAME: Final = "gum"
FOUND: Final = "found.json"  # in a cell's folder: what is known of it
SILVER_FILE: Final = "silver.trees"
BEAMS: Final = (1, 4, 21)
LONG: Final = 200  # words of the longest input
MOST_SILVER: Final = 40_000  # sentences
SILVER_WORDS: Final = range(4, 41)
SPLITS: Final = ("train", "valid", "test")
PARSE, SILVER, EXPLORE = "parse", "silver", "explore"
RECURRENT: Final = (
    'model={ family = "recurrent", wiring = "luong", cell = "lstm", width = 256, layers = 2, dropout = 0.4 }',
    "train.schedule.lr=0.002",
)
VARIANTS: Final[Mapping[str, tuple[str, ...]]] = {  # what is set otherwise than in recipes/gum-parse.toml
    "recipe": (),
    "symbol": tuple(f"data.{split}.leaves=symbol" for split in SPLITS),
    "words": (*(f"data.{split}.leaves=word" for split in SPLITS), "tokenizer.target.size=20000"),
    "relative": ("model.positions=relative",),
    "narrow": ("model.width=192", "model.inner=512"),
    "lighter": ("model.dropout=0.2", "model.dropout_attention=0.0"),
    "wide": ("model.width=384", "model.heads=6", "model.inner=1536", "model.dropout=0.35"),
    "recurrent": RECURRENT,
}
TINY: Final = (
    "train.steps=3", "train.device=cpu", "train.precision=float32", "train.log_every=1", "train.validation.every=3",
    "train.checkpoint_every=3", "data.batch_tokens=512", "train.schedule.warmup=1", "train.threads=1",
    "train.validation.max_sentences=5", "decode.beam=2",
)  # fmt: skip
TINY_MODEL: Final = ("model.width=16", "model.heads=2", "model.layers=1", "model.inner=16")
TINY_TREES: Final = 40
TINY_SILVER: Final = 20


@dataclass(frozen=True)
class Cell:
    """A part, or a variant of the recipe, with a seed, in its folder."""

    part: str
    seed: int
    options: argparse.Namespace

    @property
    def folder(self) -> Path:
        runs: Path = self.options.runs
        return runs / f"{self.part}-{self.seed}{'-tiny' if self.options.tiny else ''}"

    def found(self) -> dict[str, Any] | None:
        path = self.folder / FOUND
        known = read_json(path) if path.exists() else None
        return known if isinstance(known, dict) else None

    def task(self) -> Task:
        """Return what trains and evaluates it in a process of its own."""
        options = self.options
        command = [sys.executable, "-m", f"benchmarks.{NAME}", "--cell", self.part, "--seeds", str(self.seed)]
        where = ["--data", str(options.data), "--runs", str(options.runs), *(["--tiny"] if options.tiny else [])]
        where += ["--wikitext", str(options.wikitext)] if options.wikitext else []
        sets = [word for setting in options.set for word in ("--set", setting)]
        return Task(f"{self.part}, seed {self.seed}", [*command, *where, *sets], self.folder.with_suffix(".log"))

    def run(self) -> None:
        """Train and evaluate, and write down what is known."""
        match self.part:
            case "parse":
                known = self._parse()
            case "silver":
                known = self._silver()
            case variant:
                known = self._scored(self._train("gum-parse", VARIANTS[variant]), split="valid")
        write_json(self.folder / FOUND, {**known, "machine": machine()})

    def _parse(self) -> dict[str, Any]:
        made = self._train("gum-parse", ())
        known = self._scored(made)
        (loose,) = evaluate(made, unconstrained=True).values()
        unconstrained = {f"{score.name}_unconstrained": score.value for score in loose.scores()}
        return {**known, **unconstrained, "well_formed_at": well_formed(Parser.load(made))}

    def _silver(self) -> dict[str, Any]:
        options = self.options
        teacher = Cell(PARSE, self.seed, options).folder / "run"
        silver = (self.folder / SILVER_FILE).absolute()
        if not silver.exists():
            write_silver(Parser.load(teacher), options.wikitext, silver, TINY_SILVER if options.tiny else MOST_SILVER)
        made = self._train("gum-parse-silver", (f"data.train.1.trees={silver}",))
        return self._scored(made)

    def _scored(self, made: Path, split: Any = "test") -> dict[str, Any]:
        (scored,) = evaluate(made, split=split).values()
        return {**{score.name: score.value for score in scored.scores()}, **(describe_training(made) or {})}

    def _train(self, recipe: str, settings: Sequence[str]) -> Path:
        given = [f"data.folder={trees_folder(self.options).absolute()}", f"train.seed={self.seed}", *settings]
        small = [*TINY, *(() if self.part == "recurrent" else TINY_MODEL)] if self.options.tiny else []
        run = self.folder / "run"
        train(load_recipe(recipe, [*given, *small, *self.options.set]), run, resume=True)
        return run


# --- inputs -----------------------------------------------------------------------------------------------------------


def trees_folder(options: argparse.Namespace) -> Path:
    """Return the folder of the trees; with --tiny that of a few, which are training, validation and test data alike."""
    data: Path = options.data
    return options.runs / "tiny" if options.tiny else data


def write_tiny_trees(options: argparse.Namespace) -> None:
    """Write a few short trees under the names of all files."""
    folder = trees_folder(options)
    folder.mkdir(parents=True, exist_ok=True)
    trees = (tree for tree in read_trees(TreeCorpus(trees=str(options.data / "dev.trees.gz"))) if tree is not None)
    short = islice((tree for tree in trees if len(tree.words) < 15), TINY_TREES)
    text = "".join(f"{tree}\n" for tree in short)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.trees.gz").write_bytes(gzip.compress(text.encode()))


def well_formed(parser: Parser) -> dict[str, float]:
    """Return the share of trees over exactly the words of their sentences, by beam size."""
    (corpus,) = parser.recipe.data.test
    assert isinstance(corpus, TreeCorpus)
    trees = [tree for tree in read_trees(corpus, parser.recipe.data.folder) if tree is not None]
    words = [word for tree in trees for word in tree.words]
    long = (words * (LONG // len(words) + 1))[:LONG]
    sentences = [list(tree.words) for tree in trees] + [[], [words[0]], long]
    shares = {}
    for beam in BEAMS:
        found = parser.parse([" ".join(sentence) for sentence in sentences], beam=beam)
        right = [
            list(tree.words) == sentence if tree is not None else not sentence
            for tree, sentence in zip(found, sentences, strict=True)
        ]
        shares[str(beam)] = mean(right)
    return shares


def wikitext_sentences(folder: Path) -> Iterator[str]:
    """Yield the sentences of WikiText-2 whose words are all known, in the form of GUM's words."""
    corpus = PlainTexts(text="wiki.train.tokens.gz", documents="heading")
    for document in read_documents(corpus, str(folder), TextForm()):
        for sentence in document:
            if "<unk>" not in sentence:
                text = sentence.replace(" @-@ ", " - ").replace(" @,@ ", ",").replace(" @.@ ", ".")
                if len(text.split()) in SILVER_WORDS:
                    yield text


def write_silver(parser: Parser, wikitext: Path, path: Path, most: int) -> None:
    """Write the trees that a parser finds for sentences, greedily."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = parser.parse(list(islice(wikitext_sentences(wikitext), most)), beam=1)
    path.write_text("".join(f"{tree}\n" for tree in found if tree is not None), encoding="utf-8")


# --- what is found ----------------------------------------------------------------------------------------------------


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figures of a part."""
    names = {"f1": "f1", "f1_unconstrained": "f1_unconstrained"} if part == PARSE else {"f1_silver": "f1"}
    figures: dict[str, float] = {}
    for figure, score in names.items():
        values = [100 * one[score] for one in found]
        figures[figure] = round(mean(values), 3)
        figures |= {f"{figure}_sd": round(stdev(values), 3)} if len(values) > 1 else {}
    if part == PARSE:
        figures["well_formed"] = min(share for one in found for share in one["well_formed_at"].values())
    return figures


def summarise(
    options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int], failed: Mapping[str, str]
) -> None:
    """Print and record what is known of all parts."""
    before = recorded(NAME, options.results) if options.results else Detailed()
    figures, details = dict(before.figures), dict(before.details)
    for part in parts:
        found = {cell.seed: known for cell in cells_of(part, seeds, options) if (known := cell.found())}
        if part == EXPLORE:
            for cell in cells_of(part, seeds, options):
                if known := cell.found():
                    print(f"{cell.part:10} F1 on validation {100 * known['f1']:.2f}", flush=True)
        elif found:
            new = figures_of(part, list(found.values()))
            figures, details = {**figures, **new}, {**details, part: {str(seed): one for seed, one in found.items()}}
            print(f"{part}: " + ", ".join(f"{name} {value:.3f}" for name, value in new.items()), flush=True)
    if options.results and figures:
        save(NAME, Detailed(figures, details, dict(failed)), options.results, seeds)


def cells_of(part: str, seeds: Sequence[int], options: argparse.Namespace) -> list[Cell]:
    """Return the cells of a part."""
    if part == EXPLORE:
        return [Cell(variant, seeds[0], options) for variant in VARIANTS]
    return [Cell(part, seed, options) for seed in seeds]


# --- the program ------------------------------------------------------------------------------------------------------


def arguments(given: Sequence[str] | None = None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="GUM's trees")
    parser.add_argument("--wikitext", type=Path, metavar="FOLDER", help="WikiText-2, for silver trees")
    parser.add_argument("--parts", help="some of parse,silver,explore; by default parse, and silver with --wikitext")
    parser.add_argument("--cell", choices=(PARSE, SILVER, *VARIANTS), help="do this here and now, with the first seed")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--set", action="append", default=[], help="of every recipe, as `heedful train` has it")
    parser.add_argument("--jobs", type=int, default=1, help="cells that train side by side")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="of one cell")
    parser.add_argument("--runs", type=Path, default=Path("runs") / NAME, help="the folder of the run folders")
    parser.add_argument("--results", type=Path, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="a few trees and steps, on a CPU")
    options = parser.parse_args(given)
    if not options.tiny and options.results is None:
        options.results = RESULTS
    if options.parts is None:
        options.parts = PARSE if options.wikitext is None else f"{PARSE},{SILVER}"
    return parser, options


def stop(signal_number: int, _: object) -> NoReturn:
    """End by an exception, so that what was started is ended too."""
    sys.exit(128 + signal_number)


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate every cell that is not known yet, teachers first; return an exit code."""
    failed: dict[str, str] = {}

    def ready(task: Task, failure: str | None) -> None:
        print(f"{task.name}: {failure or 'ready'}", flush=True)
        if failure is not None:
            failed[task.name] = failure
        summarise(options, parts, seeds, failed)

    for part in parts:
        waiting = [cell for cell in cells_of(part, seeds, options) if cell.found() is None]
        threads = {"OMP_NUM_THREADS": "1"}
        run_side_by_side([cell.task() for cell in waiting], options.jobs, options.limit, ready, threads)
    summarise(options, parts, seeds, failed)
    return 1 if failed else 0


def main(given: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    parser, options = arguments(given)
    parts, seeds = options.parts.split(","), [int(seed) for seed in options.seeds.split(",")]
    unknown = next((part for part in parts if part not in (PARSE, SILVER, EXPLORE)), None)
    if unknown:
        parser.error(f"--parts: `{unknown}` is not one of {PARSE}, {SILVER}, {EXPLORE}")
    if SILVER in (*parts, options.cell) and options.wikitext is None:
        parser.error("--wikitext: say where WikiText-2 is, or leave out silver")
    try:
        if options.tiny and not options.cell:
            write_tiny_trees(options)
        if options.cell:
            Cell(options.cell, seeds[0], options).run()
            return 0
        signal.signal(signal.SIGTERM, stop)
        return run(options, parts, seeds)
    except HeedfulError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
