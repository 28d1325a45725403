"""Constituency trees of the GUM corpus by the recipes that ship with Heedful, from words alone.

    python -m benchmarks.structure.gum --data GUM [--seeds 1,2,3] [--jobs 3]
    python -m benchmarks.structure.gum --data GUM --wikitext FOLDER --parts parse,silver --jobs 3
    python -m benchmarks.structure.gum --data GUM --parts try_symbol,try_recurrent --seeds 1 --jobs 2
    python -m benchmarks.structure.gum --data GUM --wikitext FOLDER --parts parse,silver --tiny

GUM holds train.trees.gz, dev.trees.gz and test.trees.gz, one tree per line; FOLDER holds WikiText-2's
wiki.train.tokens.gz. Scores are those of the test trees; the validation trees choose the checkpoint. Each part with
each seed is trained and evaluated in a process of its own, `--jobs` of them side by side; what is ready is not trained
again.

parse     recipes/gum-parse.toml: from scratch; with the constraint of trees, and without it
silver    recipes/gum-parse-silver.toml: the parser of the first seed finds trees of sentences of WikiText-2, on which
          new parsers are trained with the gold trees
try_...   other settings than the recipe's, scored on the validation trees; only on request

Records gum.json: `f1`, `f1_unconstrained`, `f1_silver` (means over seeds), with their deviations (`_sd`);
`f1_ensemble` of the parsers of all seeds together; as `well_formed` the lowest share of trees over exactly the words of
their sentences, of all seeds and of beams of 1, 4 and 21, on the test sentences, an empty one, one of one word and one
of 200 words. The corpus withholds the words of some sentences, one in sixteen, and has underscores in their place:
`f1_written` is that of the other sentences. In `details` is each seed. --tiny takes a few trees and steps on a CPU, to
see that it works, and records nothing.
"""

import argparse
import gzip
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any, Final, Literal

from benchmarks.shared import cells
from benchmarks.shared.detailed_results import Detailed, recorded, save

from heedful.base.trees import Tree
from heedful.cli.verbs.evaluate import describe_training
from heedful.config.corpora.containers import PlainText, Trees
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.documents import read_documents
from heedful.data.corpora.trees import read_trees
from heedful.data.text_form import TextForm
from heedful.metrics.recorded_results import machine
from heedful.runs.training_run import train
from heedful.tasks.evaluate import evaluate
from heedful.tasks.parse.model import Parser

NAME: Final = "gum"
BEAMS: Final = (1, 4, 21)
LONG: Final = 200  # words of the longest input
MOST_SILVER: Final = 40_000  # sentences
SILVER_WORDS: Final = range(4, 41)
SPLITS: Final = ("train", "valid", "test")
PARSE: Final = "parse"
SILVER: Final = "silver"
TRIED: Final[Mapping[str, tuple[str, ...]]] = {  # what is set otherwise than in recipes/gum-parse.toml
    "try_uncounted": ("model.word_positions=false",),
    "try_rope": ("model.positions=rope",),
    "try_heavier": ("model.dropout=0.35", "model.dropout_words=0.2"),
    "try_deep": ("model.layers=6",),
    "try_symbol": tuple(f"data.{split}.leaves=symbol" for split in SPLITS),
    "try_word": (*(f"data.{split}.leaves=word" for split in SPLITS), "tokenizer.target.size=20000"),
    "try_relative": ("model.positions=relative",),
    "try_narrow": ("model.width=192", "model.inner=512"),
    "try_wide": ("model.width=384", "model.heads=6", "model.inner=1536", "model.dropout=0.35"),
    "try_lighter": ("model.dropout=0.15",),
    "try_pieces": ("tokenizer.size=6000",),
    "try_longer": ("train.steps=16000",),
    "try_mixed": (
        'model={ family = "mixed", encoder = { family = "transformer", width = 256, heads = 4, layers = 4, '
        'inner = 1024, norm = "pre", dropout = 0.3 }, '
        'decoder = { family = "recurrent", cell = "lstm", width = 256, layers = 1 } }',
    ),
    "try_recurrent": (
        'model={ family = "recurrent", wiring = "luong", cell = "lstm", width = 256, layers = 2, dropout = 0.4 }',
    ),
}
PARTS: Final = (PARSE, SILVER, *TRIED)
TINY: Final = (
    "train.steps=3", "train.device=cpu", "train.precision=float32", "train.log_every=1", "train.validation.every=3",
    "train.checkpoint_every=3", "data.batch_tokens=512", "train.schedule.warmup=1", "train.threads=1",
    "train.validation.max_sentences=5", "decode.beam=2", "decode.max_extra=40",
)  # fmt: skip
TINY_MODEL: Final = ("model.width=16", "model.heads=2", "model.layers=1", "model.inner=16")
TINY_TREES: Final = 20
TINY_SILVER: Final = 20


