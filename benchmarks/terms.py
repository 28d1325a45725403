"""Fixed translations of terms: whether they appear, and what they do to everything else.

    python -m benchmarks.terms --data MULTI30K [--model FOLDER ...] [--seeds 1,2,3] [--jobs 3]
    python -m benchmarks.terms --data MULTI30K --tiny

MULTI30K holds the files that recipes/multi30k-en-de-lc.toml names; the recipe is trained first with each seed, unless
models are given. The terms are pairs of words from validation sentences and their references, where the model's own
translation lacks the reference's word. Words are paired by Dice's coefficient over the training sentences, if each is
the best of its sentence for the other; of all that are found, those come first whose source word is rarest in the
validation sentences. Then all validation sentences are translated with this list of terms, and without.

Records terms.json, means over seeds:

terms               pairs of the list
appear              share of the terms in the sources whose translation appears
same_without_terms  share of the sentences without terms whose translation is byte-identical
bleu_others         BLEU of the sentences without terms; bleu_others_plain without the list
bleu_rest           BLEU of the sentences that the pairs are from, without the pairs' target words on both sides;
                    bleu_rest_plain without the list
bleu_terms          BLEU of the same sentences with all words; bleu_terms_plain without the list
time_ratio          time to translate the sentences with terms, divided by that without the list

--tiny takes few steps and sentences on a CPU, to see that it works, and records nothing unless --results is given.
"""

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, Final, NoReturn

from benchmarks.detailed_results import Detailed, save
from benchmarks.side_by_side import Task, run_side_by_side

from heedful.config.corpora.pairs import TextCorpus
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.pairs import read_pairs
from heedful.decode.constraints.words.boundaries import occurs
from heedful.errors import HeedfulError
from heedful.files import read_json, write_json
from heedful.metrics.recorded_results import RESULTS, machine
from heedful.metrics.translation import bleu
from heedful.runs.training_run import train
from heedful.tasks.translate.model import Translator
from heedful.tasks.translate.terms import Terms

NAME: Final = "terms"
FOUND: Final = "found.json"
RECIPE: Final = "multi30k-en-de-lc"
FILES: Final = {split: TextCorpus(source=f"{split}.lc.norm.tok.en.gz", target=f"{split}.lc.norm.tok.de.gz")
                for split in ("train", "val")}  # fmt: skip
PAIRS: Final = 200
SHORTEST: Final = 3  # letters of a word
LEAST: Final = 0.1  # of Dice's coefficient
TIMES: Final = 3  # measurements of time
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


def measure(model: Translator, training: Sequence[Pair], pairs: Sequence[Pair]) -> dict[str, Any]:
    """Translate with a list of terms and without, and compare."""
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    plain = model.translate(sources)
    chosen = choose_terms(pairs, plain, dice(training))
    terms = {pair.source: pair.target for pair in chosen}
    with_terms = model.translate(sources, terms=terms)
    needed = [Terms(terms, str).find(source) for source in sources]
    bound = [number for number, some in enumerate(needed) if some]
    free = [number for number, some in enumerate(needed) if not some]
    asked = [(number, target) for number in bound for target in needed[number]]

    def score(numbers: Sequence[int], outputs: Sequence[str], left_out: Mapping[int, str] = {}) -> float:
        texts = [[without(side[number], left_out.get(number)) for number in numbers] for side in (outputs, references)]
        return bleu(texts[0], texts[1], "none", lowercase=True).score if numbers else 0.0

    from_pairs = {pair.sentence: pair.target for pair in chosen}
    inputs = [sources[number] for number in bound]
    return {
        "terms": len(terms),
        "sentences_with_terms": len(bound),
        "occurrences": len(asked),
        "appear": share([occurs(with_terms[number], target) for number, target in asked]),
        "appear_plain": share([occurs(plain[number], target) for number, target in asked]),
        "same_without_terms": share([with_terms[number] == plain[number] for number in free]),
        "bleu_others": score(free, with_terms),
        "bleu_others_plain": score(free, plain),
        "bleu_rest": score(sorted(from_pairs), with_terms, from_pairs),
        "bleu_rest_plain": score(sorted(from_pairs), plain, from_pairs),
        "bleu_terms": score(sorted(from_pairs), with_terms),
        "bleu_terms_plain": score(sorted(from_pairs), plain),
        "bleu_all": score(range(len(pairs)), with_terms),
        "bleu_all_plain": score(range(len(pairs)), plain),
        "time_ratio": seconds(lambda: model.translate(inputs, terms=terms)) / seconds(lambda: model.translate(inputs)),
        "pairs": [[pair.sentence, pair.source, pair.target] for pair in chosen],
    }


