"""Words of the GUM corpus tagged by the recipes that ship with Heedful: parts of speech, and base noun phrases.

    python -m benchmarks.structure.tagging --data GUM (--texts FOLDER | --bert FOLDER) [--parts A,B] [--seeds 1,2,3]
                                          [--jobs 4]
    python -m benchmarks.structure.tagging --data GUM --tiny

GUM holds train.trees.gz, dev.trees.gz and test.trees.gz, one tree per line, of which
`benchmarks.structure.tree_columns` makes columns. Scores are those of the test sentences; the validation sentences
choose the checkpoint. Each part with each seed is trained and evaluated in a process of its own, `--jobs` of them side
by side.

speech       recipes/gum-pos.toml: from scratch
speech_bert  recipes/gum-pos-bert.toml: from the BERT in the folder --bert, or from one that is trained first by
             recipes/bert-english.toml on the files that it names
chunks       recipes/gum-chunks.toml: base noun phrases, with a CRF
cost         speed of training with a CRF divided by that without one, on parts of speech, by a Transformer encoder; one
             after the other with nothing beside them, whatever --jobs is

Records tagging.json: `accuracy`, `accuracy_bert`, `chunk_f1` (means over seeds) and `crf_cost`. The corpus withholds
the words of some sentences, one in sixteen, and has underscores in their place: figures with `_written` are those of
the other sentences. In `details` are the values of each seed, the baseline (each word's most frequent label) and the
speeds. --tiny takes a few sentences and steps on a
CPU, to see that it works, and records nothing.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

from benchmarks.shared import cells
from benchmarks.shared.detailed_results import Detailed, recorded, save
from benchmarks.structure.tree_columns import write_columns

from heedful.cli.verbs.evaluate import describe_training
from heedful.config.corpora.containers import Conll
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.tagged import read_tagged
from heedful.metrics.recorded_results import machine
from heedful.runs.training_run import train
from heedful.tasks.evaluate import evaluate

NAME: Final = "tagging"
SPLITS: Final = ("train", "dev", "test")
RECIPES: Final[Mapping[str, str]] = {"speech": "gum-pos", "speech_bert": "gum-pos-bert", "chunks": "gum-chunks"}
FIGURES: Final[Mapping[str, tuple[str, str]]] = {  # the figure of each part, and the score that it is
    "speech": ("accuracy", "accuracy"),
    "speech_bert": ("accuracy_bert", "accuracy"),
    "chunks": ("chunk_f1", "f1"),
}
WRITTEN: Final = "written"  # the test sentences whose words the corpus has
COST: Final = "cost"
PARTS: Final = (*RECIPES, COST)
BERT: Final = "bert-english"
ENCODER: Final = '{ family = "transformer", width = 256, heads = 4, layers = 4, inner = 1024 }'
SPEED: Final = (  # a recipe whose speed is measured
    f"model.encoder={ENCODER}", "data.batch_tokens=4096", "train.label_smoothing=0.0", "train.steps=600",
    "train.log_every=100", "train.validation.every=600",
)  # fmt: skip
TINY: Final = (
    "train.steps=3", "train.device=cpu", "train.precision=float32", "train.log_every=1", "train.validation.every=3",
    "train.checkpoint_every=3", "data.batch_tokens=512", "train.schedule.warmup=1",
)  # fmt: skip
TINY_PART: Final[Mapping[str, tuple[str, ...]]] = {
    "speech": ("model.encoder.width=8", "model.encoder.embedding=8"),
    "chunks": ("model.encoder.width=8", "model.encoder.embedding=8"),
    BERT: ("model.width=16", "model.heads=2", "model.layers=1", "model.inner=16"),
    COST: ('model.encoder={ family = "transformer", width = 16, heads = 2, layers = 1, inner = 16 }',),
}
TINY_SENTENCES: Final = 60


class Cell(cells.Cell):
    """A part with a seed."""

    program = f"structure.{NAME}"
    passed = ("data", "bert")

    def measure(self) -> dict[str, Any]:
        """Train and evaluate."""
        return {**(self._speeds() if self.part == COST else self._scores()), "machine": machine()}

    def _scores(self) -> dict[str, Any]:
        start = [f"train.start_from={self.options.bert}"] if self.part == "speech_bert" else []
        made = self._train(RECIPES[self.part], "run", start, TINY_PART.get(self.part, ()))
        scored, written = evaluate(made).values()
        scores = {score.name: score.value for score in scored.scores()}
        of_written = {f"{score.name}_written": score.value for score in written.scores()}
        return {**scores, **of_written, **describe_training(made)}

    def _speeds(self) -> dict[str, Any]:
        speeds = {}
        for crf in ("false", "true"):
            made = self._train("gum-pos", f"crf-{crf}", [*SPEED, f"model.crf={crf}"], TINY_PART[COST])
            speeds[crf] = describe_training(made)["tokens_s"]
        return {
            "crf_cost": speeds["true"] / speeds["false"],
            "tokens_s": speeds["false"],
            "tokens_s_crf": speeds["true"],
        }

    def _train(self, recipe: str, name: str, settings: Sequence[str], tiny: Sequence[str]) -> Path:
        given = [f"data.folder={columns_of(self.options)}", f"train.seed={self.seed}", *settings]
        label = 3 if self.part == "chunks" else 2
        tests = [f'{{ conll = "{name}.conll", label = {label}, name = "{name}" }}' for name in ("test", WRITTEN)]
        given.append(f"data.test=[{', '.join(tests)}]")
        small = [*TINY, *tiny] if self.options.tiny else []
        run = self.folder / name
        train(load_recipe(recipe, [*given, *small, *self.options.set]), run, resume=True)
        return run


def columns_of(options: argparse.Namespace) -> Path:
    """Return the folder of GUM's columns."""
    runs: Path = options.runs
    return runs / ("tiny" if options.tiny else "columns")


