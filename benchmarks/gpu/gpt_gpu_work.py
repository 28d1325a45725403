"""The work of benchmarks.gpu.gpt_gpu: the sizes of everything, and random texts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.config.model.language import LanguageModelTable, TransformerDecoderTable
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import BEGIN, END

FIRST_PIECE = 4  # the ids before it are markers


@dataclass(frozen=True)
class Scale:
    """The sizes of everything in the benchmark."""

    decoder: TransformerDecoderTable
    vocabulary: int
    length: int
    batch_tokens: int
    windows: int  # tokens of the text, in windows
    warm: int
    stretches: int
    steps: int  # of a stretch
    peer_batches: int
    prompt: int
    generated: int
    batches: tuple[int, ...]

    @property
    def model(self) -> LanguageModelTable:
        return LanguageModelTable(family="language", decoder=self.decoder)


def _decoder(**shape: Any) -> TransformerDecoderTable:
    return TransformerDecoderTable(dropout=0.0, dropout_attention=0.0, **shape)


FULL = Scale(_decoder(preset="small"), 50_304, 1024, 32_768, 2000, 30, 5, 10, 16, 32, 256, (1, 64))
TINY = Scale(
    _decoder(width=32, heads=2, layers=2, inner=64, max_positions=64), 192, 32, 128, 40, 2, 2, 2, 3, 8, 16, (1, 4)
)


def full_text(scale: Scale) -> TokenStore:
    """One long text of random pieces."""
    random = np.random.default_rng(0)
    return TokenStore.of(text=[random.integers(FIRST_PIECE, scale.vocabulary, scale.windows * scale.length).tolist()])


def mixed_documents(scale: Scale) -> TokenStore:
    """Documents of random pieces, of lengths that spread evenly in their logarithm, with their markers."""
    random = np.random.default_rng(0)
    lengths = np.exp(random.uniform(np.log(scale.length / 32), np.log(scale.length), 4 * scale.windows)).astype(int)
    texts = [[BEGIN, *random.integers(FIRST_PIECE, scale.vocabulary, length - 1).tolist(), END] for length in lengths]
    return TokenStore.of(text=texts)
