"""The recipe that names nothing but its files and its family, for every task on small data.

    python -m benchmarks.texts.first_use --data DATA --prepare FILES            writes the small files, with three seeds
    python -m benchmarks.texts.first_use --files FILES [--parts tags,trees] [--seeds 1,2,3] [--draws 12] [--jobs 12]
    python -m benchmarks.texts.first_use --files FILES --seeds 1 --draws 0 --minutes      on two quiet cores
    python -m benchmarks.texts.first_use --files FILES --tiny

DATA holds the folders imdb, tatoeba, cmudict, gum, mnist and wikitext2. A seed draws the training rows, and is that of
training; validation rows are always the same. `line` is the line to beat that training reports next to validations.
`tuned` is the best of 12 draws from the spaces of `first_use_parts`, with the training rows of seed 1.

Records first_use.json: `tasks`; `worst_ratio`, the least ratio of a default's mean score to its line (inverse where
lower scores are better); `worst_ratio_tuned`, the least ratio of the default's score to that of the best draw, both
with seed 1; `worst_minutes`, of a training on two cores (--minutes). All scores are on validation rows; `details` has
every one.
"""

import argparse
import gzip
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, Final

from benchmarks.shared import cells
from benchmarks.shared.detailed_results import Detailed, recorded, save
from benchmarks.structure.cmudict import read_entries
from benchmarks.structure.tree_columns import rows_of
from benchmarks.texts.defaults import pairs, reviews
from benchmarks.texts.first_use_parts import PARTS, Part, Recipe

import heedful
from heedful.base.trees import read_tree
from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.toml import shown
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.lab.study.side_by_side import Task
from heedful.metrics.recorded_results import machine
from heedful.metrics.rows import TEXT_METRICS

NAME: Final = "first_use"
DEFAULT: Final = "default"
DRAWS: Final = 12
MEGABYTE: Final = 1_000_000


def draw(part: str, number: int) -> Recipe:
    """Return the settings of a draw: a value for each key of the part's space."""
    chooser = random.Random(f"{part} {number}")
    drawn = {key: chooser.choice(values) for key, values in PARTS[part].space.items()}
    metric = PARTS[part].validated or PARTS[part].metric
    return {**drawn, "train.validation.metric": metric, "train.validation.every": drawn["train.steps"] // 10}


# --- cells ------------------------------------------------------------------------------------------------------------


class Cell(cells.Cell):
    """The default recipe of a part or a draw, with a seed."""

    program = f"texts.{NAME}"
    passed = ("files", "recipe", "minutes")

    @property
    def folder(self) -> Path:
        return super().folder / f"{self.options.recipe}{'-minutes' if self.options.minutes else ''}"

    def task(self) -> Task:
        made = super().task()
        command = [word for word in made.command if word not in ("--minutes", "False", "True")]
        given = [*command, "--minutes"] if self.options.minutes else command
        return replace(made, name=f"{self.part}, seed {self.seed}, {self.options.recipe}", command=given)

    def measure(self) -> dict[str, Any]:
        """Train it, and score its best model on the validation rows."""
        part, chosen = PARTS[self.part], self.options.recipe
        settings = {} if chosen == DEFAULT else draw(self.part, int(chosen.removeprefix("draw")))
        table = part.recipe(self.seed)
        settings |= {"train.seed": self.seed, "data.folder": str(self.options.files.absolute())}
        if self.options.minutes or self.options.tiny:
            settings["train.device"] = "cpu"
        if self.options.tiny:
            settings |= {"train.steps": 3, "train.precision": "float32"}
            settings.pop("train.epochs", None)
        given = [f"{key}={shown(value)}" for key, value in settings.items()] + self.options.set
        run = heedful.train(table, self.folder / "run", given, quiet=True)
        metrics = [part.metric] if part.metric in TEXT_METRICS else None
        evaluated = heedful.evaluate(run.model, split="valid", metrics=metrics)
        (found,) = evaluated.values()
        scores = {score.name: float(score.value) for score in found.scores()}
        named = [key for entry in run.validations for key in entry if key.startswith("baseline_")]
        metric = named[0].removeprefix("baseline_") if named else ""
        own = [entry[metric] for entry in run.validations if metric in entry]
        lower = run.recipe.rules.metrics.get(metric) == "lower"
        known = {
            "score": scores[part.metric],
            "scores": scores,
            "line": {"metric": metric, "lower": lower, "value": run.validations[-1][named[0]]} if named else None,
            "validated": (min if lower else max)(own, default=None),
            "steps_planned": run.recipe.train.steps,
            **describe_training(self.folder / "run"),
            "machine": machine(),
        }
        if not self.options.keep:
            shutil.rmtree(self.folder / "run")
        return known


def better(lower: bool, one: float, other: float) -> float:
    """Return by how much one score is better than another, as a ratio; above 1 it is better."""
    return other / max(one, 1e-9) if lower else one / max(other, 1e-9)


def summarise(
    options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int], failed: dict[str, str]
) -> dict[str, float]:
    """Return the figures of all parts that are known, and record them."""
    before = Detailed() if options.tiny else recorded(NAME, options.results)
    details = dict(before.details)
    for name in parts:
        details[name] = _ratios(PARTS[name], {**details.get(name, {}), **_known(name, options, seeds)})
    figures: dict[str, float] = {"tasks": len(details)}
    for figure, worst in (("ratio", min), ("ratio_tuned", min), ("minutes", max)):
        values = {part: found[figure] for part, found in details.items() if found.get(figure) is not None}
        figures |= {f"{figure}_{part}": round(value, 4) for part, value in values.items()}
        if values:
            figures[f"worst_{figure}"] = round(worst(values.values()), 4)
    if not options.tiny:
        save(NAME, Detailed(figures, details, dict(failed)), options.results, seeds)
    return figures


