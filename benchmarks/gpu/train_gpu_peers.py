"""The peers of benchmarks.gpu.train_gpu: MarianMT and torch.nn.Transformer, in a plain loop on padded batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.gpu.train_gpu_work import DROPOUT, SMOOTHING, Lengths, Scale, Stretches, Work
from benchmarks.shared.gpu_work import Shape, rate
from torch import Tensor, nn

from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD

ROUNDED = 8  # rows are padded to a multiple of this many tokens, as tensor cores prefer
COMPILED = "marian_compiled"  # the strongest peer: the curves have it too


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
        # Nothing before a target's end sees the padding after it: without its mask, attention takes the fast way.
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
    """Target tokens per second."""
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
