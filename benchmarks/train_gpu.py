"""Training speed on one GPU: ours against transformers' MarianMT and torch.nn.Transformer, on the same sentences.

    python -m benchmarks.train_gpu [--parts base,curves,loss] [--merge] [--tiny]

The work is Transformer-base (6+6 layers, width 512, inner 2048, 8 heads, one tied matrix of 32,000 pieces, residual
dropout 0.1, label smoothing 0.1, Adam) on sentences of lengths like WMT's, at most 24,576 tokens of each side a step,
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import fmean, median
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.gpu_work import FIRST_PIECE, Listener, Results, Shape, chosen, peak_gib, rate
from numpy.typing import NDArray
from torch import Tensor, nn

from heedful.config.corpora import TextCorpus
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.train import AnySchedule, Constant, InverseSqrt, Train, Validation
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import Ragged, TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.devices import choose_device
from heedful.metrics.recorded_results import RESULTS
from heedful.models.build.network import build_model
from heedful.nn.kernels import without_kernels
from heedful.runs.job import Job, set_up
from heedful.runs.run import build_trainer
from heedful.tasks.translate.task import TranslateTask
from heedful.training.objectives import NextToken
from heedful.training.optimizers import build_optimizer
from heedful.training.seeding import seed_for
from heedful.training.signals import StopRequest
from heedful.training.trainer import StepMetrics

DROPOUT, SMOOTHING = 0.1, 0.1
SHORTEST, LONGEST = 3, 128  # tokens of a sentence, `</s>` included
LEARNED_LONGEST = 32  # of the task that can be learned
ROUNDED = 8  # peers' rows are padded to a multiple of so many tokens, as tensor cores want it
COMPILED = "marian_compiled"  # the strongest peer: the curves have it too
NEVER = 10**9

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class Stretches:
    """How long a rate is measured: stretches of so many steps, after some to warm up."""

    warm: int
    count: int
    steps: int


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    shape: Shape
    batch_tokens: int
    pairs: int
    ours: Stretches
    compiled: Stretches
    eager: Stretches
    peer_batches: int
    widths: tuple[Shape, ...]  # beside that of `shape`
    lengths: tuple[int, ...]
    curve: Stretches
    curve_compiled: Stretches
    curve_batches: int  # of the peer at a point of a curve
    loss_shape: Shape
    loss_batch_tokens: int
    loss_steps: int
    loss_log_every: int
    product: int  # the side of the matrices that the ceiling is measured with


FULL = Scale(
    shape=Shape(),
    batch_tokens=24_576,
    pairs=60_000,
    ours=Stretches(40, 6, 20),
    compiled=Stretches(40, 4, 10),  # every shape is compiled before the first stretch
    eager=Stretches(4, 4, 5),
    peer_batches=40,
    widths=(Shape(256, 1024, 4), Shape(1024, 4096, 16)),
    lengths=(32, 128, 512),
    curve=Stretches(20, 3, 10),
    curve_compiled=Stretches(12, 3, 12),
    curve_batches=12,
    loss_shape=Shape(256, 1024, 4, 3, 8000),
    loss_batch_tokens=8192,
    loss_steps=500,
    loss_log_every=20,
    product=8192,
)
_SMALL = Shape(32, 64, 2, 1, 100)
TINY = Scale(
    shape=_SMALL,
    batch_tokens=512,
    pairs=400,
    ours=Stretches(2, 2, 2),
    compiled=Stretches(3, 1, 2),
    eager=Stretches(1, 1, 2),
    peer_batches=3,
    widths=(Shape(16, 64, 2, 1, 100), Shape(48, 64, 2, 1, 100)),
    lengths=(16, 64),
    curve=Stretches(2, 1, 2),
    curve_compiled=Stretches(2, 1, 2),
    curve_batches=2,
    loss_shape=_SMALL,
    loss_batch_tokens=512,
    loss_steps=12,
    loss_log_every=4,
    product=256,
)


# --- the work ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A model's shape and the sentences that it is trained on."""

    shape: Shape
    store: TokenStore
    batch_tokens: int
    longest: int  # tokens of a sentence, `</s>` included

    def operations(self, target_tokens: float) -> float:
        """Of so many target tokens and the source tokens that come with them."""
        sides = [self.store.tokens(stream) + len(self.store) for stream in ("source", "target")]
        return self.shape.operations(target_tokens * sides[0] / sides[1], target_tokens)