def _known(name: str, options: argparse.Namespace, seeds: Sequence[int]) -> dict[str, Any]:
    """Return what the cells of a part know that are ready."""
    if options.minutes:
        timed = Cell(name, seeds[0], by_recipe(options, DEFAULT)).found()
        return {} if timed is None else {"minutes": timed["minutes"], "minutes_machine": timed["machine"]}
    by_default = [(seed, Cell(name, seed, by_recipe(options, DEFAULT)).found()) for seed in seeds]
    found = [{"seed": seed, **one} for seed, one in by_default if one is not None]
    drawn = [(variant, Cell(name, seeds[0], by_recipe(options, variant)).found()) for variant in draws(options)]
    tuned = {variant: one["score"] for variant, one in drawn if one is not None}
    return {**({"default": found} if found else {}), **({"tuned": tuned} if tuned else {})}


def _ratios(part: Part, known: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a part with its ratios."""
    found, tuned = known.get("default", []), known.get("tuned", {})
    if found and all(one["line"] is not None for one in found):
        lower = found[0]["line"]["lower"]
        line = mean(one["line"]["value"] for one in found)
        known["ratio"] = better(lower, mean(one["validated"] for one in found), line)
    if found and tuned:
        best = (min if part.lower else max)(tuned, key=lambda variant: float(tuned[variant]))
        known |= {"best": best, "ratio_tuned": better(part.lower, found[0]["score"], tuned[best])}
    return known


def draws(options: argparse.Namespace) -> list[str]:
    """Return the names of the draws."""
    return [f"draw{number}" for number in range(1, options.draws + 1)]


def by_recipe(options: argparse.Namespace, recipe: str) -> argparse.Namespace:
    """Return the options with another recipe."""
    return argparse.Namespace(**{**vars(options), "recipe": recipe})


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Measure every cell that is not known yet; return an exit code."""
    asked = [
        Cell(part, seed, by_recipe(options, DEFAULT)) for seed in seeds for part in parts if not options.only_draws
    ]
    asked += [Cell(part, seeds[0], by_recipe(options, name)) for name in draws(options) for part in parts]
    failed: dict[str, str] = {}
    cells.measure_cells(asked, options, failed, lambda: summarise(options, parts, seeds, failed))
    return cells.show(summarise(options, parts, seeds, failed), failed)


# --- files ------------------------------------------------------------------------------------------------------------


def prepare(data: Path, out: Path, seeds: Sequence[int]) -> None:
    """Write the small files of all parts."""
    out.mkdir(parents=True, exist_ok=True)

    def write(name: str, lines: Iterator[str] | Sequence[str]) -> None:
        (out / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def drawn(rows: Sequence[str], seed: int, count: int) -> list[str]:
        return random.Random(seed).sample(rows, count)

    entries = [*read_entries(read_lines(locate("cmudict.dict", str(data / "cmudict"))), "cmudict.dict")]
    words = [f"{word}\t{phonemes}" for word, phonemes in dict(entries).items() if word.isalpha()]
    random.Random(0).shuffle(words)
    trees = {
        split: [line for line in read_lines(locate(f"{split}.trees.gz", str(data / "gum"))) if line.strip()]
        for split in ("train", "dev")
    }
    running = {
        split: "\n".join(read_lines(locate(f"wiki.{split}.tokens.gz", str(data / "wikitext2"))))
        for split in ("train", "valid")
    }
    tagged = drawn(trees["dev"], 0, 400)
    write("tags-valid.conll", _columns(tagged))
    for seed in seeds:
        for name, column, count in (("texts", 0, 500), ("numbers", 1, 2000)):
            train, test = reviews(data, seed, count, 1000, column)
            write(f"{name}-{seed}.tsv", ["\t".join(row) for row in train])
            write(f"{name}-valid.tsv", ["\t".join(row) for row in test])
        train, valid, _ = pairs(data, seed, 3000, 500)
        write(f"pairs-{seed}.tsv", ["\t".join(row) for row in train])
        write("pairs-valid.tsv", ["\t".join(row) for row in valid])
        write(f"phonemes-{seed}.tsv", drawn(words[1000:], seed, 3000))
        write(f"trees-{seed}.trees", drawn(trees["train"], seed, 800))
        write(f"tags-{seed}.conll", _columns(_with_labels(trees["train"], seed, tagged)))
        start = running["train"].index("\n", 3 * MEGABYTE * (seed - 1)) + 1
        write(f"language-{seed}.txt", running["train"][start : start + MEGABYTE].split("\n"))
    write("phonemes-valid.tsv", words[:1000])
    write("trees-valid.trees", drawn(trees["dev"], 0, 300))
    write("language-valid.txt", running["valid"][: MEGABYTE // 4].split("\n"))
    for name, kept, header in (("images-idx3", 1900 * 784, 16), ("labels-idx1", 1900, 8)):
        packed = data / "mnist" / f"train-{name}-ubyte.gz"
        content = bytearray(gzip.decompress(packed.read_bytes())[: header + kept])
        content[4:8] = (1900).to_bytes(4, "big")
        (out / f"digits-{name.split('-')[0]}.gz").write_bytes(gzip.compress(bytes(content)))


def _with_labels(trees: Sequence[str], seed: int, valid: Sequence[str]) -> list[str]:
    """Return 600 trees that a seed draws, again until they have all labels of the validation trees."""
    chooser = random.Random(seed)
    while True:
        chosen = chooser.sample(trees, 600)
        if _labels(valid) <= _labels(chosen):
            return chosen


def _labels(trees: Sequence[str]) -> set[str]:
    return {line.split("\t")[-1] for line in _columns(trees)}


def _columns(trees: Sequence[str]) -> Iterator[str]:
    for number, tree in enumerate(trees, start=1):
        for word, tag, _ in rows_of(read_tree(tree, f"tree {number}")):
            yield f"{word}\t{tag}"
        yield ""


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, tuple(PARTS))
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with --prepare: the folder of the whole sets")
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="write the small files into this folder")
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="the folder that --prepare wrote")
    parser.add_argument("--draws", type=int, default=DRAWS, help="settings drawn from the search space of each part")
    parser.add_argument("--only-draws", action="store_true", help="leave the defaults out")
    parser.add_argument("--minutes", action="store_true", help="train on a CPU, and record how long that takes")
    parser.add_argument("--recipe", default=DEFAULT, help="with --cell: the default recipe, or a draw such as draw3")
    parser.add_argument("--keep", action="store_true", help="keep the folders of runs")

    def check(options: argparse.Namespace, parts: Sequence[str]) -> str | None:
        if options.prepare:
            if options.data is None:
                return "--prepare needs --data"
            prepare(options.data, options.prepare, [int(seed) for seed in options.seeds.split(",")])
            parser.exit()
        return None if options.files else "--files is missing"

    cells.run_program(parser, tuple(PARTS), Cell, run, check)
