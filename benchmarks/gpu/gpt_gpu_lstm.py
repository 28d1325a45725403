"""The recurrent part of benchmarks.gpu.gpt_gpu: an LSTM over words, and PyTorch's word-language-model example.

The work is the example's: two layers of width 650, 20 streams, 35 steps of back-propagation, dropout 0.5, a vocabulary
of 33,278 whose matrix is tied, gradients clipped at 0.25; with AdamW on both sides, as fused as PyTorch has it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.shared.gpu_work import rate
from torch import Tensor, nn

from heedful.config.model.language import LanguageModelTable, RecurrentDecoderTable

CLIP_NORM = 0.25


@dataclass(frozen=True)
class LstmScale:
    """The sizes of the recurrent part."""

    width: int
    vocabulary: int
    streams: int
    steps: int  # that gradients reach back
    segments: int
    warm: int
    stretches: int
    updates: int  # of a stretch

    @property
    def model(self) -> LanguageModelTable:
        decoder = RecurrentDecoderTable(family="recurrent", cell="lstm", width=self.width, layers=2, dropout=0.5)
        return LanguageModelTable(family="language", decoder=decoder)

    @property
    def tokens(self) -> int:
        return self.streams * self.steps


FULL_LSTM = LstmScale(650, 33_278, 20, 35, 400, 40, 5, 60)
TINY_LSTM = LstmScale(16, 192, 4, 5, 20, 2, 2, 2)


class WordLanguageModel(nn.Module):
    """The example's network, in PyTorch's own modules."""

    def __init__(self, scale: LstmScale) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.embedding = nn.Embedding(scale.vocabulary, scale.width)
        self.lstm = nn.LSTM(scale.width, scale.width, 2, dropout=0.5)
        self.output = nn.Linear(scale.width, scale.vocabulary)
        self.output.weight = self.embedding.weight
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        found, last = self.lstm(self.drop(self.embedding(tokens)), state)
        return F.log_softmax(self.output(self.drop(found)).flatten(0, 1), dim=1), last


def example_rate(scale: LstmScale, device: torch.device, autocast: bool) -> float:
    """Tokens per second of the example's loop, with batches that are on the device already."""
    torch.manual_seed(0)
    model = WordLanguageModel(scale).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    text = torch.from_numpy(np.random.default_rng(0).integers(4, scale.vocabulary, (scale.segments, scale.tokens + 1)))
    batches = [(row[:-1].view(scale.steps, scale.streams), row[1:].contiguous()) for row in text.to(device)]
    state: Any = tuple(torch.zeros(2, scale.streams, scale.width, device=device) for _ in range(2))
    number = 0

    def step() -> int:
        nonlocal state, number
        tokens, labels = batches[number % len(batches)]
        number += 1
        model.zero_grad()
        state = tuple(part.detach() for part in state)
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            scores, state = model(tokens, state)
            loss = F.nll_loss(scores, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        return scale.tokens

    return rate(step, warm=scale.warm, stretches=scale.stretches, steps=scale.updates)
