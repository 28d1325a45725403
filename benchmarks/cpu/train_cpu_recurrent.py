"""Training speed of recurrent models on a CPU: ours against JoeyNMT 2.3's, on the same batches in one run.

    python -m benchmarks.cpu.train_cpu_recurrent [--rounds 5] [--data FOLDER] [--tiny]

Both are a bidirectional GRU encoder (512 a direction) and a GRU decoder (512) with input feeding, one layer each,
embeddings of 256, two vocabularies of 8,000, no shared matrix, dropout 0.2, label smoothing 0.1, Adam with PyTorch's
fused kernel. A rate counts real target tokens, `</s>` included: forward, loss, backward and update.

bahdanau           additive scores: JoeyNMT's attention "bahdanau", ours with `alignment = "additive"`
luong              bilinear scores: JoeyNMT's attention "luong", ours with `alignment = "general"`
bahdanau_wiring    ours as Bahdanau et al. have it (`wiring = "bahdanau"`), which is more work; JoeyNMT's is the first's

JoeyNMT feeds back what was read and predicts from it whatever its attention is called, which is our `wiring = "luong"`:
so the first two compare the same equations. Ours is measured in float32 and in bfloat16, JoeyNMT in float32, as it has
no 16 bits on a CPU. `ratio_joeynmt` is the smaller of the two ratios with both as they train by themselves: ours in the
precision that `heedful train` chooses, which is bfloat16 where that is clearly faster; `ratio_joeynmt_float32` is the
smaller one with both in float32.

Ours runs through the trainer that `heedful train` uses (seeding, gradient norm and background loading included).
JoeyNMT runs through its own model, loss and count of right tokens, as in its `TrainManager._train_step`, and has it
better than by itself: its loader does not put sentences of like length together, but here batches are sorted by length,
padded, and sorted again by source, ahead of time; and its Adam is fused. Rounds alternate between all, and a ratio is
the median over the rounds.

Sentences are random tokens, of lengths like Multi30k's; with --data, of the lengths in words of the publisher's own
train.lc.norm.tok.(en, de).gz in FOLDER.

JoeyNMT pins packages of other times, so install it without them, into an environment of its own that has Heedful:

    pip install --no-deps joeynmt==2.3.0
    pip install "importlib_metadata<9" matplotlib subword-nmt sentencepiece pyyaml packaging tensorboard
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from benchmarks.cpu.train_cpu import FixedFeed, Pair, Silent
from benchmarks.shared.detailed_results import command_line
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from heedful.base.devices import WORTH_IT, keep_freed_memory
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.model.attention import AlignmentName
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.train.optimizers import Adam
from heedful.config.train.schedules import Constant
from heedful.data.corpora.pairs import read_pairs
from heedful.metrics.recorded_results import RESULTS, record
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision
from heedful.training.checkpoints import Position
from heedful.training.objectives import NextToken
from heedful.training.optimizers.build import build_optimizer
from heedful.training.schedules import build_learning_rate
from heedful.training.signals import StopRequest
from heedful.training.trainer import Trainer, TrainerSettings

NAME = "train_cpu_recurrent"
DROPOUT, SMOOTHING, RATE, THREADS = 0.2, 0.1, 1e-4, 2
UNKNOWN, PAD, BEGIN, END, FIRST_PIECE = range(5)  # JoeyNMT's markers; pieces begin where ours do
LONGEST = 60
NEVER = 10**9

Attention = Literal["bahdanau", "luong"]
ALIGNMENTS: dict[Attention, AlignmentName] = {"bahdanau": "additive", "luong": "general"}  # ours of JoeyNMT's names


@dataclass(frozen=True)
class Scale:
    """The sizes of everything in the benchmark."""

    width: int = 512
    embedding: int = 256
    vocabulary: int = 8000
    batch_tokens: int = 4096  # of a padded batch, on its longer side
    batches: int = 8
    pairs: int = 29_000


FULL = Scale()
TINY = Scale(width=16, embedding=8, vocabulary=50, batch_tokens=128, batches=2, pairs=200)


# --- the work ---------------------------------------------------------------------------------------------------------


def like_multi30k(count: int) -> list[tuple[int, int]]:
    """Lengths of pairs whose logarithms have the mean and the deviation of Multi30k's (English, German, in words)."""
    draw = random.Random(0)

    def pair() -> tuple[int, int]:
        source = draw.lognormvariate(2.52, 0.30)
        target = source * draw.lognormvariate(-0.054, 0.171)
        return max(2, min(LONGEST, round(source))), max(2, min(LONGEST, round(target)))

    return [pair() for _ in range(count)]


