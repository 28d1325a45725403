"""Batch jobs whose workers are killed: nothing is missing, nothing is there twice, and the bytes are those of one run.

    python -m benchmarks.shards.shards [--kills 200] [--seed 1] [--no-record]     # Ray as well, where it is installed
    python -m benchmarks.shards.shards --parts kills                               # without Ray
    python -m benchmarks.shards.shards --tiny                                      # a few kills; records nothing

    kills    chains of kills, at file operations and at any moment, of up to three workers at the same time; parts and
             records are damaged in between
    mutant   a worker that believes records without looking at the parts, which must be found out
    ray      100,000 lines on a local cluster, whose first actor is killed half-way

Figures: `missing` and `doubled` count lines, `unequal` jobs or parts with other bytes than an undisturbed run, `redone`
parts that were whole and were written again, `failed` workers that ended by themselves with an error. The exit code is
1 if anything is wrong.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")  # before any import

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from benchmarks.faults.children import run_in_child
from benchmarks.faults.trained import Tally
from benchmarks.shards.chains import JOBS, kill_workers, prepare
from benchmarks.shards.ray_job import kill_an_actor

from heedful.cli.answering import parts
from heedful.cli.main import run
from heedful.metrics.recorded_results import record

PARTS: Final = ("kills", "mutant", "ray")
WRONG: Final = ("missing", "doubled", "unequal", "redone", "failed")
_LINES: Final = 100_000
_PATIENCE: Final = 1800.0  # seconds
_MODEL: Final = Path("tests/golden/bundles/classifier-bag")


def kill(names: Sequence[str], kills: int, seed: int, home: Path, mutant: bool) -> tuple[dict[str, float], list[str]]:
    """Kill workers of chains of jobs; return figures, and what went wrong."""
    jobs, began, tally = prepare(home, names), time.monotonic(), Tally()
    kill_workers(jobs, kills, f"kills-{seed}", home, tally)
    figures: dict[str, float] = {name: tally.counts.get(name, 0) for name in ("kills", *WRONG, "chains", "damages")}
    figures["kill_minutes"] = round((time.monotonic() - began) / 60, 1)
    if mutant:
        found = Tally(most=1)
        kill_workers(jobs, 60, f"mutant-{seed}", home, found, careless=True)
        figures |= {"mutants": 1, "mutants_caught": int(any(found.counts.get(wrong) for wrong in WRONG))}
        if not figures["mutants_caught"]:
            tally.problems.append("workers that believe records were not found out")
    return figures, tally.problems


def on_ray(lines: int, home: Path) -> tuple[dict[str, float], list[str]]:
    """Do a job on a local cluster, and kill an actor; return figures, and what went wrong."""
    source, whole, folder = home / "lines.txt", home / "ray.whole", home / "ray"
    source.write_text("".join(f"a film that is number {number} and was great\n" for number in range(lines)))
    words = ["classify", str(_MODEL.resolve()), str(source), "--json", "--device", "cpu"]
    ended = run_in_child(lambda send: send(code=run(["-q", *words, "--output", str(whole)])))
    assert ended.last("code") == 0, ended
    half = -(-lines // parts.SIZE) // 2
    found = kill_an_actor(words, folder, after=half, actors=2, patience=_PATIENCE)
    joined = b"".join(path.read_bytes() for path in sorted(folder.glob("part-*")))
    unequal = joined != whole.read_bytes()
    problems = [f"ray: exit code {found.code}: {found.said}"] if found.code else []
    problems += ["ray: other bytes than an undisturbed run"] if unequal else []
    problems += [f"ray: {found.actors} actors, {found.there} parts at the kill"] if found.actors < 2 else []
    return {
        "ray_lines": joined.count(b"\n"),
        "ray_actors": found.actors,
        "ray_actors_killed": int(found.actors > 0),
        "ray_parts_at_kill": found.there,
        "ray_unequal": int(unequal),
        "ray_seconds": round(found.seconds, 1),
    }, problems


def main() -> int:
    """Run, print and record; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--tiny", action="store_true", help="a few kills")
    parser.add_argument("--no-record", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    usual, problems = parts.SIZE, list[str]()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        if "ray" in arguments.parts and not arguments.tiny:
            if find_spec("ray") is None:
                print("Ray is not installed: `pip install 'heedful[scale]'`, or --parts kills mutant.")
                return 2
            found, wrong = on_ray(_LINES, home)
            figures, problems = figures | found, problems + wrong
        if "kills" in arguments.parts:
            names, kills = ([*JOBS][1:3], 6) if arguments.tiny else ([*JOBS], arguments.kills)
            found, wrong = kill(names, kills, arguments.seed, home / "kills", "mutant" in arguments.parts)
            figures, problems = found | figures, problems + wrong
    parts.SIZE = usual
    for line in problems:
        print(line, flush=True)
    print(json.dumps(figures, indent=2))
    if not (arguments.tiny or arguments.no_record):
        command = f"python -m benchmarks.shards.shards {' '.join(sys.argv[1:])}".rstrip()
        whole = {*arguments.parts} == {*PARTS}
        record("shards", figures, command=command, seeds=[arguments.seed], merge=not whole)
    return 1 if problems or _wrong(figures) else 0


def _wrong(figures: Mapping[str, float]) -> bool:
    return any(figures.get(name) for name in (*WRONG, "ray_unequal"))


if __name__ == "__main__":
    sys.exit(main())
