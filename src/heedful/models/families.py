"""The named families: compositions of an encoder, a decoder, and what joins them."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.models.protocols import Decoder, Encoder
from heedful.nn.embedding import Embedding
from heedful.packed import Packed


class EncoderDecoder(nn.Module):
    """Any encoder with any decoder over its memory: the Transformer, and every other sequence-to-sequence model."""

    encoder: Encoder
    decoder: Decoder

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder  # type: ignore[assignment]

    def forward(self, source: Packed, target: Packed) -> Float[Tensor, "N V"]:
        """Scores of every next target token, given the target so far (teacher forcing)."""
        return self.decoder(target, self.encoder(source))

    def states(self, source: Packed, target: Packed) -> Float[Tensor, "N E"]:
        """The vectors that the output layer scores: a loss need not hold the scores of the whole batch."""
        return self.decoder.states(target, self.encoder(source))


def set_precision(model: nn.Module, precision: torch.dtype) -> None:
    """Choose the type that values have inside the model; weights keep theirs."""
    for module in model.modules():
        if isinstance(module, Embedding):
            module.precision = precision


def store_in(network: nn.Module, precision: torch.dtype) -> None:
    """Keep the matrices in the type they compute in, so that no step converts them; norms stay as they are."""
    for module in network.modules():
        if not isinstance(module, nn.LayerNorm):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(precision)