def of_multi30k(folder: Path) -> list[tuple[int, int]]:
    """The lengths of its training pairs in words."""
    corpus = AlignedFiles(source="train.lc.norm.tok.en.gz", target="train.lc.norm.tok.de.gz")
    return [(len(source.split()), len(target.split())) for source, target in read_pairs(corpus, str(folder))]


def length_sorted_batches(lengths: Sequence[tuple[int, int]], scale: Scale) -> list[list[Pair]]:
    """Batches of like lengths that fit the budget when padded: some, evenly from the shortest to the longest."""
    cuts: list[list[tuple[int, int]]] = [[]]
    longest = 0
    for pair in sorted(lengths, key=lambda pair: (pair[1], pair[0])):
        longest = max(longest, max(pair) + 1)
        if (len(cuts[-1]) + 1) * longest > scale.batch_tokens:
            cuts.append([])
            longest = max(pair) + 1
        cuts[-1].append(pair)
    chosen = [cuts[int((number + 0.5) * len(cuts) / scale.batches)] for number in range(scale.batches)]
    draw = np.random.default_rng(0)

    def pieces(count: int) -> list[int]:
        drawn: list[int] = draw.integers(FIRST_PIECE, scale.vocabulary, count).tolist()
        return drawn

    return [[(pieces(source), pieces(target)) for source, target in cut] for cut in chosen]


# --- the two sides ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contestant:
    """A model, and how to train it on all batches once."""

    parameters: int
    run: Callable[[], None]


def parameters_of(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def recurrent(scale: Scale, wiring: Literal["bahdanau", "luong"], alignment: AlignmentName) -> RecurrentModel:
    return RecurrentModel(
        family="recurrent", wiring=wiring, alignment=alignment, cell="gru", width=scale.width,
        embedding=scale.embedding, dropout=DROPOUT,
    )  # fmt: skip


def ours(config: RecurrentModel, scale: Scale, batches: Sequence[Sequence[Pair]], precision: torch.dtype) -> Contestant:
    torch.manual_seed(0)
    model = build_model(config, scale.vocabulary, scale.vocabulary)
    set_precision(model, precision)
    settings = TrainerSettings(len(batches), 1, None, 0, NEVER, NEVER, NEVER, None, False)
    rate = build_learning_rate(Constant(kind="constant", lr=RATE), config.width, len(batches))
    trainer = Trainer(
        model, NextToken(SMOOTHING), build_optimizer(Adam(), model), rate, FixedFeed(batches), torch.device("cpu"),
        settings, Silent(),
    )  # fmt: skip

    def run() -> None:
        trainer.run(Position(), StopRequest())

    return Contestant(parameters_of(model), run)


def joeynmt(attention: Attention, scale: Scale, batches: Sequence[Sequence[Pair]]) -> Contestant:
    torch.manual_seed(0)
    model = joeynmt_model(attention, scale)
    model.loss_function = ("crossentropy", SMOOTHING)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)
    ahead = [joeynmt_batch(pairs) for pairs in batches]

    def run() -> None:
        for batch in ahead:
            loss, _, _, right = model(return_type="loss", **vars(batch))
            mean_loss = batch.normalize(loss, normalization="tokens")
            mean_loss.backward()
            mean_loss.item()
            right.item()
            optimizer.step()
            model.zero_grad()

    return Contestant(parameters_of(model), run)


def joeynmt_model(attention: Attention, scale: Scale) -> Any:
    """JoeyNMT's model, built from such a table as its configuration files have."""
    embeddings = {"embedding_dim": scale.embedding, "dropout": DROPOUT}
    shared = {"type": "recurrent", "rnn_type": "gru", "hidden_size": scale.width, "num_layers": 1}
    table = {
        "encoder": {**shared, "embeddings": embeddings, "bidirectional": True},
        "decoder": {
            **shared, "embeddings": embeddings, "hidden_dropout": DROPOUT, "attention": attention,
            "init_hidden": "bridge", "input_feeding": True,
        },
    }  # fmt: skip
    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=UNKNOWN, pad_id=PAD, bos_id=BEGIN, eos_id=END, sep_id=None, lang_tags=[],
    )  # fmt: skip
    pieces = [f"piece{number}" for number in range(FIRST_PIECE, scale.vocabulary)]
    vocabulary = import_module("joeynmt.vocabulary").Vocabulary(pieces, special)
    return import_module("joeynmt.model").build_model(table, src_vocab=vocabulary, trg_vocab=vocabulary)