def without(text: str, word: str | None) -> str:
    """Return a text without a word."""
    return " ".join(other for other in text.split() if other != word)


def share(facts: Sequence[bool]) -> float:
    """Return the share of what is true; 1 of nothing."""
    return mean(facts) if facts else 1.0


def seconds(work: Callable[[], object]) -> float:
    """Return the median time of some work, which was done once before."""
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)


# --- cells: a seed, or a given model ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A model, trained with a seed or given, in its folder."""

    name: str
    options: argparse.Namespace

    @property
    def folder(self) -> Path:
        runs: Path = self.options.runs
        return runs / f"{NAME}-{Path(self.name).name}"

    def found(self) -> dict[str, Any] | None:
        path = self.folder / FOUND
        known = read_json(path) if path.exists() else None
        return known if isinstance(known, dict) else None

    def task(self) -> Task:
        """What measures it in a process of its own."""
        options = self.options
        command = [sys.executable, "-m", f"benchmarks.{NAME}", "--cell", self.name]
        where = ["--data", str(options.data), "--runs", str(options.runs), *(["--tiny"] if options.tiny else [])]
        sets = [word for setting in options.set for word in ("--set", setting)]
        return Task(self.name, [*command, *where, *sets], self.folder / "log.txt")

    def run(self) -> None:
        """Train where the name is a seed, measure, and write down what is known."""
        data = self.options.data
        training, pairs = ([*read_pairs(FILES[split], str(data))] for split in FILES)
        if self.options.tiny:
            pairs = pairs[:TINY_SENTENCES]
        found = measure(Translator.load(self._model()), training, pairs)
        write_json(self.folder / FOUND, {**found, "machine": machine()})

    def _model(self) -> Path:
        if not self.name.isdigit():
            return Path(self.name)
        run = self.folder / "run"
        small = TINY if self.options.tiny else ()
        given = [f"data.folder={self.options.data}", f"train.seed={self.name}", *small, *self.options.set]
        train(load_recipe(RECIPE, given), run, resume=True)
        return run


def summarise(options: argparse.Namespace, cells: Sequence[Cell], failed: Mapping[str, str]) -> None:
    """Print and record what is known."""
    found = [known for cell in cells if (known := cell.found())]
    if not found:
        return
    names = [name for name, value in found[0].items() if isinstance(value, int | float)]
    figures = {name: round(mean(one[name] for one in found), 4) for name in names}
    print(", ".join(f"{name} {value:g}" for name, value in figures.items()), flush=True)
    if options.results:
        seeds = [int(cell.name) for cell in cells if cell.name.isdigit()]
        save(NAME, Detailed(figures, {"models": found}, dict(failed)), options.results, seeds)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="Multi30k, lowercased and tokenized")
    parser.add_argument("--model", action="append", default=[], metavar="FOLDER", help="a trained model; repeatable")
    parser.add_argument("--seeds", default="1,2,3", help="of the models that are trained where none is given")
    parser.add_argument("--set", action="append", default=[], help="of the recipe, as `heedful train` has it")
    parser.add_argument("--jobs", type=int, default=1, help="models side by side")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="of one model")
    parser.add_argument("--runs", type=Path, default=Path("runs") / NAME, help="the folder of the run folders")
    parser.add_argument("--results", type=Path, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="few steps and sentences, on a CPU")
    parser.add_argument("--cell", help="measure this seed or model here and now")
    options = parser.parse_args(given)
    if not options.tiny and options.results is None:
        options.results = RESULTS
    return options


def stop(signal_number: int, _: object) -> NoReturn:
    """End by an exception, so that what was started is ended too."""
    sys.exit(128 + signal_number)


def main(given: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = arguments(given)
    try:
        if options.cell:
            Cell(options.cell, options).run()
            return 0
    except HeedfulError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    signal.signal(signal.SIGTERM, stop)
    cells = [Cell(name, options) for name in options.model or options.seeds.split(",")]
    failed: dict[str, str] = {}

    def ready(task: Task, failure: str | None) -> None:
        print(f"{task.name}: {failure or 'ready'}", flush=True)
        if failure is not None:
            failed[task.name] = failure

    run_side_by_side([cell.task() for cell in cells if cell.found() is None], options.jobs, options.limit, ready)
    summarise(options, cells, failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
