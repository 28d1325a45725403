"""A corpus of real size on a small machine: time and memory from two text files to batches, and of a tenth of it.

    python benchmarks/cpu/data_scale.py [--pairs 4500000] [--record]

The text is made here, in a temporary folder: words by the two-part frequency law of natural text (Gerlach and Altmann
2013), so that new ones keep coming; 24 a sentence on average. What is measured runs in a process of its own: hash the
files, train a joint byte-level vocabulary of 32,000, tokenize, plan an epoch, make 200 batches. Memory is that of the
process and all its children which no file backs, sampled from outside ten times a second; what a process's resident
memory rose above its samples in between is added.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.base.processes import child_environment

PAIRS, TENTH = 4_500_000, 10
VOCABULARY, BATCH_TOKENS, BATCHES = 32_000, 4096, 200
FORMS = 1_000_000  # words that a language has
COMMON, RARE_EXPONENT = 8000, 1.77  # words that follow Zipf's law, and the steeper law of the rest
LONGEST = 150  # words
GIB = 1 << 30
SAMPLE_SECONDS = 0.1
MEMBERS = ("RssAnon", "VmRSS", "VmHWM")


# --- the text ---------------------------------------------------------------------------------------------------------


def word_forms(random: np.random.Generator) -> list[str]:
    """Distinct words of one to five syllables, the shorter ones first and thus more frequent."""
    onsets = [*"bcdfghklmnprstvwz", "br", "st", "sch", "tr", "gr"]
    syllables = np.array([onset + rest for onset in onsets for rest in [*"aeiou", "ei", "au", "en", "er"]], object)
    forms: dict[str, None] = {}
    while len(forms) < FORMS:
        ranks = np.arange(len(forms), FORMS + FORMS // 50) + 2
        counts = 1 + random.binomial(4, np.clip(np.log10(ranks) / 6, 0, 0.75))
        drawn = iter(syllables[random.integers(0, len(syllables), counts.sum())].tolist())
        forms.update(dict.fromkeys("".join(islice(drawn, count)) for count in counts.tolist()))
    return list(forms)[:FORMS]


def frequencies() -> NDArray[np.float64]:
    """The cumulated probability of words by rank."""
    ranks = np.arange(1, FORMS + 1, dtype=np.float64)
    weights = np.where(ranks <= COMMON, 1 / ranks, COMMON ** (RARE_EXPONENT - 1) / ranks**RARE_EXPONENT)
    return np.cumsum(weights) / weights.sum()


class Language:
    """Writes sentences of its own words."""

    def __init__(self, random: np.random.Generator, cumulated: NDArray[np.float64]) -> None:
        forms = word_forms(random)
        self.random, self.cumulated = random, cumulated
        self.words = np.array([form + end for end in (" ", ", ", ".\n") for form in forms], object)

    def sentences(self, lengths: NDArray[np.int64]) -> str:
        """Lines of so many words each."""
        words = np.searchsorted(self.cumulated, self.random.random(lengths.sum()))
        words[self.random.random(len(words)) < 0.06] += FORMS
        ends = np.cumsum(lengths) - 1
        words[ends] = words[ends] % FORMS + 2 * FORMS
        return "".join(self.words[words].tolist())


def write_text(folder: Path, pairs: int, tenth: int) -> None:
    """Write `pairs` pairs to the folder "whole", and the first `tenth` of them to the folder "tenth"."""
    random = np.random.default_rng(0)
    cumulated = frequencies()
    languages = {side: Language(random, cumulated) for side in ("source", "target")}
    block = tenth // max(1, tenth // 20_000)
    for name in ("whole", "tenth"):
        (folder / name).mkdir()
    written = 0
    while written < pairs:
        count = min(block, (tenth if written < tenth else pairs) - written)
        source = np.clip(random.lognormal(np.log(22), 0.5, count), 1, LONGEST).astype(np.int64)
        target = np.maximum(1, (source * random.uniform(0.8, 1.2, count)).astype(np.int64))
        for side, lengths in (("source", source), ("target", target)):
            text = languages[side].sentences(lengths)
            for name in ("whole", "tenth") if written < tenth else ("whole",):
                with (folder / name / side).open("a", encoding="utf-8") as file:
                    file.write(text)
        written += count


# --- the work, in a process of its own --------------------------------------------------------------------------------


def work(folder: Path) -> None:
    """From text to batches; prints the seconds and counts as JSON."""
    from heedful.config.corpora.containers import AlignedFiles
    from heedful.config.data import Data
    from heedful.config.recipe import Recipe
    from heedful.config.tokenizer import ByteBpe
    from heedful.data.batches.pairs import PairCollator
    from heedful.data.epochs.loader import Loader, RowFeed
    from heedful.data.prepare.pairs import prepare

    corpus = AlignedFiles(source="source", target="target")
    recipe = Recipe(
        data=Data(folder=str(folder), train=(corpus,), batch_tokens=BATCH_TOKENS),
        tokenizer=ByteBpe(size=VOCABULARY),
    )
    began = time.perf_counter()
    marks: dict[str, float] = {}

    def progress(message: str) -> None:
        print(message, file=sys.stderr, flush=True)
        marks.setdefault(message.split()[0], time.perf_counter())  # "training ...", then "tokenizing ..."

    prepared = prepare(recipe, progress)
    tokenized = time.perf_counter()
    feed = RowFeed(prepared.train, prepared.weights, PairCollator(), recipe.train.seed, BATCH_TOKENS, BATCH_TOKENS // 8)
    micro_batches = sum(1 for _ in feed.plan(0))
    planned = time.perf_counter()
    with Loader(feed) as loader:
        made = [micro.batch.target_tokens for micro in islice(loader, BATCHES)]
    batched = time.perf_counter()
    streams = prepared.train[0].streams.values()
    print(
        json.dumps(
            {
                "minutes": (planned - began) / 60,
                "tokenizer_minutes": (marks["tokenizing"] - began) / 60,
                "tokenize_minutes": (tokenized - marks["tokenizing"]) / 60,
                "plan_seconds": planned - tokenized,
                "batches_s": len(made) / (batched - planned),
                "pairs": len(prepared.train[0]),
                "tokens": sum(len(stream.values) for stream in streams),
                "micro_batches": micro_batches,
            }
        )
    )


# --- the measuring ----------------------------------------------------------------------------------------------------


class Memory:
    """The peak of what no file backs, over a process and all that it started."""

    def __init__(self) -> None:
        self.peak = 0
        self.most_seen: dict[int, int] = {}  # the largest resident memory in a sample, by process
        self.most: dict[int, int] = {}  # the largest there was, as the kernel remembers it

    def sample(self, root: int) -> None:
        """Look once."""
        total = 0
        for process in descendants(root):
            with suppress(FileNotFoundError, ProcessLookupError, KeyError):
                anonymous, resident, most = status(process)
                total += anonymous
                self.most_seen[process] = max(resident, self.most_seen.get(process, 0))
                self.most[process] = most
        self.peak = max(self.peak, total)

    @property
    def gib(self) -> float:
        """The peak, with what rose between samples."""
        return (self.peak + sum(self.most[process] - self.most_seen[process] for process in self.most)) / GIB


def status(process: int) -> tuple[int, ...]:
    """Bytes of memory that no file backs, of resident memory, and of the most there ever was of that."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return tuple(int(fields[member].split()[0]) * 1024 for member in MEMBERS)