def like_wmt(scale: Scale, shape: Shape) -> Work:
    """Random pieces in sentences whose lengths are like those of news, targets 0.85 to 1.25 times as long."""
    random = np.random.default_rng(0)
    source = random.lognormal(np.log(24), 0.55, scale.pairs).clip(SHORTEST, LONGEST).astype(np.int64)
    target = (source * random.uniform(0.85, 1.25, scale.pairs)).clip(SHORTEST, LONGEST).astype(np.int64)
    store = TokenStore({name: _drawn(n, shape, random) for name, n in (("source", source), ("target", target))})
    return Work(shape, store, scale.batch_tokens, LONGEST)


def all_of_length(scale: Scale, length: int) -> Work:
    """Random pieces in sentences of one length."""
    random = np.random.default_rng(0)
    lengths = np.full(64 * scale.batch_tokens // length, length, np.int64)
    store = TokenStore({name: _drawn(lengths, scale.shape, random) for name in ("source", "target")})
    return Work(scale.shape, store, scale.batch_tokens, length)


def to_be_learned(scale: Scale) -> Work:
    """Pieces by Zipf's law; a target is its source in other pieces, one for one."""
    random, shape = np.random.default_rng(0), scale.loss_shape
    lengths = random.lognormal(np.log(16), 0.5, scale.pairs).clip(SHORTEST, LEARNED_LONGEST).astype(np.int64)
    cumulated = np.cumsum(1 / np.arange(1, shape.vocabulary - FIRST_PIECE + 1))
    ranks = np.searchsorted(cumulated / cumulated[-1], random.random((lengths - 1).sum()))
    offsets = _offsets(lengths)
    in_other_pieces = random.permutation(shape.vocabulary - FIRST_PIECE)
    sides = {"source": ranks, "target": in_other_pieces[ranks]}
    store = TokenStore({name: Ragged((side + FIRST_PIECE).astype(np.uint32), offsets) for name, side in sides.items()})
    return Work(shape, store, scale.loss_batch_tokens, LEARNED_LONGEST)


def _drawn(lengths: Lengths, shape: Shape, random: np.random.Generator) -> Ragged:
    """Random pieces; each sentence leaves room for its marker."""
    offsets = _offsets(lengths)
    return Ragged(random.integers(FIRST_PIECE, shape.vocabulary, offsets[-1], np.uint32), offsets)


def _offsets(lengths: Lengths) -> Lengths:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths - 1)))


# --- ours -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """How ours is run."""

    fast: bool = True  # compiled and captured where the trainer would, with kernels; or plain
    schedule: AnySchedule = field(default_factory=lambda: Constant(kind="constant", lr=1e-4))
    dropout_seed: int = 0  # weights and order have their own, which is always 0


def ours(work: Work, device: torch.device, steps: int, log_every: int, way: Way) -> list[StepMetrics]:
    """Train as `heedful train` does, and return what it would show."""
    if way.fast:
        return _trained(work, device, steps, log_every, way)
    with without_kernels():
        return _trained(work, device, steps, log_every, way)


def _trained(work: Work, device: torch.device, steps: int, log_every: int, way: Way) -> list[StepMetrics]:
    in_memory = TextCorpus(source="none", target="none")  # a recipe needs one; nothing reads it
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
    build_trainer(job, listener).run(position, StopRequest())
    return listener.readings


def our_rate(work: Work, device: torch.device, stretches: Stretches) -> tuple[float, float]:
    """Target tokens in a second, and the share of time spent waiting for batches."""
    steps = stretches.warm + stretches.count * stretches.steps
    readings = ours(work, device, steps, stretches.steps, Way())
    settled = [reading for reading in readings if reading.step > stretches.warm]
    return median(r.tokens_per_second for r in settled), median(r.data_wait for r in settled)


# --- peers ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Padded:
    """A batch as peers want it."""

    source: Tensor
    target: Tensor
    labels: Tensor
    target_tokens: int  # the labels that count


def padded_batches(work: Work, count: int, device: torch.device) -> list[Padded]:
    """Some of all batches, in random order."""
    cuts = list(_cuts(work))
    chosen = np.random.default_rng(0).permutation(len(cuts))[:count]
    return [_padded(work.store, cuts[number], device) for number in chosen]


