"""Training speed on a CPU: ours against transformers' MarianMT, on the same length-sorted batches in one run.

    python benchmarks/cpu/train_cpu.py [--rounds 5] [--no-record]

Width 256, 3+3 layers, inner 1024, 4 heads, vocabulary of 8,000 with one tied matrix, dropout 0.1, label smoothing 0.1,
about 2,048 tokens per batch, Adam with PyTorch's fused kernel on both sides. Ours runs through the trainer that
`heedful train` uses (seeding, gradient norm and background loading included); the peer through a plain loop on batches
padded ahead. Rounds alternate between the four, and a ratio is the median over the rounds.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F

from heedful.base.devices import keep_freed_memory
from heedful.config.model.transformer import TransformerModel
from heedful.config.train.optimizers import Adam
from heedful.config.train.schedules import Constant
from heedful.data.batches.pairs import PairBatch, collate
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD
from heedful.metrics.recorded_results import record
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision
from heedful.training.checkpoints import Position
from heedful.training.objectives import NextToken
from heedful.training.optimizers.build import build_optimizer
from heedful.training.schedules import build_learning_rate
from heedful.training.signals import StopRequest
from heedful.training.trainer import Observer, StepMetrics, Trainer, TrainerSettings

WIDTH, INNER, HEADS, LAYERS, VOCABULARY = 256, 1024, 4, 3, 8000
BATCH_TOKENS, BATCHES, THREADS = 2048, 8, 2

Pair = tuple[list[int], list[int]]


def length_sorted_batches() -> list[list[Pair]]:
    """Sentences of caption-like lengths (mean 16), targets 0.85 to 1.25 times as long, cut so that padding fits too."""
    draw = random.Random(0)

    def pair() -> Pair:
        source = max(3, min(60, int(draw.lognormvariate(math.log(15), 0.35))))
        target = max(3, min(60, int(source * draw.uniform(0.85, 1.25))))
        return ([draw.randrange(4, VOCABULARY) for _ in range(n)] for n in (source, target))  # type: ignore[return-value]

    pairs = sorted((tuple(pair()) for _ in range(4000)), key=lambda p: (len(p[1]), len(p[0])))
    batches: list[list[Pair]] = [[]]
    for source, target in pairs:
        longest = max([len(source), len(target), *(max(len(s), len(t)) for s, t in batches[-1])]) + 1
        if (len(batches[-1]) + 1) * longest > BATCH_TOKENS:
            batches.append([])
        batches[-1].append((source, target))
    draw.shuffle(batches)
    return batches[:BATCHES]


class FixedFeed:
    """The batches, in order, as a feed for the trainer."""

    def __init__(self, batches: Sequence[Sequence[Pair]]) -> None:
        self.batches = [
            collate([TokenStore.of(source=[s for s, _ in pairs], target=[t for _, t in pairs])], np.arange(len(pairs)))
            for pairs in batches
        ]

    def plan(self, epoch: int) -> list[Indices]:
        return [np.array([number]) for number in range(len(self.batches))]

    def batch(self, indices: Indices) -> PairBatch:
        return self.batches[int(indices[0])]


class Silent(Observer):
    """Watches and says nothing."""

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None: ...
    def validate(self) -> Mapping[str, float]:
        return {}

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None: ...
    def checkpoint(self, position: Position) -> None: ...


def ours(batches: Sequence[Sequence[Pair]], precision: torch.dtype) -> Callable[[], None]:
    torch.manual_seed(0)
    config = TransformerModel(width=WIDTH, inner=INNER, heads=HEADS, layers=LAYERS, dropout=0.1)
    model = build_model(config, VOCABULARY, VOCABULARY)
    set_precision(model, precision)
    never = 10**9
    settings = TrainerSettings(len(batches), 1, None, 0, never, never, never, None, False)
    rate = build_learning_rate(Constant(kind="constant", lr=1e-4), WIDTH, len(batches))
    optimizer = build_optimizer(Adam(), model)
    trainer = Trainer(
        model, NextToken(0.1), optimizer, rate, FixedFeed(batches), torch.device("cpu"), settings, Silent()
    )
    return lambda: void(trainer.run(Position(), StopRequest()))


def void(value: object) -> None:
    """Drop a value."""


def marian(batches: Sequence[Sequence[Pair]], precision: torch.dtype) -> Callable[[], None]:
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, dropout=0.1, attention_dropout=0.0, activation_function="relu",
        encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_ffn_dim=INNER, decoder_ffn_dim=INNER,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, scale_embedding=True,
        pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=BEGIN, max_position_embeddings=512,
    )  # fmt: skip
    model = MarianMTModel(config).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    padded = [
        (
            rows([[*source, END] for source, _ in pairs]),
            rows([[BEGIN, *target] for _, target in pairs]),
            rows([[*target, END] for _, target in pairs]),
        )
        for pairs in batches
    ]

    def epoch() -> None:
        for source, target, labels in padded:
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
                logits = model(
                    input_ids=source, attention_mask=(source != PAD).long(), use_cache=False,
                    decoder_input_ids=target, decoder_attention_mask=(target != PAD).long(),
                ).logits  # fmt: skip
                loss = F.cross_entropy(
                    logits.flatten(0, 1).float(), labels.flatten(), ignore_index=PAD, label_smoothing=0.1
                )
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return epoch


def rows(sentences: Sequence[Sequence[int]]) -> torch.Tensor:
    """Pad sentences to the longest."""
    longest = max(map(len, sentences))
    return torch.tensor([[*sentence, *[PAD] * (longest - len(sentence))] for sentence in sentences])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    keep_freed_memory()  # as `heedful train` does; the peer has it too
    batches = length_sorted_batches()
    tokens = sum(len(target) + 1 for pairs in batches for _, target in pairs)
    runners = {
        "ours_fp32": ours(batches, torch.float32),
        "marian_fp32": marian(batches, torch.float32),
        "ours_bf16": ours(batches, torch.bfloat16),
        "marian_bf16": marian(batches, torch.bfloat16),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for number in range(options.rounds + 1):
        for name, run in runners.items():
            began = time.perf_counter()
            run()
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - began)
        print(f"round {number}/{options.rounds}", file=sys.stderr, flush=True)

    def ratio(peer: str, us: str) -> float:
        return median(theirs / mine for theirs, mine in zip(seconds[peer], seconds[us], strict=True))

    figures = {
        "ratio_fp32": ratio("marian_fp32", "ours_fp32"),
        "ratio_bf16_to_its_fp32": ratio("marian_fp32", "ours_bf16"),
        "ratio_bf16_to_its_bf16": ratio("marian_bf16", "ours_bf16"),
        **{f"{name}_tokens_s": tokens / median(times) for name, times in seconds.items()},
    }
    for name, figure in figures.items():
        print(f"{name:28} {figure:,.2f}")
    if not options.no_record:
        record("train_cpu", figures, command="python benchmarks/cpu/train_cpu.py", seeds=[0])


if __name__ == "__main__":
    main()
