"""Training speed on one GPU: ours against transformers' MarianMT and torch.nn.Transformer, on the same sentences.

    python -m benchmarks.gpu.train_gpu [--parts base,curves,loss] [--merge] [--tiny]

The work is Transformer-base (6+6 layers, width 512, inner 2048, 8 heads, one tied matrix of 32,000 pieces, residual
dropout 0.1, label smoothing 0.1, Adam) on sentences of lengths like WMT's, at most 24,576 tokens of each side per step,
in bfloat16 with float32 weights. Ours runs through the trainer that `heedful train` uses, loader included; the peers
run through a plain loop with autocast on batches that are sorted by length, padded within the same budget and then to a
multiple of 8, and on the device already. torch.compile gets the peer's model; its smoothed loss stays as it is, as in
transformers' own trainer. A rate counts real target tokens, `</s>` included, and is the median over stretches.

base     the rates, their ratios, memory, and the share of the rate of a large matrix product timed in this run
curves   rates over width and over length; the point of width 512 comes from `base`
loss     the losses of 500 steps on a task that can be learned: the fast path, the plain reference from the same weights
         on the same batches, and that once more with other dropout, which says how much is noise
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import cast

import torch
from benchmarks.gpu.train_gpu_peers import COMPILED, peer_rate, peers
from benchmarks.gpu.train_gpu_work import (
    DROPOUT,
    FULL,
    SMOOTHING,
    TINY,
    Scale,
    Stretches,
    Work,
    all_of_length,
    like_wmt,
    to_be_learned,
)
from benchmarks.shared.gpu_work import Listener, Results, choose_names, peak_gib, rate

from heedful.base.devices import choose_device
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.train.schedules import AnySchedule, Constant, InverseSqrt
from heedful.config.train.table import Instruments, Train, Validation
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.recorded_results import RESULTS
from heedful.models.from_recipe.network import build_model
from heedful.nn.kernels import without_kernels
from heedful.runs.job import Job
from heedful.runs.run import build_trainer
from heedful.runs.training_run import set_up
from heedful.tasks.translate.task import TranslateTask
from heedful.training.objectives import NextToken
from heedful.training.optimizers.build import build_optimizer
from heedful.training.seeding import seed_for
from heedful.training.signals import StopRequest
from heedful.training.trainer import StepMetrics

NEVER = 10**9


# --- ours -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """How ours is run."""

    fast: bool = True  # compiled and captured where the trainer would, with kernels; or plain
    schedule: AnySchedule = field(default_factory=lambda: Constant(kind="constant", lr=1e-4))
    dropout_seed: int = 0  # weights and order have their own, which is always 0
    instruments: Instruments | None = None


def ours(work: Work, device: torch.device, steps: int, log_every: int, way: Way) -> list[StepMetrics]:
    """Train as `heedful train` does, and return what it would show."""
    if way.fast:
        return _trained(work, device, steps, log_every, way)
    with without_kernels():
        return _trained(work, device, steps, log_every, way)


def _trained(work: Work, device: torch.device, steps: int, log_every: int, way: Way) -> list[StepMetrics]:
    in_memory = AlignedFiles(source="none", target="none")  # a recipe needs one; nothing reads it
    recipe = Recipe(
        data=Data(train=(in_memory,), batch_tokens=work.batch_tokens, max_length=work.longest - 1),
        model=work.shape.ours(DROPOUT),
        train=Train(
            steps=steps,
            schedule=way.schedule,
            label_smoothing=SMOOTHING,
            seed=0,
            device=device.type,
            precision="bfloat16",
            compile="auto" if way.fast else False,
            capture="auto" if way.fast else False,
            log_every=log_every,
            checkpoint_every=NEVER,
            validation=Validation(every=NEVER),
            instruments=way.instruments,
        ),
    )
    set_up(recipe)
    tokenizer = cast(Tokenizer, None)  # there is no text
    prepared = Prepared(
        Vocabularies({"source": tokenizer, "target": tokenizer}), train=(work.store,), weights=(1.0,), valid=()
    )
    torch.manual_seed(seed_for(0, "weights"))
    model = build_model(recipe.pair_model, work.shape.vocabulary, work.shape.vocabulary).to(device)
    optimizer = build_optimizer(recipe.train.optimizer, model)
    task = TranslateTask()
    feed = task.feed(recipe, prepared)
    job = Job(recipe, task, prepared, device, model, optimizer, NextToken(SMOOTHING), feed)
    position = job.begin()
    # The order is laid down in the feed by now, and the weights are drawn: what is left to seed is dropout.
    job.recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"seed": way.dropout_seed})})
    listener = Listener()
    build_trainer(job, listener, measured=listener.records.append).run(position, StopRequest())
    return listener.readings


def our_rate(work: Work, device: torch.device, stretches: Stretches) -> tuple[float, float]:
    """Target tokens per second, and the share of time spent waiting for batches."""
    steps = stretches.warm + stretches.count * stretches.steps
    readings = ours(work, device, steps, stretches.steps, Way())
    settled = [reading for reading in readings if reading.step > stretches.warm]
    return median(r.tokens_per_second for r in settled), median(r.data_wait for r in settled)


# --- the parts --------------------------------------------------------------------------------------------------------


def ceiling(side: int, device: torch.device) -> float:
    """TFLOP/s of a large product of random bfloat16 matrices."""
    left, right = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))

    def step() -> int:
        torch.mm(left, right)
        return 2 * side**3

    return rate(step, warm=5, stretches=7, steps=5) / 1e12


def measure_base(results: Results, scale: Scale, device: torch.device) -> None:
    work = like_wmt(scale, scale.shape)
    point = curve_point(results, "width", scale.shape.width)
    with results.part("ceiling"):
        results.add(ceiling_tflops=ceiling(scale.product, device))
    with results.part("ours"):
        tokens_s, waited = our_rate(work, device, scale.ours)
        results.add(tokens_s=tokens_s, memory_gib=peak_gib(), data_wait=waited)
        point |= {"tokens_s": tokens_s, "memory_gib": peak_gib()}
        if "ceiling_tflops" in results.figures:
            results.add(share_of_ceiling=work.operations(tokens_s) / 1e12 / results.figures["ceiling_tflops"])
    for name, peer in peers(scale).items():
        with results.part(name):
            theirs = peer_rate(peer, work, device, scale.peer_batches)
            results.add(**{f"tokens_s_{name}": theirs, f"memory_gib_{name}": peak_gib()})
            results.ratio(f"ratio_{name}", "tokens_s", f"tokens_s_{name}")
            if name == COMPILED:
                point |= {f"tokens_s_{COMPILED}": theirs}


def curve_point(results: Results, axis: str, value: int) -> dict[str, float]:
    """Where the figures of a point of a curve go."""
    point: dict[str, float] = results.details.setdefault("curves", {}).setdefault(axis, {}).setdefault(str(value), {})
    return point


def curve_work(scale: Scale) -> dict[tuple[str, int], Callable[[], Work]]:
    """What is measured at each point of the curves."""
    widths = {("width", shape.width): partial(like_wmt, scale, shape) for shape in scale.widths}
    return {**widths, **{("length", length): partial(all_of_length, scale, length) for length in scale.lengths}}


def measure_curves(
    results: Results, scale: Scale, device: torch.device, measured: Sequence[str], with_peer: Sequence[str]
) -> None:
    """The points that are asked for."""
    compiled = replace(peers(scale)[COMPILED], stretches=scale.curve_compiled)
    for (axis, value), make in curve_work(scale).items():
        name = f"{axis}_{value}"
        if name not in measured:
            continue
        work, point = make(), curve_point(results, axis, value)
        with results.part(name):
            point["tokens_s"], _ = our_rate(work, device, scale.curve)
            point["memory_gib"] = peak_gib()
            results.say(f"{name}: {point['tokens_s']:,.0f} tokens/s, {point['memory_gib']:.1f} GiB")
        if name in with_peer:
            with results.part(f"{name}_{COMPILED}"):
                point[f"tokens_s_{COMPILED}"] = peer_rate(compiled, work, device, scale.curve_batches)
                point[f"memory_gib_{COMPILED}"] = peak_gib()
                results.say(f"{name}, {COMPILED}: {point[f'tokens_s_{COMPILED}']:,.0f} tokens/s")


def measure_loss(results: Results, scale: Scale, device: torch.device) -> None:
    work = to_be_learned(scale)
    schedule = InverseSqrt(kind="inverse_sqrt", lr=1e-3, warmup=max(1, scale.loss_steps * 2 // 5))
    ways = {
        "fast": Way(schedule=schedule),
        "reference": Way(fast=False, schedule=schedule),
        "reference_other_dropout": Way(fast=False, schedule=schedule, dropout_seed=1),
    }
    curve = results.details.setdefault("loss_curve", {})
    for name, way in ways.items():
        with results.part(f"loss_{name}"):
            readings = ours(work, device, scale.loss_steps, scale.loss_log_every, way)
            curve["step"] = [reading.step for reading in readings]
            curve[name] = [reading.loss for reading in readings]
            skipped = sum(reading.skipped for reading in readings)
            results.say(f"loss, {name}: {curve[name][0]:.3f} to {curve[name][-1]:.3f}, {skipped} updates skipped")
            results.add(**{f"loss_last_{name}": curve[name][-1], f"loss_skipped_{name}": skipped})
    with results.part("loss_differences"):
        results.add(
            loss_difference_fast=_difference(curve["fast"], curve["reference"]),
            loss_difference_noise=_difference(curve["reference_other_dropout"], curve["reference"]),
        )


def _difference(one: list[float], other: list[float]) -> float:
    """The mean absolute difference of two curves."""
    return fmean(abs(a - b) for a, b in zip(one, other, strict=True))


PARTS = ("base", "curves", "loss")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--points", help="points of the curves, such as width_256,length_512; by default all")
    parser.add_argument(
        "--curve-peer", help="points that the peer is measured at too; by default the last of each curve"
    )
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    scale = TINY if options.tiny else FULL
    points = [f"{axis}_{value}" for axis, value in curve_work(scale)]
    last = [f"width_{scale.widths[-1].width}", f"length_{scale.lengths[-1]}"]
    parts = choose_names(parser, "--parts", options.parts, PARTS)
    measured = points if options.points is None else choose_names(parser, "--points", options.points, points)
    with_peer = last if options.curve_peer is None else choose_names(parser, "--curve-peer", options.curve_peer, points)
    device = choose_device("auto")
    results = Results("train_gpu", None if options.tiny else options.results, options.merge)
    if "base" in parts:
        measure_base(results, scale, device)
    if "loss" in parts:
        measure_loss(results, scale, device)
    if "curves" in parts:
        measure_curves(results, scale, device, measured, with_peer)
    results.exit()


if __name__ == "__main__":
    main()
