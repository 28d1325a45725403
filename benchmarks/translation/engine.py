"""Translation of whole files on one GPU, from the shell's prompt to the last byte; and the engine behind it.

    python -m benchmarks.translation.engine --base MODEL --sources FILE --small MODEL --short FILE
                                            [--before SRC] [--parts files,first,...] [--merge] [--tiny]

files      `heedful translate` of 60,000 lines with the base model, from the shell's prompt to the last byte of a file:
           the best of --rounds processes (kernels and caches are warm); once by the code in the folder --before (the
           `src` of an earlier revision). 50,000 short lines with the small model: such processes too (`short_seconds`),
           and the sentences per second of a stream in a process that runs (`short_sentences_s`).
first      from the start of a process to its end after one answer: the median; once by --before
slots      256 sentences with a beam of 4 (Transformer-base with random weights, 27 tokens in, 30 out) by the engine,
           and by the code in --before, in turns
requests   20,000 requests with random options join while others are under way: the recordings that they make
cancel     launches after which the slot of a cancelled request serves another
cpu        on a CPU, in float32 with two threads: 64 sentences with a beam of 4 by the engine, and by the code in
           --before, in turns
join       on a CPU: ticks of a busy engine after which a request that joins has its first token
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from benchmarks.gpu.decode_gpu import FULL, TINY, sources, translator
from benchmarks.shared.gpu_work import Results, choose_names

import heedful
from heedful.base.devices import choose_device
from heedful.config.decode import Sampling
from heedful.decode.engine import Engine
from heedful.decode.hypothesis import Wu
from heedful.decode.query import text_queries
from heedful.decode.settings import SearchSettings
from heedful.metrics.recorded_results import RESULTS
from heedful.tasks.translate.model import Translator

ROOT = Path(__file__).parents[2]
REQUESTS = 20_000


@dataclass(frozen=True)
class Work:
    results: Results
    options: argparse.Namespace

    @property
    def tiny(self) -> bool:
        return bool(self.options.tiny)

    @property
    def rounds(self) -> int:
        return 1 if self.tiny else int(self.options.rounds)


def translate(model: Path, file: Path, output: Path, folder: Path | None = None) -> float:
    """Return the seconds that a process takes to translate a file, by the code of today or that in a folder."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "heedful",
        "translate",
        str(model),
        str(file),
        "--output",
        str(output),
        "--quiet",
    ]
    began = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=None if folder is None else with_code(folder))
    return time.perf_counter() - began


def with_code(folder: Path) -> dict[str, str]:
    """Return an environment in which Python imports the code in a folder."""
    return {**os.environ, "PYTHONPATH": ":".join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])}


def measure_files(work: Work) -> None:
    options = work.options
    lines = sum(1 for _ in options.sources.open("rb"))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        seconds = [translate(options.base, options.sources, output) for _ in range(work.rounds)]
        if sum(1 for _ in output.open("rb")) != lines:
            raise RuntimeError(f"{output} has not as many lines as {options.sources}")
        found: dict[str, object] = {"lines": lines, "seconds": [round(one, 2) for one in seconds]}
        if options.before is not None:
            found["before"] = round(translate(options.base, options.sources, output, options.before), 2)
        work.results.details["europarl"] = found
        work.results.add(europarl_seconds=min(seconds))
        short = [translate(options.small, options.short, output) for _ in range(work.rounds)]
    texts = options.short.read_text().splitlines()
    model = Translator.load(options.small)
    model.translate(texts[:1])
    rates = []
    for _ in range(work.rounds):
        began = time.perf_counter()
        count = sum(1 for _ in model.stream(iter(texts)))
        rates.append(count / (time.perf_counter() - began))
    work.results.details["short"] = {
        "lines": len(texts), "rates": [round(one) for one in rates], "seconds": [round(one, 2) for one in short],
    }  # fmt: skip
    work.results.add(short_sentences_s=max(rates), short_seconds=min(short))


def measure_first(work: Work) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, output = Path(folder) / "one", Path(folder) / "output"
        file.write_bytes(work.options.sources.open("rb").readline())
        seconds = [translate(work.options.base, file, output) for _ in range(work.rounds)]
        found = {"now": [round(one, 2) for one in seconds]}
        if work.options.before is not None:
            before = [translate(work.options.base, file, output, work.options.before) for _ in range(1)]
            found["before"] = [round(one, 2) for one in before]
    work.results.details["first"] = found
    work.results.add(first_answer_s=median(seconds))


def measure_slots(work: Work) -> None:
    compare(work, "slots", "TINY" if work.tiny else "FULL", "tokens_s_batch256_beam4", "ratio_slots")


def measure_cpu(work: Work) -> None:
    scale = "TINY" if work.tiny else "Scale(Shape(), batch=64, warm=1, repeats=3)"
    compare(work, "cpu", scale, "cpu_tokens_s_batch64_beam4", "cpu_ratio_batch64", "cpu")