class Cell(cells.Cell):
    """A part with a seed."""

    program = f"structure.{NAME}"

    def measure(self) -> dict[str, Any]:
        """Train and evaluate."""
        if self.part == PARSE:
            return {**self._parse(), "machine": machine()}
        if self.part == SILVER:
            silver = silver_file(self.options).absolute()
            made = self._train("gum-parse-silver", [f"data.train.1.trees={silver}"])
            return {**self._scored(made), "silver_trees": len(silver.read_text().splitlines()), "machine": machine()}
        return {**self._scored(self._train("gum-parse", TRIED[self.part]), "valid"), "machine": machine()}

    def _parse(self) -> dict[str, Any]:
        made = self.train_parser()
        (loose,) = evaluate(made, unconstrained=True).values()
        unconstrained = {f"{score.name}_unconstrained": score.value for score in loose.scores()}
        parser = Parser.load(made)
        return {**self._scored(made), **unconstrained, **written_f1(parser), "well_formed_at": well_formed(parser)}

    def train_parser(self) -> Path:
        """Train a parser from gold trees alone, and return its folder."""
        return self._train("gum-parse", [])

    def _scored(self, made: Path, split: Literal["valid", "test"] = "test") -> dict[str, Any]:
        (scored,) = evaluate(made, split=split).values()
        return {**{score.name: score.value for score in scored.scores()}, **describe_training(made)}

    def _train(self, recipe: str, settings: Sequence[str]) -> Path:
        given = [f"data.folder={trees_folder(self.options).absolute()}", f"train.seed={self.seed}", *settings]
        small = (
            [*TINY, *(() if self.part in ("try_mixed", "try_recurrent") else TINY_MODEL)] if self.options.tiny else []
        )
        train(load_recipe(recipe, [*given, *small, *self.options.set]), self.run_folder, resume=True)
        return self.run_folder

    @property
    def run_folder(self) -> Path:
        """The folder of the trained parser."""
        return self.folder / "run"


# --- inputs -----------------------------------------------------------------------------------------------------------


def trees_folder(options: argparse.Namespace) -> Path:
    """Return the folder of the trees; with --tiny that of a few, which are training, validation and test data alike."""
    folder: Path = options.runs / "tiny" if options.tiny else options.data
    return folder


def silver_file(options: argparse.Namespace) -> Path:
    """Return the file of silver trees."""
    runs: Path = options.runs
    return runs / ("silver-tiny.trees" if options.tiny else "silver.trees")


def write_tiny_trees(options: argparse.Namespace) -> None:
    """Write a few short trees under the names of all files."""
    folder = trees_folder(options)
    folder.mkdir(parents=True, exist_ok=True)
    trees = (tree for tree in read_trees(Trees(trees=str(options.data / "dev.trees.gz"))) if tree is not None)
    short = islice((tree for tree in trees if len(tree.words) < 15), TINY_TREES)
    text = "".join(f"{tree}\n" for tree in short)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.trees.gz").write_bytes(gzip.compress(text.encode()))


def test_trees(parser: Parser) -> list[Tree]:
    """Return the trees that a parser is tested on."""
    (corpus,) = parser.recipe.data.test
    assert isinstance(corpus, Trees)
    return [tree for tree in read_trees(corpus, parser.recipe.data.folder) if tree is not None]


def written_f1(parser: Parser) -> dict[str, float]:
    """Return the F1 on the test sentences whose words the corpus has: the others have underscores in their place."""
    written = [tree for tree in test_trees(parser) if not any(set(word) == {"_"} for word in tree.words)]
    (f1,) = (score.value for score in parser.evaluate_rows(written, name="written").scores() if score.name == "f1")
    return {"f1_written": f1}