def descendants(root: int) -> Iterator[int]:
    """A process and all that it and they started."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    family = [root]
    for member in family:  # grows as children are found
        family += [child for child, parent in parents.items() if parent == member]
    return iter(family)


def measured(folder: Path, cache: Path) -> Mapping[str, Any]:
    """The figures of the work on one folder of text."""
    memory = Memory()
    environment = {**child_environment(), "HEEDFUL_CACHE": str(cache)}
    command = [sys.executable, "-P", __file__, "--work", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        while process.poll() is None:
            memory.sample(process.pid)
            time.sleep(SAMPLE_SECONDS)
        assert process.stdout is not None
        printed = process.stdout.read()
    if process.returncode:
        sys.exit(process.returncode)
    return {**json.loads(printed), "anonymous_gib": memory.gib}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    with tempfile.TemporaryDirectory(prefix="data-scale-") as name:
        folder = Path(name)
        write_text(folder, options.pairs, options.pairs // TENTH)
        tenth = measured(folder / "tenth", folder / "cache-tenth")
        whole = measured(folder / "whole", folder / "cache-whole")
    figures = {
        **whole,
        "ratio_to_tenth": whole["minutes"] / tenth["minutes"],
        "anonymous_gib_tenth": tenth["anonymous_gib"],
        "minutes_tenth": tenth["minutes"],
    }
    for key, figure in figures.items():
        print(f"{key:24} {figure:,.2f}")
    if options.record:
        from heedful.metrics.recorded_results import record

        record("data_scale", figures, command=f"python benchmarks/cpu/data_scale.py --pairs {options.pairs}", seeds=[0])


if __name__ == "__main__":
    main()