def joeynmt_batch(pairs: Sequence[Pair]) -> Any:
    """A batch as its loader makes it, sorted as its trainer does."""
    batch = import_module("joeynmt.batch").Batch(
        src=padded([[*source, END] for source, _ in pairs]),
        src_length=torch.tensor([len(source) + 1 for source, _ in pairs]),
        src_prompt_mask=None,
        trg=padded([[BEGIN, *target, END] for _, target in pairs]),
        trg_prompt_mask=None,
        indices=torch.arange(len(pairs)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=END,
    )
    batch.sort_by_src_length()
    return batch


def padded(sentences: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(sentence) for sentence in sentences], batch_first=True, padding_value=PAD)


def refuse_missing_peer() -> None:
    """End the program where JoeyNMT cannot be imported."""
    try:
        for module in ("batch", "model", "vocabulary"):
            import_module(f"joeynmt.{module}")
    except ImportError as error:
        sys.exit(f"JoeyNMT cannot be imported ({error}): benchmarks/{NAME}.py says at its top how to install it.")


# --- the comparison ---------------------------------------------------------------------------------------------------


def contestants(scale: Scale, batches: Sequence[Sequence[Pair]]) -> dict[str, Contestant]:
    """By name: those that are compared stand next to each other."""
    found = {}
    for attention, alignment in ALIGNMENTS.items():
        config = recurrent(scale, "luong", alignment)
        found[f"joeynmt_{attention}"] = joeynmt(attention, scale, batches)
        found[f"ours_{attention}"] = ours(config, scale, batches, torch.float32)
        found[f"ours_{attention}_bf16"] = ours(config, scale, batches, torch.bfloat16)
    paper = recurrent(scale, "bahdanau", "additive")
    return found | {"ours_bahdanau_wiring": ours(paper, scale, batches, torch.float32)}


def seconds_of(runners: dict[str, Contestant], rounds: int) -> dict[str, list[float]]:
    """Of each round; the first, which is not counted, warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for number in range(rounds + 1):
        for name, contestant in runners.items():
            began = time.perf_counter()
            contestant.run()
            if number:
                seconds[name].append(time.perf_counter() - began)
        print(f"round {number}/{rounds}", file=sys.stderr, flush=True)
    return seconds


def figures_of(seconds: dict[str, list[float]], tokens: int, runners: dict[str, Contestant]) -> dict[str, float]:
    def ratio(peer: str, us: str) -> float:
        return median(theirs / mine for theirs, mine in zip(seconds[peer], seconds[us], strict=True))

    single = {attention: ratio(f"joeynmt_{attention}", f"ours_{attention}") for attention in ALIGNMENTS}
    half = {attention: ratio(f"joeynmt_{attention}", f"ours_{attention}_bf16") for attention in ALIGNMENTS}
    chosen = {a: half[a] if half[a] > WORTH_IT * single[a] else single[a] for a in ALIGNMENTS}
    return {
        "ratio_joeynmt": min(chosen.values()),
        "ratio_joeynmt_float32": min(single.values()),
        **{f"ratio_joeynmt_{attention}": figure for attention, figure in single.items()},
        **{f"ratio_joeynmt_{attention}_bf16": figure for attention, figure in half.items()},
        "ratio_joeynmt_bahdanau_wiring": ratio("joeynmt_bahdanau", "ours_bahdanau_wiring"),
        **{f"{name}_tokens_s": tokens / median(times) for name, times in seconds.items()},
        **{f"{name}_parameters": contestant.parameters for name, contestant in runners.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="take the lengths from Multi30k's files here")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    refuse_missing_peer()
    scale = TINY if options.tiny else FULL
    torch.set_num_threads(THREADS)
    keep_freed_memory()  # as `heedful train` does; the peer has it too
    lengths = of_multi30k(options.data) if options.data else like_multi30k(scale.pairs)
    batches = length_sorted_batches(lengths, scale)
    tokens = sum(len(target) + 1 for pairs in batches for _, target in pairs)
    runners = contestants(scale, batches)
    figures = figures_of(seconds_of(runners, options.rounds), tokens, runners)
    for name, figure in figures.items():
        print(f"{name:34} {figure:>14,.2f}")
    if not options.tiny:
        record(NAME, figures, command=command_line(), seeds=[0], folder=options.results)


if __name__ == "__main__":
    main()
