"""Bit-identical training on a GPU: two runs of 200 steps with `deterministic = true`, and one killed and resumed.

    python -m benchmarks.gpu.deterministic_gpu [--recipe demo-en-es] [--steps 200] [--no-record]

Each run is `heedful train` in a process of its own, on the built-in sentences, with dropout. The third is killed with
SIGKILL as soon as it has a checkpoint, and continues with --resume. The bytes of the last checkpoint's weights and
optimizer state are compared.
"""

import argparse
import hashlib
import os
import subprocess
import tempfile
import time
from pathlib import Path

from heedful.base.processes import child_environment, run_module
from heedful.metrics.recorded_results import record


def command(recipe: str, steps: int, out: Path, *more: str) -> list[str]:
    settings = (f"train.steps={steps}", f"train.checkpoint_every={steps // 4}", "train.deterministic=true",
                "train.device=cuda", "model.dropout=0.1", "model.dropout_attention=0.1", *more)  # fmt: skip
    sets = [word for setting in settings for word in ("--set", setting)]
    return run_module("heedful", "train", recipe, *sets, "--out", str(out))


def train(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=child_environment())


def killed_and_resumed(words: list[str], out: Path) -> int:
    """Kill the run after its first checkpoint, resume it, and return the step it was killed at."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=child_environment())
    while not any((out / "checkpoints").glob("step-*")):
        if process.poll() is not None:
            raise SystemExit("the run ended before its first checkpoint")
        time.sleep(0.02)
    process.kill()
    process.wait()
    saved = max(path.name for path in (out / "checkpoints").glob("step-*"))
    train(*words, "--resume")
    return int(saved.removeprefix("step-"))


def digest(out: Path) -> str:
    """Hash the weights and the optimizer state of the last checkpoint."""
    last = max((out / "checkpoints").glob("step-*"))
    files = [last / name for name in ("model.safetensors", "optimizer.safetensors")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="demo-en-es")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, two, three, other = (Path(folder) / name for name in ("one", "two", "three", "other"))
        os.environ.setdefault("HEEDFUL_CACHE", str(Path(folder) / "cache"))
        train(*command(options.recipe, options.steps, one))
        train(*command(options.recipe, options.steps, two))
        step = killed_and_resumed(command(options.recipe, options.steps, three), three)
        train(*command(options.recipe, options.steps, other, "train.seed=2"))
        bits = [digest(out) for out in (one, two, three, other)]
    figures = {
        "steps": options.steps,
        "killed_after_step": step,
        "second_run_equal": float(bits[1] == bits[0]),
        "resumed_run_equal": float(bits[2] == bits[0]),
        "other_seed_equal": float(bits[3] == bits[0]),
    }
    for name, figure in figures.items():
        print(f"{name:20} {figure:g}", flush=True)
    if not options.no_record:
        place = {} if options.results is None else {"folder": options.results}
        record("deterministic_gpu", figures, command="python -m benchmarks.gpu.deterministic_gpu", seeds=[1], **place)


if __name__ == "__main__":
    main()