def _cuts(work: Work) -> Iterator[Lengths]:
    """Sentences of like length, as many as fit the budget on both sides when padded to the longest.

    What rounding adds is not counted: it favours the peers, whose steps thus have more tokens.
    """
    source, target = work.store.lengths("source") + 1, work.store.lengths("target") + 1
    widest = np.maximum(source, target).tolist()
    begun: list[int] = []
    widest_begun = 0
    for index in np.lexsort((source, target)).tolist():
        if (len(begun) + 1) * max(widest_begun, widest[index]) > work.batch_tokens:
            yield np.array(begun)
            begun, widest_begun = [], 0
        begun.append(index)
        widest_begun = max(widest_begun, widest[index])
    yield np.array(begun)


def _padded(store: TokenStore, indices: Lengths, device: torch.device) -> Padded:
    def rows(stream: str, marker: int, at_end: bool) -> Tensor:
        pieces, lengths = store.gather(stream, indices)
        width = -(-(int(lengths.max()) + 1) // ROUNDED) * ROUNDED
        place = np.arange(width)[None, :] - (0 if at_end else 1)
        values = np.full((len(indices), width), PAD, np.int64)
        values[(place >= 0) & (place < lengths[:, None])] = pieces
        values[place == (lengths if at_end else np.full_like(lengths, -1))[:, None]] = marker
        return torch.from_numpy(values).to(device)

    labels = rows("target", END, at_end=True)
    return Padded(
        rows("source", END, at_end=True), rows("target", BEGIN, at_end=False), labels, int((labels != PAD).sum())
    )


class Plain(nn.Module):
    """torch.nn.Transformer with the embeddings and the output layer that it leaves to its users."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.embedding.weight, std=shape.width**-0.5)
        self.scale, self.drop = shape.width**0.5, nn.Dropout(DROPOUT)
        self.register_buffer("positions", torch.randn(1024, shape.width))  # any table costs the same
        self.transformer = nn.Transformer(
            shape.width, shape.heads, shape.layers, shape.layers, shape.inner, DROPOUT, batch_first=True
        )
        for module in self.transformer.modules():  # dropout is for residuals alone
            match module:
                case nn.MultiheadAttention():
                    module.dropout = 0.0
                case nn.TransformerEncoderLayer() | nn.TransformerDecoderLayer():
                    module.dropout = nn.Identity()  # type: ignore[assignment]  # of the inner layer

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        # Nothing before a target's end sees the padding behind it: without its mask, attention takes the fast way.
        past = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        padding = source == PAD
        states = self.transformer(
            self._embed(source), self._embed(target), tgt_mask=past, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return F.linear(states, self.embedding.weight)

    def _embed(self, tokens: Tensor) -> Tensor:
        positions = cast(Tensor, self.positions)
        embedded: Tensor = self.drop(self.embedding(tokens) * self.scale + positions[: tokens.shape[1]])
        return embedded


class Marian(nn.Module):
    """MarianMT, called as transformers' own trainer calls it: padding of targets is told by the labels alone."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.model = shape.marian(DROPOUT)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = (source != PAD).long()
        logits: Tensor = self.model(
            input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False
        ).logits
        return logits


@dataclass(frozen=True)
class Peer:
    """Another's model, and how long it is measured."""

    build: Callable[[Shape], nn.Module]
    stretches: Stretches
    compiled: bool = False


def peers(scale: Scale) -> dict[str, Peer]:
    return {
        COMPILED: Peer(Marian, scale.compiled, compiled=True),
        "marian": Peer(Marian, scale.eager),
        "nn_transformer": Peer(Plain, scale.eager),
    }


def peer_rate(peer: Peer, work: Work, device: torch.device, batches: int) -> float:
    """Target tokens in a second."""
    torch.manual_seed(0)
    model = peer.build(work.shape).to(device).train()
    if peer.compiled:
        model.compile(dynamic=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    ahead = cycle(padded_batches(work, batches, device))

    def step() -> int:
        batch = next(ahead)
        with torch.autocast(device.type, torch.bfloat16):
            scores = model(batch.source, batch.target).flatten(0, 1).float()
            loss = F.cross_entropy(scores, batch.labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return batch.target_tokens

    stretches = peer.stretches
    return rate(step, warm=stretches.warm, stretches=stretches.count, steps=stretches.steps)


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
    parts = chosen(parser, "--parts", options.parts, PARTS)
    measured = points if options.points is None else chosen(parser, "--points", options.points, points)
    with_peer = last if options.curve_peer is None else chosen(parser, "--curve-peer", options.curve_peer, points)
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