def write_all_columns(options: argparse.Namespace) -> None:
    """Write the columns of all trees; with --tiny of a few, which are training, validation and test data alike."""
    folder = columns_of(options)
    if not options.tiny:
        for split in SPLITS:
            write_columns(options.data / f"{split}.trees.gz", folder)
        return
    sentences = write_columns(options.data / "dev.trees.gz", folder).read_text(encoding="utf-8").split("\n\n")
    for split in SPLITS:
        (folder / f"{split}.conll").write_text("\n\n".join(sentences[:TINY_SENTENCES]), encoding="utf-8")


def write_written(columns: Path) -> None:
    """Write the test sentences whose words the corpus has: the others have underscores in their place."""
    sentences = (columns / "test.conll").read_text(encoding="utf-8").strip().split("\n\n")
    kept = [text for text in sentences if not any(set(row.split()[0]) == {"_"} for row in text.splitlines())]
    (columns / f"{WRITTEN}.conll").write_text("\n\n".join(kept) + "\n", encoding="utf-8")


def train_bert(options: argparse.Namespace) -> Path:
    """Train the BERT that one part starts from."""
    run: Path = options.runs / BERT
    small = [*TINY, *TINY_PART[BERT], "data.batch_tokens=2048"] if options.tiny else []
    train(load_recipe(BERT, [f"data.folder={options.texts}", *small, *options.set]), run, resume=True)
    return run


def baseline(folder: Path, label: int) -> float:
    """Return the accuracy of the label that each word has most often in training; unknown words get the commonest."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text in read_tagged(Conll(conll=str(folder / "train.conll"), label=label)):
        for word, said in zip(text.words, text.labels, strict=True):
            counts[word][said] += 1
            counts[""][said] += 1
    usual = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    tests = list(read_tagged(Conll(conll=str(folder / "test.conll"), label=label)))
    pairs = [pair for text in tests for pair in zip(text.words, text.labels, strict=True)]
    return mean(usual.get(word, usual[""]) == said for word, said in pairs)


# --- what is found ----------------------------------------------------------------------------------------------------


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the figures of a part, and its details."""
    if part == COST:
        return {"crf_cost": round(mean(one["crf_cost"] for one in found), 4)}, {part: [dict(one) for one in found]}
    figure, score = FIGURES[part]
    figures = cells.mean_over_seeds(figure, [one[score] for one in found])
    figures[f"{figure}_{WRITTEN}"] = round(mean(one[f"{score}_{WRITTEN}"] for one in found), 4)
    return figures, {part: [dict(one) for one in found]}


def summarise(
    options: argparse.Namespace, asked: Sequence[Cell], seeds: Sequence[int], failed: Mapping[str, str]
) -> dict[str, float]:
    """Record what is known of all parts; return the figures."""
    before = Detailed() if options.tiny else recorded(NAME, options.results)
    figures, details = dict(before.figures), dict(before.details)
    for part, found in cells.known_by_part(asked).items():
        new, more = figures_of(part, found)
        figures, details = {**figures, **new}, {**details, **more}
    details["baseline"] = {"accuracy": round(baseline(columns_of(options), label=2), 4)}
    if not options.tiny:
        save(NAME, Detailed(figures, details, dict(failed)), options.results, seeds)
    return figures


def seeds_of(part: str, seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds of a part; a speed is measured once."""
    return seeds[:1] if part == COST else seeds


# --- the program ------------------------------------------------------------------------------------------------------


def check(options: argparse.Namespace, parts: Sequence[str]) -> str | None:
    """Return what is wrong with the options for these parts."""
    if "speech_bert" in parts and options.bert is None and options.texts is None:
        return "--bert or --texts: say which BERT speech_bert starts from, or leave the part out of --parts"
    return None


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate every cell that is not known yet; return an exit code."""
    write_all_columns(options)
    write_written(columns_of(options))
    if "speech_bert" in parts and options.bert is None:
        options.bert = train_bert(options)
    failed: dict[str, str] = {}
    asked = [Cell(part, seed, options) for part in parts for seed in seeds_of(part, seeds)]
    for alone in (False, True):  # a speed is measured with nothing beside it
        options.jobs = 1 if alone else options.jobs
        some = [cell for cell in asked if (cell.part == COST) is alone]
        cells.measure_cells(some, options, failed, lambda: summarise(options, asked, seeds, failed))
    return cells.show(summarise(options, asked, seeds, failed), failed)


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, PARTS)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="GUM's trees")
    parser.add_argument("--bert", type=Path, metavar="FOLDER", help="a trained BERT, for speech_bert")
    parser.add_argument("--texts", type=Path, metavar="FOLDER", help="texts to train that BERT on")
    cells.run_program(parser, PARTS, Cell, run, check)
