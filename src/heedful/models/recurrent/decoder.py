"""The recurrent decoder, which keeps the protocol of `models.protocols.Decoder` with any wiring."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.models.protocols import position_limit
from heedful.models.recurrent.state import RecurrentRows
from heedful.models.recurrent.wirings import Wiring
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.padding import pad, unpad
from heedful.nn.per_sentence import copy_to_tokens


class RecurrentDecoder(nn.Module):
    """Embedding, wiring, dropout and the output layer."""

    def __init__(self, embedding: Embedding, wiring: Wiring, drop: "EachToken", output: Output) -> None:
        super().__init__()
        self.embedding, self.wiring, self.drop, self.output = embedding, wiring, drop, output
        self.own_share = 0.0  # share of tokens in training that are its own samples instead of the true ones

    @property
    def longest(self) -> int | None:
        """The number of tokens that there are positions for; None if it is unlimited."""
        return min(position_limit(self), default=None)

    def states(self, tokens: Packed, memory: Packed | None) -> Float[Tensor, "N E"]:
        """Return the vectors that `output` turns into scores, for whole sentences."""
        memory = _given(memory)
        if self.training and self.own_share:
            return self._with_own_tokens(tokens, memory)
        y_NE = self.embedding(tokens.values, tokens.layout)
        vectors: Tensor = self.drop(self.wiring(y_NE, tokens.layout, memory), tokens.layout)
        return vectors

    def _with_own_tokens(self, tokens: Packed, memory: Packed) -> Float[Tensor, "N E"]:
        """Scheduled sampling: after the first, each token is with probability `own_share` one that was drawn from the
        scores of the previous step      Bengio et al. 2015, 2.3"""
        true_BL, layout = pad(tokens.values, tokens.layout), tokens.layout
        state, given_B = self.wiring.start(memory, 1, aligned=False), true_BL[:, 0]
        vectors: list[Tensor] = []
        for position in range(layout.bound):
            if position:
                scores_BV = self.output(vectors[-1]).detach().float()
                own_B = torch.distributions.Categorical(logits=scores_BV).sample()
                coin_B = torch.rand(own_B.shape, device=own_B.device) < self.own_share
                given_B = torch.where(coin_B, own_B, true_BL[:, position])
            vectors_BE, state = self.wiring.step(self.embedding.step(given_B, position), state)
            vectors.append(self.drop(vectors_BE, None))
        return unpad(torch.stack(vectors, dim=1), layout)

    def forward(self, tokens: Packed, memory: Packed | None) -> Float[Tensor, "N V"]:
        """Return the scores of every next token, for whole sentences."""
        logits: Tensor = self.output(self.states(tokens, memory))
        return logits

    def start(
        self, memory: Packed | None, beams: int = 1, aligned: bool = False, prompt: Packed | None = None
    ) -> RecurrentRows:
        """Start K rows per sentence; where nothing attends, the weights are equal for all tokens of the memory."""
        if prompt is None:
            return self.wiring.start(_given(memory), beams, aligned)
        if self.wiring.windowed and not prompt.layout.even:
            raise ValueError("a window that moves with the position needs prompts of one length")
        rows = self.wiring.start(_given(memory), 1, aligned)
        if prompt.layout.tokens:
            rows = self.wiring.read(self.embedding(prompt.values, prompt.layout), prompt.layout, rows)
        return rows.repeat(beams)

    def step(self, tokens_R: Int[Tensor, "R"], state: RecurrentRows) -> tuple[Float[Tensor, "R V"], RecurrentRows]:
        """Decode one token per row."""
        vectors_RW, state = self.wiring.step(self.embedding.step(tokens_R, state.position), state)
        return self.output(self.drop(vectors_RW, None)), state


def _given(memory: Packed | None) -> Packed:
    if memory is None:
        raise ValueError("this decoder starts from a memory, but was given none")
    return memory


class EachToken(nn.Module):
    """Dropout with a mask per token."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.drop = Dropout(share)

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout | None) -> Float[Tensor, "N E"]:
        """Drop, in training."""
        dropped: Tensor = self.drop(x_NE)
        return dropped


class EachSentence(EachToken):
    """Dropout with a mask per sentence, equal for all its tokens      Gal and Ghahramani 2016"""

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout | None) -> Float[Tensor, "N E"]:
        """Drop, in training; without a layout each row is a sentence."""
        if not self.training or layout is None:
            return super().forward(x_NE, layout)
        return x_NE * copy_to_tokens(self.drop(x_NE.new_ones(layout.sentences, x_NE.shape[1])), layout)