def well_formed(parser: Parser) -> dict[str, float]:
    """Return the share of trees over exactly the words of their sentences, by beam size."""
    trees = test_trees(parser)
    words = [word for tree in trees for word in tree.words]
    long = (words * (LONG // len(words) + 1))[:LONG]
    sentences = [[*tree.words] for tree in trees] + [[], [words[0]], long]
    shares = {}
    for beam in BEAMS:
        found = parser.parse([" ".join(sentence) for sentence in sentences], beam=beam)
        shares[str(beam)] = mean(
            [*tree.words] == sentence if tree is not None else not sentence
            for tree, sentence in zip(found, sentences, strict=True)
        )
    return shares


def wikitext_sentences(folder: Path) -> Iterator[str]:
    """Yield the sentences of WikiText-2 whose words are all known, in the form of GUM's words."""
    corpus = PlainText(text="wiki.train.tokens.gz", documents="heading")
    for document in read_documents(corpus, str(folder), TextForm()):
        for sentence in document:
            text = sentence.replace(" @-@ ", " - ").replace(" @,@ ", ",").replace(" @.@ ", ".")
            if "<unk>" not in text and len(text.split()) in SILVER_WORDS:
                yield text


def write_silver(options: argparse.Namespace, teacher: Cell) -> None:
    """Write the trees that a parser finds for sentences of WikiText-2, greedily; the parser is trained where needed."""
    path = silver_file(options)
    if path.exists():
        return
    if teacher.found() is None:
        teacher.train_parser()
    most = TINY_SILVER if options.tiny else MOST_SILVER
    sentences = list(islice(wikitext_sentences(options.wikitext), most))
    found = Parser.load(teacher.run_folder).parse(sentences, beam=1)
    path.write_text("".join(f"{tree}\n" for tree in found if tree is not None), encoding="utf-8")


def ensemble_f1(teachers: Sequence[Cell]) -> float | None:
    """Return the F1 of the parsers of all seeds together on the test trees; None before two of them are ready."""
    folders = [cell.run_folder for cell in teachers if cell.found() is not None]
    if len(folders) < 2:
        return None
    parser = Parser.load(folders[0], ensemble=folders[1:])
    (scored,) = evaluate(parser).values()
    return next(score.value for score in scored.scores() if score.name == "f1")


# --- what is found ----------------------------------------------------------------------------------------------------


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figures of a part."""
    kinds = ("f1", "f1_unconstrained", "f1_written")
    names = {kind: kind for kind in kinds} if part == PARSE else {f"f1_{part}": "f1"}
    figures: dict[str, float] = {}
    for figure, score in names.items():
        figures |= cells.mean_over_seeds(figure, [100 * one[score] for one in found], digits=3)
    if part == PARSE:
        figures["well_formed"] = min(share for one in found for share in one["well_formed_at"].values())
    return figures


def summarise(
    options: argparse.Namespace,
    asked: Sequence[Cell],
    seeds: Sequence[int],
    failed: Mapping[str, str],
    extra: Mapping[str, float],
) -> dict[str, float]:
    """Record what is known of all parts, except of those that are tried; return the figures."""
    before = Detailed() if options.tiny else recorded(NAME, options.results)
    figures, details = dict(before.figures), dict(before.details)
    tried: dict[str, float] = {}
    for part, found in cells.known_by_part(asked).items():
        new = figures_of(part, found)
        if part in TRIED:
            tried |= new
        else:
            figures, details = {**figures, **new}, {**details, part: found}
    figures |= extra
    if details and not options.tiny:
        save(NAME, Detailed(figures, details, dict(failed)), options.results, seeds)
    return {**figures, **tried}


# --- the program ------------------------------------------------------------------------------------------------------


def check(options: argparse.Namespace, parts: Sequence[str]) -> str | None:
    """Return what is wrong with the options for these parts."""
    if SILVER in parts and options.wikitext is None and options.cell is None:
        return "--wikitext: say where WikiText-2 is, or leave silver out of --parts"
    return None


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate every cell that is not known yet, teachers first; return an exit code."""
    if options.tiny:
        write_tiny_trees(options)
    failed: dict[str, str] = {}
    extra: dict[str, float] = {}
    asked = [Cell(part, seed, options) for part in parts for seed in seeds]
    first = [cell for cell in asked if cell.part != SILVER]
    cells.measure_cells(first, options, failed, lambda: summarise(options, asked, seeds, failed, extra))
    teachers = [Cell(PARSE, seed, options) for seed in seeds]
    if SILVER in parts:
        write_silver(options, teachers[0])
        rest = [cell for cell in asked if cell.part == SILVER]
        cells.measure_cells(rest, options, failed, lambda: summarise(options, asked, seeds, failed, extra))
    if PARSE in parts and (together := ensemble_f1(teachers)) is not None:
        extra["f1_ensemble"] = round(100 * together, 3)
    return cells.show(summarise(options, asked, seeds, failed, extra), failed)


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, PARTS)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="GUM's trees")
    parser.add_argument("--wikitext", type=Path, metavar="FOLDER", help="WikiText-2, for silver trees")
    parser.set_defaults(parts=PARSE)
    cells.run_program(parser, PARTS, Cell, run, check)
