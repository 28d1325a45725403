"""Speed on a CPU: our int8 and float32 against CTranslate2's, with the same weights, and against transformers' GPT-2.

    python -m benchmarks.cpu.decode_cpu --model FOLDER --sources FILE --references FILE
                              [--parts speed,test_set,shortlist,gpt,bert] [--minutes 10] [--lines 192] [--merge]
    python -m benchmarks.cpu.decode_cpu --model FOLDER --sources FILE --references FILE --parts bleu --merge

speed       Transformer-base with random weights, 27 tokens in and 30 out, `</s>` included: 1 and 64 sentences with a
            beam of 4, and 64 greedily; in int8 with one thread, with two where keys end in `_2`, and in float32. First
            both sides must put out the same tokens in float32.
test_set    a trained translator on lines of a test set, at equal distances, from texts to texts: `heedful translate`
            against a program that tokenizes, translates by CTranslate2 in batches of similar lengths, and detokenizes.
            Starts of processes are measured apart.
shortlist   the same with shortlists on both sides, where CTranslate2's vocabulary map has our lexicon, which
            `heedful shortlist FOLDER` has learned before; and sentences one by one (`_batch1`)
gpt         GPT-2 small, 64 tokens after one prompt of 32, greedily: our int8 against `generate` of transformers in
            float32, and against CTranslate2's int8
bert        BERT-base, the vectors of 256 texts of about 20 tokens: our int8 against our float32
bleu        the BLEU that int8 and shortlists lose on the whole test set, on both sides. It is measured when it is asked
            for, and next to other work too: no time counts.

A ratio is the peer's time over ours: the median over rounds in which both take turns, each in a process of its own.
CTranslate2 has the settings that are the fastest for each kind of work, which are found first. It needs
`pip install "ctranslate2>=4.8"`. The benchmark refuses to start while other processes use this machine; with --busy it
starts, and the record says so. It takes at most about ten minutes on 2 quiet cores: when --minutes are over, no further
round and no further part begins. What is done is recorded, part by part.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks.cpu.decode_cpu_parts import Work, measure_bert, measure_gpt, measure_speed
from benchmarks.cpu.decode_cpu_peers import why_no_ctranslate2
from benchmarks.cpu.decode_cpu_texts import measure_bleu, measure_shortlist, measure_test_set
from benchmarks.cpu.decode_cpu_work import scale_of
from benchmarks.shared.gpu_work import Results, choose_names
from benchmarks.shared.other_work import QUIET, watch_others

from heedful.metrics.recorded_results import RESULTS
from heedful.native.library import find_library

WATCHED = 3.0  # seconds for which other processes are watched before the start


MEASURES: Mapping[str, Callable[[Work], None]] = {
    "speed": measure_speed,
    "test_set": measure_test_set,
    "shortlist": measure_shortlist,
    "gpt": measure_gpt,
    "bert": measure_bert,
    "bleu": measure_bleu,
}
TIMED = ("speed", "test_set", "shortlist", "gpt", "bert")
NEED_CTRANSLATE2 = ("speed", "test_set", "shortlist", "bleu")
LINES = 192  # of a test set that are timed
MINUTES = 10.0


def describe(results: Results) -> None:
    """Record what computes."""
    found = find_library()
    kernels = {"instructions": "none", "why": found} if isinstance(found, str) else {
        "instructions": found.compiled.instructions.title, "compiler": found.compiled.compiler,
    }  # fmt: skip
    if why_no_ctranslate2() is None:
        kernels["ctranslate2"] = version("ctranslate2")
    results.details["kernels"] = dict(kernels)
    for name, value in kernels.items():
        results.say(f"{name:16} {value}")


def refuse_company(busy: bool, results: Results) -> None:
    """End the program if other processes use the machine, unless that was allowed."""
    with watch_others() as others:
        time.sleep(WATCHED)
    results.details["others"] = {"before": {"cores": round(others.cores, 3)}}
    if others.cores > QUIET and not busy:
        sys.exit(
            f"other processes use {others.cores:.2f} cores of this machine, next to which timings do not count: wait "
            "until they have ended, or add --busy to try the program out"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(TIMED), help=f"some of {', '.join(MEASURES)}")
    parser.add_argument("--model", type=Path, help="a trained translator")
    parser.add_argument("--sources", type=Path, help="what it translates")
    parser.add_argument("--references", type=Path, help="what its translations are compared with")
    parser.add_argument("--rounds", type=int, help="how often both sides take turns, besides the first time")
    parser.add_argument("--lines", type=int, default=LINES, help="how many lines of the test set are timed")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="when they are over, nothing further begins")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--busy", action="store_true", help="start even if other processes use the machine")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument(
        "--tiny", "--quick", action="store_true", help="tiny sizes, to try the program out; records nothing"
    )
    options = parser.parse_args()
    parts = choose_names(parser, "--parts", options.parts, tuple(MEASURES))
    files = (options.model, options.sources, options.references)
    if any(files) and not all(files):
        parser.error("--model, --sources and --references belong together")
    missing = why_no_ctranslate2()
    if missing is not None and any(part in parts for part in NEED_CTRANSLATE2):
        parser.error(missing)
    results = Results("decode_cpu", None if options.tiny else options.results, options.merge)
    began = time.monotonic()
    if any(part in TIMED for part in parts):
        refuse_company(options.busy or options.tiny, results)
    describe(results)
    with tempfile.TemporaryDirectory() as folder:
        scale = scale_of(options.tiny)
        rounds, until = options.rounds or scale.rounds, began + 60 * options.minutes
        work = Work(results, scale, options.tiny, Path(folder), *files, rounds, options.lines, until)
        for part in parts:
            if part in TIMED and work.is_over:
                with results.part(part):
                    raise TimeoutError(f"not begun: {options.minutes:g} minutes were over")
            else:
                MEASURES[part](work)
    results.exit()


if __name__ == "__main__":
    main()
