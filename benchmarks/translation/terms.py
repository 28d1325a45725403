"""Fixed translations of terms: whether they appear, and what they do to everything else.

    python -m benchmarks.translation.terms --data FOLDER [--model FOLDER] [--parts A,B] [--seeds 1,2,3] [--jobs 3]
    python -m benchmarks.translation.terms --data FOLDER --tiny

--data is the folder of the files that recipes/multi30k-en-de-lc.toml names. The recipe is trained first with each seed,
unless a model is given. The terms are pairs of words from validation sentences and their references, where the model's
own translation lacks the reference's word. Words are paired by Dice's coefficient over the training sentences, if each
is the best of its sentence for the other; of all that are found, those come first whose source word is rarest in the
validation sentences. Then all validation sentences are translated with this list of terms, and without.

terms  what appears, and BLEU; each seed in a process of its own, `--jobs` of them side by side
time   how long it takes, with the model of the first seed and nothing beside it

Records terms.json, means over seeds:

terms               pairs of the list; `occurrences` in the sources
appear              share of the terms in the sources whose translation appears; `appear_plain` without the list
same_without_terms  share of the sentences without terms whose translation is byte-identical
bleu_others         BLEU of the sentences without terms; `bleu_others_plain` without the list
bleu_rest           BLEU of the sentences that the pairs are from, without the pairs' target words on both sides;
                    `bleu_rest_plain` without the list, and `bleu_rest_difference`
bleu_terms          BLEU of the same sentences with all words; `bleu_terms_plain` without the list
bleu_all            BLEU of all sentences; `bleu_all_plain` without the list
time_ratio          time to translate the sentences with terms, divided by that without the list

--tiny takes few steps and sentences on a CPU, to see that it works, and records nothing.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from benchmarks.shared.cells import Cell, known_by_part, make_parser, measure_cells, run_program, show
from benchmarks.shared.detailed_results import Detailed, recorded, save

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.pairs import read_pairs
from heedful.decode.constraints.words.spelling import occurs
from heedful.metrics.recorded_results import machine
from heedful.metrics.translation import bleu
from heedful.runs.training_run import train
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.word_rules import Terms

NAME: Final = "terms"
PARTS: Final = ("terms", "time")
RECIPE: Final = "multi30k-en-de-lc"
FILES: Final = {split: AlignedFiles(source=f"{split}.lc.norm.tok.en.gz", target=f"{split}.lc.norm.tok.de.gz")
                for split in ("train", "val")}  # fmt: skip
PAIRS: Final = 200
SHORTEST: Final = 3  # letters of a word
LEAST: Final = 0.1  # of Dice's coefficient
TIMES: Final = 3  # measurements of time, after one that does not count
TINY: Final = (
    "train.steps=20", "train.device=cpu", "train.precision=float32", "train.log_every=5", "train.validation.every=20",
    "train.checkpoint_every=20", "data.batch_tokens=1024", "train.schedule.warmup=5", "model.width=32", "model.heads=2",
    "model.layers=1", "model.inner=32", "tokenizer.size=1000", "train.average.last=1",
)  # fmt: skip
TINY_SENTENCES: Final = 60
Pair = tuple[str, str]


@dataclass(frozen=True)
class Chosen:
    """A term and the sentence that it is from."""

    sentence: int
    source: str
    target: str


def dice(pairs: Sequence[Pair]) -> Callable[[str, str], float]:
    """Return Dice's coefficient of a source word and a target word, by the sentences that have them."""
    sources, targets, both = Counter[str](), Counter[str](), Counter[Pair]()
    for source, target in pairs:
        ours, theirs = set(source.split()), set(target.split())
        sources.update(ours)
        targets.update(theirs)
        both.update((one, other) for one in ours for other in theirs)
    return lambda one, other: 2 * both[one, other] / max(1, sources[one] + targets[other])


def choose_terms(pairs: Sequence[Pair], plain: Sequence[str], likeness: Callable[[str, str], float]) -> list[Chosen]:
    """Return pairs of words, one per sentence at most, whose target word the model's translation lacks."""
    found: list[tuple[int, int, Chosen]] = []
    counts = Counter(word for source, _ in pairs for word in set(source.split()))
    for sentence, ((source, target), translated) in enumerate(zip(pairs, plain, strict=True)):
        ours, theirs = (sorted({word for word in text.split() if is_term(word)}) for text in (source, target))
        best: list[tuple[float, str, str]] = []
        for other in theirs:
            if occurs(translated, other) or not ours:
                continue
            one = max(ours, key=lambda word: likeness(word, other))
            mutual = max(theirs, key=lambda word: likeness(one, word)) == other
            if mutual and likeness(one, other) >= LEAST:
                best.append((likeness(one, other), one, other))
        if best:
            _, one, other = max(best)
            found.append((counts[one], sentence, Chosen(sentence, one, other)))
    chosen: dict[str, Chosen] = {}
    for _, _, pair in sorted(found, key=lambda item: item[:2]):
        if len(chosen) < PAIRS:
            chosen.setdefault(pair.source, pair)
    return list(chosen.values())


def is_term(word: str) -> bool:
    """Whether a word may be a term."""
    return len(word) >= SHORTEST and word.isalpha()


