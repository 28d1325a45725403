"""The peers of benchmarks.gpu.gpt_gpu: transformers' GPT-2 and a plain one, in a compiled loop on padded batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.gpu.gpt_gpu_work import Scale
from benchmarks.shared.gpu_work import rate
from torch import Tensor, nn

from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD

IGNORED = -100


class PlainBlock(nn.Module):
    """A pre-norm block, as people write it."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.into, self.out = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.project(self.first(x)).chunk(3, 2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).flatten(2))
        updated: Tensor = x + self.out(F.gelu(self.into(self.second(x)), approximate="tanh"))
        return updated


class PlainGpt(nn.Module):
    """GPT-2 in PyTorch's own modules."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        table = scale.decoder
        self.tokens = nn.Embedding(scale.vocabulary, table.width)
        self.positions = nn.Embedding(table.max_positions, table.width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.blocks = nn.ModuleList(PlainBlock(table.width, table.heads, table.inner) for _ in range(table.layers))
        self.final = nn.LayerNorm(table.width)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        scores = F.linear(self.final(x), self.tokens.weight)
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


class HuggingFaceGpt(nn.Module):
    """GPT2LMHeadModel; labels are shifted already."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.model = hugging_face(scale)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        scores = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED)


def hugging_face(scale: Scale) -> Any:
    """The same model of transformers, with PyTorch's fused attention."""
    from transformers import GPT2Config, GPT2LMHeadModel

    table = scale.decoder
    config = GPT2Config(
        vocab_size=scale.vocabulary, n_positions=table.max_positions, n_embd=table.width, n_layer=table.layers,
        n_head=table.heads, n_inner=table.inner, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=BEGIN, eos_token_id=END, pad_token_id=PAD, attn_implementation="sdpa",
    )  # fmt: skip
    return GPT2LMHeadModel(config)


PEERS: dict[str, Callable[[Scale], nn.Module]] = {"plain": PlainGpt, "transformers": HuggingFaceGpt}


@dataclass(frozen=True, eq=False)
class Padded:
    """A batch as peers want it."""

    tokens: Tensor
    labels: Tensor
    real: int  # the labels that count


def full_batches(scale: Scale, store: TokenStore, device: torch.device) -> list[Padded]:
    """Windows of one text, all of one shape."""
    values = torch.from_numpy(store.streams["text"].values.astype(np.int64))
    rows, batches = scale.batch_tokens // scale.length, []
    for number in range(scale.peer_batches):
        begin = number * scale.batch_tokens
        batch = values[begin : begin + scale.batch_tokens + 1].to(device)
        tokens, labels = (part.view(rows, scale.length) for part in (batch[:-1], batch[1:]))
        batches.append(Padded(tokens, labels, scale.batch_tokens))
    return batches


def padded_documents(scale: Scale, store: TokenStore, device: torch.device, one_shape: bool) -> list[Padded]:
    """Documents as padded rows: all to the longest, or similar lengths together, to a multiple of 8."""
    random, text = np.random.default_rng(0), store.streams["text"]
    cuts = list(_cuts(text.lengths() - 1, scale, one_shape))
    chosen = random.permutation(len(cuts))[: scale.peer_batches]
    return [_padded(store, cuts[number], scale.length if one_shape else None, device) for number in chosen]


def _cuts(lengths: np.ndarray[Any, Any], scale: Scale, one_shape: bool) -> Iterator[list[int]]:
    if one_shape:
        rows = scale.batch_tokens // scale.length
        order = np.random.default_rng(1).permutation(len(lengths)).tolist()
        yield from (order[begin : begin + rows] for begin in range(0, len(order) - rows, rows))
        return
    begun: list[int] = []
    for index in np.argsort(lengths, kind="stable").tolist():
        if (len(begun) + 1) * int(lengths[index]) > scale.batch_tokens:
            yield begun
            begun = []
        begun.append(index)


def _padded(store: TokenStore, rows: Sequence[int], width: int | None, device: torch.device) -> Padded:
    texts = [store.sentence("text", row).astype(np.int64) for row in rows]
    width = width or -(-(max(map(len, texts)) - 1) // 8) * 8
    tokens, labels = np.full((len(rows), width), PAD), np.full((len(rows), width), IGNORED)
    for row, text in enumerate(texts):
        tokens[row, : len(text) - 1], labels[row, : len(text) - 1] = text[:-1], text[1:]
    real = sum(len(text) - 1 for text in texts)
    return Padded(torch.from_numpy(tokens).to(device), torch.from_numpy(labels).to(device), real)


def peer_rate(scale: Scale, name: str, batches: list[Padded], device: torch.device, dynamic: bool) -> float:
    """Tokens per second."""
    torch.manual_seed(0)
    model: Any = PEERS[name](scale).to(device).train()
    model.compile(dynamic=dynamic)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    ahead = cycle(batches)

    def step() -> int:
        batch = next(ahead)
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(batch.tokens, batch.labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return batch.real

    return rate(step, warm=max(len(batches), scale.warm), stretches=scale.stretches, steps=scale.steps)
