"""Training speed of BERT on one GPU: ours against transformers' BertForPreTraining, on the same inputs.

    python -m benchmarks.gpu.train_gpu_bert [--lengths 128,512] [--peers static,dynamic] [--merge] [--tiny]

The work is the base shape (12 layers, width 768, 12 heads, inner 3072, a vocabulary of 30,522) as the paper trains it:
15% of the tokens masked, next-sentence prediction, dropout 0.1 on residuals, embeddings and attention weights, AdamW,
in bfloat16 with float32 weights, 24,576 tokens a step. Inputs come from documents of random sentences, so nearly all of
them are as long as they may be; the paper's two phases have 128 and 512 tokens.

Ours runs through the trainer that `heedful train` uses, loader included. The peer runs through a plain loop with
autocast and torch.compile on the same inputs, on the device already, padded to their longest. It is given the labels,
as its documentation has it: it scores every place, where ours scores the masked ones. Two ways to pad it are tried, and
the faster one counts: all rows to the longest there may be, in one static shape, and batches of similar lengths padded
to a multiple of 8, with dynamic shapes.

tokens_s     real tokens a second, markers included; the median over stretches
filled       the share of real tokens in the static shape's rows: more than its inverse no padding can gain
ratio        ours to the compiled peer at the first length
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from benchmarks.shared.gpu_work import Results, peak_gib, rate, trained_rate
from torch import Tensor, nn

from heedful.base.devices import choose_device
from heedful.base.packed import IGNORED
from heedful.config.corpora.containers import PlainText
from heedful.config.data import Data
from heedful.config.model.encoder_only import BertModel
from heedful.config.recipe import Recipe
from heedful.config.train.optimizers import AdamW
from heedful.config.train.schedules import Constant
from heedful.config.train.table import Train, Validation
from heedful.data.batches.masked import MaskedBatch, MaskedFeed
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import PAD, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.recorded_results import RESULTS
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.runs.training_run import set_up
from heedful.tasks.fill.task import FillTask

MASK, FIRST_PIECE = 4, 5
ROUNDED = 8  # the peer's rows are padded to a multiple of so many tokens, as tensor cores want it
PEERS = ("static", "dynamic")
NEVER = 10**9


@dataclass(frozen=True)
class Scale:
    """The sizes of everything in the benchmark."""

    model: BertModel
    vocabulary: int
    batch_tokens: int
    documents: int
    lengths: tuple[int, ...]
    warm: int
    stretches: int
    steps: int  # of a stretch
    peer_batches: int


FULL = Scale(BertModel(family="bert", preset="base"), 30_522, 24_576, 3000, (128, 512), 30, 5, 10, 20)
TINY = Scale(
    BertModel(family="bert", preset="tiny", width=32, inner=64), 200, 1024, 40, (32, 64), 2, 2, 2, 3
)  # fmt: skip


def documents(scale: Scale) -> TokenStore:
    """Random pieces in 20 to 60 sentences a document, of lengths like those of an encyclopedia."""
    random = np.random.default_rng(0)
    sentences = [
        random.lognormal(np.log(22), 0.5, random.integers(20, 60)).clip(3, 80).astype(int).tolist()
        for _ in range(scale.documents)
    ]
    text = [random.integers(FIRST_PIECE, scale.vocabulary, sum(lengths)).tolist() for lengths in sentences]
    return TokenStore.of(text=text, sentences=sentences)


def recipe_for(scale: Scale, length: int, device: torch.device, steps: int) -> Recipe:
    in_memory = PlainText(text="none")  # a recipe needs one; nothing reads it
    return Recipe(
        data=Data(train=(in_memory,), batch_tokens=scale.batch_tokens, max_length=length),
        model=scale.model,
        train=Train(
            steps=steps,
            optimizer=AdamW(kind="adamw"),
            schedule=Constant(kind="constant", lr=1e-4),
            seed=0,
            device=device.type,
            precision="bfloat16",
            log_every=scale.steps,
            checkpoint_every=NEVER,
            validation=Validation(every=NEVER),
        ),
    )


class Vocabulary:
    """All that the masked feed asks of a tokenizer."""

    def __init__(self, size: int) -> None:
        self.size, self.markers, self.mask = size, FIRST_PIECE, MASK


def prepared_for(scale: Scale, store: TokenStore) -> Prepared:
    vocabulary = cast(Tokenizer, Vocabulary(scale.vocabulary))
    return Prepared(Vocabularies({"text": vocabulary}), train=(store,), weights=(1.0,), valid=())


# --- ours -------------------------------------------------------------------------------------------------------------


def our_rate(scale: Scale, store: TokenStore, length: int, device: torch.device) -> tuple[float, float]:
    """Tokens per second, and the share of time spent waiting for batches."""
    recipe = recipe_for(scale, length, device, scale.warm + scale.stretches * scale.steps)
    set_up(recipe)
    prepared, task = prepared_for(scale, store), FillTask()
    torch.manual_seed(0)
    model = build_masked_model(scale.model, scale.vocabulary).to(device)
    return trained_rate(recipe, task, prepared, model, device, scale.warm)


# --- the peer ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Padded:
    """A batch as the peer wants it."""

    inputs: dict[str, Tensor]
    tokens: int  # the real ones


def padded_batches(scale: Scale, store: TokenStore, length: int, device: torch.device, full: bool) -> list[Padded]:
    """Some batches of ours, as rows; `full` ones all of one shape."""
    recipe = recipe_for(scale, length, device, 1)
    feed: MaskedFeed = FillTask().feed(recipe, prepared_for(scale, store))
    rows = scale.batch_tokens // length
    batches = (feed.batch(spans) for spans in feed.plan(0))
    chosen = islice(_of_rows(batches, rows) if full else batches, scale.peer_batches)
    return [_padded(batch, length if full else None, rows if full else None, device) for batch in chosen]


def _of_rows(batches: Iterator[MaskedBatch], rows: int) -> Iterator[MaskedBatch]:
    """Those with so many inputs at least."""
    return (batch for batch in batches if batch.sentences >= rows)


def _padded(batch: MaskedBatch, width: int | None, rows: int | None, device: torch.device) -> Padded:
    layout, count = batch.text.layout, rows or batch.sentences
    lengths = layout.lengths[:count]
    width = width or -(-int(lengths.max()) // ROUNDED) * ROUNDED
    flat = torch.full((layout.tokens,), IGNORED)
    flat[batch.places] = batch.labels
    assert batch.text.segments is not None

    def padded(values: Tensor, rest: int) -> Tensor:
        made = torch.full((count, width), rest)
        keep = torch.arange(width) < lengths.unsqueeze(1)
        made[keep] = values[: int(lengths.sum())]
        return made.to(device)

    inputs = {
        "input_ids": padded(batch.text.values, PAD),
        "token_type_ids": padded(batch.text.segments, 0),
        "attention_mask": padded(torch.ones_like(batch.text.values), 0),
        "labels": padded(flat, IGNORED),
        "next_sentence_label": batch.next[:count].to(device),
    }
    return Padded(inputs, int(lengths.sum()))


def bert(scale: Scale) -> nn.Module:
    """The same model of transformers."""
    from transformers import BertConfig, BertForPreTraining

    config = BertConfig(
        vocab_size=scale.vocabulary, hidden_size=scale.model.width, num_hidden_layers=scale.model.layers,
        num_attention_heads=scale.model.heads, intermediate_size=scale.model.inner,
    )  # fmt: skip
    model: nn.Module = BertForPreTraining(config)
    return model


def peer_rate(
    scale: Scale, store: TokenStore, length: int, device: torch.device, full: bool, compiled: bool = True
) -> float:
    """Tokens per second."""
    torch.manual_seed(0)
    model: Any = bert(scale).to(device).train()
    if compiled:
        model.compile(dynamic=not full)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    ahead = cycle(padded_batches(scale, store, length, device, full))

    def step() -> int:
        batch = next(ahead)
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(**batch.inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return batch.tokens

    return rate(step, warm=max(scale.peer_batches, scale.warm), stretches=scale.stretches, steps=scale.steps)


# --- the program ------------------------------------------------------------------------------------------------------


def filled(scale: Scale, store: TokenStore, length: int) -> float:
    """The share of real tokens in the rows of the one static shape."""
    batches = padded_batches(scale, store, length, torch.device("cpu"), full=True)
    return sum(batch.tokens for batch in batches) / sum(batch.inputs["input_ids"].numel() for batch in batches)


def measure(results: Results, scale: Scale, length: int, device: torch.device, peers: Sequence[str]) -> None:
    store = documents(scale)
    with results.part(f"ours_{length}"):
        tokens_s, waited = our_rate(scale, store, length, device)
        results.add(
            **{f"tokens_s_{length}": tokens_s, f"memory_gib_{length}": peak_gib(), f"data_wait_{length}": waited}
        )
    for name in peers:
        full = name == "static"
        with results.part(f"compiled_{name}_{length}"):
            theirs = peer_rate(scale, store, length, device, full)
            results.add(**{f"tokens_s_{name}_{length}": theirs, f"memory_gib_{name}_{length}": peak_gib()})
            if full:
                results.add(**{f"filled_{length}": filled(scale, store, length)})
    rates = {key: figure for key, figure in results.figures.items() if key.startswith("tokens_s_")}
    known = [rates[key] for key in (f"tokens_s_static_{length}", f"tokens_s_dynamic_{length}") if key in rates]
    if known and f"tokens_s_{length}" in rates:
        with results.part(f"ratio_{length}"):
            ratio = rates[f"tokens_s_{length}"] / max(known)
            results.add(**{f"ratio_{length}": ratio}, **({"ratio": ratio} if length == scale.lengths[0] else {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", help="of inputs, in tokens; by default 128,512")
    parser.add_argument("--peers", default=",".join(PEERS), help="ways to pad the peer; by default both")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the program out; records nothing")
    options = parser.parse_args()
    unknown = next((name for name in options.peers.split(",") if name not in PEERS), None)
    if unknown:
        parser.error(f"--peers: `{unknown}` is not one of {', '.join(PEERS)}")
    scale = TINY if options.tiny else FULL
    lengths = [int(length) for length in options.lengths.split(",")] if options.lengths else scale.lengths
    device = choose_device("auto")
    results = Results("train_gpu_bert", None if options.tiny else options.results, options.merge)
    for length in lengths:
        measure(results, scale, length, device, options.peers.split(","))
    results.exit()


if __name__ == "__main__":
    main()
