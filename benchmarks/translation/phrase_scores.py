"""Scores of phrase pairs by a recurrent encoder and decoder, beside those of a phrase table.

    python -m benchmarks.translation.phrase_scores --data FOLDER [--parts A,B] [--seeds 1,2,3] [--jobs 3]
    python -m benchmarks.translation.phrase_scores --data FOLDER --tiny

--data is the folder of the files that recipes/multi30k-en-de-lc.toml names. Cho et al. 2014 score the phrase pairs of a
translation system by log P(target phrase | source phrase), and compare with the scores of its phrase table. The table
here is made from the training sentences (phrase_table.py); its score is the relative frequency of a target.

phrases      recipes/cho.toml, trained on the distinct pairs of the table, how often they occur aside, as in the paper
sentences    recipes/cho.toml as it is, trained on sentences
transformer  recipes/multi30k-en-de-lc.toml, trained on sentences

Records phrase_scores.json, means over seeds; a source phrase has two to four words:

true_over_random    share of the source phrases whose most frequent target has a greater log P than a random target
                    phrase of as many words; by chance 0.5
unseen_over_random  the same of phrase pairs of the validation sentences which the table does not have
agreement           share of the source phrases whose most frequent target is the one of the greatest log P
by_chance           the same for a random choice
spearman            mean over source phrases of the rank correlation of log P with frequency, over all targets of one

--tiny takes few steps and phrases on a CPU, to see that it works, and records nothing.
"""

import gzip
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

import numpy as np
from benchmarks.shared.cells import Cell, make_parser, mean_over_seeds
from benchmarks.translation.phrase_table import Pair, phrase_table
from benchmarks.translation.trained import PASSED, TRANSFORMER, run_parts, sentences, translator

from heedful.metrics.recorded_results import machine
from heedful.tasks.regress.numbers import NumberResult
from heedful.tasks.translate.model import Translator

NAME: Final = "phrase_scores"
PARTS: Final[Mapping[str, str]] = {"phrases": "cho", "sentences": "cho", "transformer": TRANSFORMER}
LEAST: Final = 10  # occurrences of a source phrase
TARGETS: Final = 4  # different targets that it has at least
SOURCES: Final = 1000  # source phrases that are scored
TINY_SENTENCES, TINY_SOURCES = 2000, 20
FIGURES: Final = ("true_over_random", "unseen_over_random", "agreement", "by_chance", "spearman")
Table = Mapping[str, Mapping[str, int]]  # targets of a source phrase, with their numbers


def by_source(table: Counter[Pair]) -> Table:
    """Return the targets of each source phrase of several words."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (source, target), count in table.items():
        if " " in source:
            found[source][target] = count
    return found


def log_p(model: Translator, pairs: Sequence[Pair]) -> list[float]:
    """Return log P of each target, given its source."""
    scored = model.score([source for source, _ in pairs], [target for _, target in pairs])
    return [one.log_probability for one in scored]


def over_random(model: Translator, pairs: Sequence[Pair], among: Sequence[str]) -> float:
    """Return the share of pairs that are more likely than their sources with another target of as many words."""
    draw, by_length = random.Random(0), defaultdict(list)
    for target in among:
        by_length[len(target.split())].append(target)
    others = []
    for source, target in pairs:
        alike = [other for other in by_length[len(target.split())] if other != target]
        others.append((source, draw.choice(alike)))
    return mean(true > other for true, other in zip(log_p(model, pairs), log_p(model, others), strict=True))


def compare(model: Translator, table: Table, unseen: Sequence[Pair]) -> dict[str, float]:
    """Return all figures of a model for source phrases with their targets, and for pairs that are not among them."""
    pairs = [(source, target) for source, targets in table.items() for target in targets]
    scores = dict(zip(pairs, log_p(model, pairs), strict=True))
    usual = {source: max(targets, key=targets.__getitem__) for source, targets in table.items()}
    among = sorted({target for _, target in pairs})
    correlations, agree = [], []
    for source, targets in table.items():
        own = np.array([scores[source, target] for target in targets])
        correlations.append(NumberResult(own, np.array([*targets.values()], np.float64), 0.0).spearman)
        agree.append(max(targets, key=lambda target: scores[source, target]) == usual[source])
    return {
        "true_over_random": over_random(model, [*usual.items()], among),
        "unseen_over_random": over_random(model, unseen, among),
        "agreement": mean(agree),
        "by_chance": mean(1 / len(targets) for targets in table.values()),
        "spearman": mean(correlations),
        "sources": len(table),
        "pairs": len(pairs),
        "unseen": len(unseen),
    }


def write_corpora(table: Counter[Pair], held_out: Sequence[Pair], folder: Path) -> None:
    """Write the distinct pairs of a table, and some to validate with, under the names that the recipe has."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in (("train", sorted(table)), ("val", sorted(held_out))):
        for language, side in (("en", 0), ("de", 1)):
            with gzip.open(folder / f"{split}.lc.norm.tok.{language}.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"{pair[side]}\n" for pair in pairs)


class Run(Cell):
    """The scores of a model with a seed."""

    program = f"translation.{NAME}"
    passed = PASSED

    def measure(self) -> dict[str, Any]:
        """Make the table, train where it is not done yet, and compare."""
        tiny, draw = self.options.tiny, random.Random(0)
        training, validation = (sentences(split, self.options.data) for split in ("train", "val"))
        table, others = phrase_table(training[:TINY_SENTENCES] if tiny else training, validation)
        unseen = sorted(pair for pair in others if pair not in table and " " in pair[0])
        own: list[str] = []
        if self.part == "phrases":
            folder = self.folder / "data"
            write_corpora(table, draw.sample(unseen, min(len(unseen), SOURCES)), folder)
            own = [f"data.folder={folder.resolve()}", "data.test=[]"]
        model = translator(PARTS[self.part], self.seed, self.options, *own)
        most = TINY_SOURCES if tiny else SOURCES
        enough = {
            source: targets
            for source, targets in sorted(by_source(table).items())
            if len(targets) >= TARGETS and sum(targets.values()) >= LEAST
        }
        chosen = draw.sample([*enough], min(len(enough), most))
        figures = compare(
            model, {source: enough[source] for source in chosen}, draw.sample(unseen, min(len(unseen), most))
        )
        return {**figures, "table": len(table), "machine": machine()}


def summarised(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the means of a part over seeds."""
    figures: dict[str, float] = {}
    for figure in FIGURES:
        figures |= mean_over_seeds(f"{part}_{figure}", [one[figure] for one in found])
    return {**figures, **{name: mean(one[name] for one in found) for name in ("sources", "pairs", "unseen", "table")}}


def main() -> None:
    """Run the program."""
    parser = make_parser(__doc__, NAME, list(PARTS))
    run_parts(parser, NAME, list(PARTS), Run, summarised)


if __name__ == "__main__":
    main()
