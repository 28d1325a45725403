"""The convolutional language model: a decoder without memory, by the protocol `models.protocols.Decoder`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.models.protocols import DecoderWithoutMemory
from heedful.nn.layers.convolutions.causal import ConvolutionBlock
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.embedding import Embedding, Output


@dataclass(frozen=True, eq=False)
class ConvolutionalRows:
    """The last inputs of every layer, of K rows for each of B sentences."""

    beams: int
    before: tuple[Float[Tensor, "R J E"], ...]  # of each layer

    @property
    def attention_RL(self) -> None:  # the protocol's name
        """None: there is no memory to attend to."""
        return None

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "ConvolutionalRows":
        """Let row k of a sentence continue that sentence's row parents[k]."""
        first_B1 = torch.arange(0, parents_BK.numel(), self.beams, device=parents_BK.device).unsqueeze(1)
        return self.with_rows((first_B1 + parents_BK).flatten())

    def narrow(self, sentences: Int[Tensor, "A"]) -> "ConvolutionalRows":
        """Keep only these sentences, with all their rows."""
        rows_AK = sentences.unsqueeze(1) * self.beams + torch.arange(self.beams, device=sentences.device)
        return self.with_rows(rows_AK.flatten())

    def with_rows(self, rows: Int[Tensor, "A"]) -> "ConvolutionalRows":
        """Return these rows, in this order; rows may repeat."""
        return replace(self, before=tuple(layer.index_select(0, rows) for layer in self.before))


class ConvolutionalLanguageModel(DecoderWithoutMemory):
    """scores of token t + 1 = W D(y(t)), y the last of several causal convolutions over embeddings

    A token sees itself and layers * (kernel - 1) tokens before it, wherever it is in the text.
    """

    def __init__(
        self, embedding: Embedding, blocks: Sequence[ConvolutionBlock], output: Output, dropout: float
    ) -> None:
        super().__init__()
        if embedding.positions is not None:
            raise ValueError("a convolution looks the same everywhere: its embedding must have no positions")
        self.embedding, self.output = embedding, output
        self.blocks: Sequence[ConvolutionBlock] = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.drop = Dropout(dropout)

    def states(self, tokens: Packed, memory: Packed | None = None) -> Float[Tensor, "N E"]:
        """Return the vectors that `output` turns into scores, for whole sentences."""
        self.refuse(memory)
        x_NE = self.embedding(tokens.values, tokens.layout)
        for block in self.blocks:
            x_NE = block(x_NE, tokens.layout)
        dropped: Tensor = self.drop(x_NE)
        return dropped

    def start(
        self, memory: Packed | None = None, beams: int = 1, aligned: bool = False, prompt: Packed | None = None
    ) -> ConvolutionalRows:
        """Read the prompt and start K rows per sentence after it."""
        prompt = self.check_start(memory, aligned, prompt)
        x_NE, before = self.embedding(prompt.values, prompt.layout), []
        for block in self.blocks:
            before.append(block.convolution.last(x_NE, prompt.layout))
            x_NE = block(x_NE, prompt.layout)
        rows = torch.arange(prompt.layout.sentences, device=x_NE.device).repeat_interleave(beams)
        return ConvolutionalRows(beams, tuple(before)).with_rows(rows)

    def step(
        self, tokens_R: Int[Tensor, "R"], state: ConvolutionalRows
    ) -> tuple[Float[Tensor, "R V"], ConvolutionalRows]:
        """Decode one token per row."""
        x_RE, after = self.embedding.step(tokens_R, 0), []
        for block, before in zip(self.blocks, state.before, strict=True):
            x_RE, following = block.step(x_RE, before)
            after.append(following)
        return self.output(self.drop(x_RE)), replace(state, before=tuple(after))