def compare(work: Work, part: str, scale: str, key: str, ratio: str, device: str = "auto") -> None:
    """Measure the code of today and that of --before in turns, each time in a process of its own."""
    folders = {"now": Path(heedful.__file__).parents[1], "before": work.options.before}
    speeds: dict[str, list[float]] = {name: [] for name, folder in folders.items() if folder is not None}
    for _ in range(work.rounds):
        for name, some in speeds.items():
            some.append(speed_in_process(folders[name], scale, device))
    work.results.details[part] = {name: [round(one) for one in some] for name, some in speeds.items()}
    work.results.add(**{key: median(speeds["now"])})
    if "before" in speeds:
        work.results.add(**{ratio: median(speeds["now"]) / median(speeds["before"])})


def speed_in_process(folder: Path, scale: str, device: str) -> float:
    """Return the tokens per second of the code in a folder, in a process of its own."""
    precision = "float32" if device == "cpu" else "bfloat16"
    code = (
        f"from benchmarks.gpu.decode_gpu import *; s = {scale}; "
        f"print(our_rate(translator(s, torch.{precision}, choose_device({device!r})), s, Case(s.batch, 4)))"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=with_code(folder)
    )
    return float(run.stdout.split()[-1])


def random_settings(chance: random.Random) -> SearchSettings:
    kind, least = chance.choice(("greedy", "beam", "sampling")), chance.choice((0, 0, 2, 5))
    penalty = Wu(chance.choice((0.0, 0.6, 1.0, chance.random())))
    if kind == "beam":
        return SearchSettings(beam=4, penalty=penalty, min_length=least)
    sampling = None
    if kind != "greedy":
        sampling = Sampling(chance.uniform(0.5, 1.5), top_p=chance.uniform(0.3, 0.99), seed=chance.randrange(10**6))
    return SearchSettings(beam=1, penalty=penalty, min_length=least, sampling=sampling)


def measure_requests(work: Work) -> None:
    """Requests arrive a few at a time, so that the engine is always busy and never full."""
    chance, scale = random.Random(1), TINY if work.tiny else FULL
    count = 50 if work.tiny else REQUESTS
    engine = Engine(translator(scale, torch.bfloat16, choose_device("auto")), in_slots=True)
    words = sources(scale, scale.batch).tolist()
    left, under_way = count, 0
    began = time.perf_counter()
    while left or under_way:
        if left and under_way < 500:
            for _ in range(min(left, chance.randint(1, 40))):
                source = words[chance.randrange(len(words))][: chance.randint(1, 26)]
                engine.add_all(text_queries([source], 20), random_settings(chance))
                left, under_way = left - 1, under_way + 1
        under_way -= sum(event.kind == "finished" for event in engine.tick())
    assert engine.slots is not None
    work.results.details["requests"] = {"count": count, "seconds": round(time.perf_counter() - began, 1)}
    work.results.add(recordings=engine.slots.recordings)


def measure_cancel(work: Work) -> None:
    """One slot, two requests: after how many launches of the first, cancelled, has the second a token?"""
    scale = TINY if work.tiny else FULL
    engine = Engine(translator(scale, torch.bfloat16, choose_device("auto")), in_slots=True)
    assert engine.slots is not None
    engine.slots.sizes = (1,)
    settings = SearchSettings(beam=1)
    first, second = engine.add_all(text_queries(sources(scale, 2).tolist(), 50), settings)
    for _ in range(3):
        engine.tick()
    engine.cancel(first)
    launches = 0
    while not any(runner.held and second in runner.tickets() for runner in engine.slots.runners()):
        engine.tick()
        launches += 1
    engine.cancel(second)
    work.results.add(cancel_launches=launches)


def measure_join(work: Work) -> None:
    """64 sentences are under way, as many as fit into half of the budget; then one more is added."""
    scale = TINY if work.tiny else FULL
    engine = Engine(translator(scale, torch.float32, choose_device("cpu")))
    settings, budget = SearchSettings(beam=4), 64 * 4 * 27 * 2
    under_way = engine.add_all(text_queries(sources(scale, 64).tolist(), 20), settings, budget)
    for _ in range(5):
        engine.tick()
    joined, ticks = engine.add(text_queries(sources(scale, 1).tolist(), 20)[0], settings, budget, drafts=True), 0
    while not joined.draft:
        engine.tick()
        ticks += 1
    engine.cancel(joined, *under_way)
    work.results.add(join_ticks=ticks)


MEASURES: Mapping[str, Callable[[Work], None]] = {
    "files": measure_files,
    "first": measure_first,
    "slots": measure_slots,
    "requests": measure_requests,
    "cancel": measure_cancel,
    "cpu": measure_cpu,
    "join": measure_join,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(MEASURES), help=f"some of {', '.join(MEASURES)}")
    for name in ("--base", "--sources", "--small", "--short", "--before"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    parts = choose_names(parser, "--parts", options.parts, tuple(MEASURES))
    work = Work(Results("engine", None if options.tiny else options.results, options.merge), options)
    for part in parts:
        with work.results.part(part):
            MEASURES[part](work)
    work.results.exit()


if __name__ == "__main__":
    main()