@dataclass(frozen=True)
class Work:
    """A model, the sentences to translate, and the terms of its own."""

    model: Translator
    pairs: Sequence[Pair]
    plain: Sequence[str]
    chosen: Sequence[Chosen]

    @classmethod
    def of(cls, model: Translator, training: Sequence[Pair], pairs: Sequence[Pair]) -> "Work":
        """Translate without terms, and choose them by what is lacking."""
        plain = model.translate([source for source, _ in pairs])
        return cls(model, pairs, plain, choose_terms(pairs, plain, dice(training)))

    @property
    def terms(self) -> dict[str, str]:
        """The list of terms."""
        return {pair.source: pair.target for pair in self.chosen}

    @property
    def needed(self) -> list[list[str]]:
        """The words that each translation must contain."""
        terms = Terms(self.terms, str)
        return [terms.find(source) for source, _ in self.pairs]

    def scores(self) -> dict[str, Any]:
        """Translate with the terms, and compare."""
        outputs = self.model.translate([source for source, _ in self.pairs], terms=self.terms)
        bound = {number: words for number, words in enumerate(self.needed) if words}
        free = [number for number in range(len(self.pairs)) if number not in bound]
        asked = [(number, word) for number, words in bound.items() for word in words]
        origins = {pair.sentence: pair.target for pair in self.chosen}
        figures = {
            "terms": len(self.terms),
            "sentences_with_terms": len(bound),
            "occurrences": len(asked),
            "appear": share([occurs(outputs[number], word) for number, word in asked]),
            "appear_plain": share([occurs(self.plain[number], word) for number, word in asked]),
            "same_without_terms": share([outputs[number] == self.plain[number] for number in free]),
        }
        for name, numbers, left_out in (
            ("others", free, {}),
            ("rest", sorted(origins), origins),
            ("terms", sorted(origins), {}),
            ("all", range(len(self.pairs)), {}),
        ):
            ours, without_terms = (self._bleu(texts, numbers, left_out) for texts in (outputs, self.plain))
            figures |= {f"bleu_{name}": ours, f"bleu_{name}_plain": without_terms}
            figures[f"bleu_{name}_difference"] = ours - without_terms
        return {**figures, "pairs": [[pair.sentence, pair.source, pair.target] for pair in self.chosen]}

    def times(self) -> dict[str, float]:
        """Measure how long the sentences with terms take, with the list and without."""
        sources = [source for (source, _), words in zip(self.pairs, self.needed, strict=True) if words]
        with_terms = seconds(lambda: self.model.translate(sources, terms=self.terms))
        plain = seconds(lambda: self.model.translate(sources))
        return {"time_ratio": with_terms / plain, "seconds": with_terms, "seconds_plain": plain}

    def _bleu(self, outputs: Sequence[str], numbers: Sequence[int], left_out: Mapping[int, str]) -> float:
        """Return the BLEU of some sentences without some words."""
        ours = [without(outputs[number], left_out.get(number)) for number in numbers]
        references = [without(self.pairs[number][1], left_out.get(number)) for number in numbers]
        return bleu(ours, references, "none", lowercase=True).score if numbers else 0.0


def without(text: str, word: str | None) -> str:
    """Return a text without a word."""
    return " ".join(other for other in text.split() if other != word)


def share(facts: Sequence[bool]) -> float:
    """Return the share of what is true; 1 of nothing."""
    return mean(facts) if facts else 1.0


def seconds(work: Callable[[], object]) -> float:
    """Return the median time of some work, after it was done once."""
    times = []
    work()
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)


# --- the program ------------------------------------------------------------------------------------------------------


class Run(Cell):
    """A part with a seed."""

    program = f"translation.{NAME}"
    passed = ("data", "model")

    @property
    def settings(self) -> list[str]:
        """What is set otherwise than in the recipe."""
        return [*(TINY if self.options.tiny else ()), *self.options.set, f"train.seed={self.seed}"]

    def measure(self) -> dict[str, Any]:
        """Train the model of the seed where it is not there yet, and translate."""
        run = self.folder.with_name(f"run{self.folder.name.removeprefix(self.part)}")
        if self.options.model is None:
            train(load_recipe(RECIPE, [*self.settings, f"data.folder={self.options.data}"]), run, resume=True)
        training, pairs = (list(read_pairs(FILES[split], str(self.options.data))) for split in FILES)
        model = Translator.load(self.options.model or run)
        work = Work.of(model, training, pairs[: TINY_SENTENCES if self.options.tiny else None])
        return {**(work.times() if self.part == "time" else work.scores()), "machine": machine()}


def summarise(cells: Sequence[Cell], options: argparse.Namespace, failed: Mapping[str, str]) -> dict[str, float]:
    """Return the means over seeds, and record them."""
    known = known_by_part(cells)
    figures: dict[str, float] = {}
    for found in known.values():
        names = [name for name, value in found[0].items() if isinstance(value, int | float) and name != "seed"]
        figures |= {name: round(mean(one[name] for one in found), 4) for name in names}
    if not options.tiny and known:
        before = recorded(NAME, options.results)
        everything = Detailed({**before.figures, **figures}, {**before.details, **known}, dict(failed))
        save(NAME, everything, options.results, sorted({cell.seed for cell in cells}))
    return figures


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Measure every cell that is not known yet; return an exit code."""
    seeds = seeds if options.model is None else seeds[:1]
    cells = {part: [Run(part, seed, options) for seed in (seeds[:1] if part == "time" else seeds)] for part in parts}
    everything = [cell for some in cells.values() for cell in some]
    failed: dict[str, str] = {}
    for some in cells.values():  # a time is measured with nothing beside it
        measure_cells(some, options, failed, lambda: summarise(everything, options, failed))
    return show(summarise(everything, options, failed), failed)


def main() -> None:
    """Run the program."""
    parser = make_parser(__doc__, NAME, PARTS)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="Multi30k, lowercased and tokenized")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="a trained model, instead of those of the seeds")
    run_program(parser, PARTS, Run, run)


if __name__ == "__main__":
    main()
