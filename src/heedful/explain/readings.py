"""A text as a network reads it and what it predicts: what is attributed, read layer by layer, and patched.

Shape letters of this file: K  copies of the text    T  predictions    C  classes
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.explain.capture import differentiable
from heedful.explain.explanation import TokenSequence
from heedful.explain.recorded_states import hook_calls, hooked
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.evaluation_mode import by_equation, evaluation_mode
from heedful.nn.layers.embedding import Embedding

Change = Callable[[str, Tensor, Tensor], Tensor]  # name of a sequence, its embedding, and that of blanks
_COPIED: Final = 4096  # most tokens that are read at once, of all copies


def log_probabilities(scores_KTC: Tensor) -> Tensor:
    """Return log P of classes of which one is right."""
    return scores_KTC.log_softmax(dim=-1)


@dataclass(frozen=True, eq=False)
class Reading:
    """A text that a network reads, and the predictions of which something is asked."""

    network: nn.Module
    run: Callable[[int], Tensor]  # K copies of the text, read at once -> the scores of all predictions, K x T x C
    inputs: Mapping[str, TokenSequence]  # what is embedded: `source` and `target`, or `text`
    outputs: TokenSequence  # names of the predictions that are asked about
    chosen: tuple[int, ...]  # what was predicted: the class of each
    names: Callable[[Sequence[int]], Sequence[str]]  # classes -> their names
    rows: tuple[int, ...] | None = None  # which predictions they are, if not all
    places: tuple[int, ...] = ()  # tokens that predictions are read from, where these are not all or the last ones
    causal: bool = False  # whether a prediction depends on those before it
    others: tuple[int, ...] = ()  # classes that the chosen ones are compared with
    against: tuple[str, ...] = ()  # names of these
    scale: Callable[[Tensor], Tensor] = log_probabilities  # scores -> what is explained
    head: Callable[[Tensor], Tensor] | None = None  # states of the last layer -> the scores of all predictions, T x C
    reader: nn.Module | None = None  # the part whose layers the head can read

    @property
    def tokens(self) -> int:
        """The number of tokens of one copy."""
        return sum(map(len, self.inputs.values()))

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    @property
    def stack(self) -> TransformerEncoder | TransformerDecoder | None:
        """The Transformer whose layers the head can read, if there is one."""
        return None if self.reader is None else next(iter(stacks_of(self.reader).values()), None)

    def of_rows(self, scores_KTC: Float[Tensor, "K T C"]) -> Float[Tensor, "K T C"]:
        """Return what is explained of the predictions that are asked about: log probabilities, or a number."""
        known = self.scale(scores_KTC.to(torch.promote_types(scores_KTC.dtype, torch.float32)))
        return known if self.rows is None else known[:, list(self.rows)]

    def values(self, copies: int = 1) -> Float[Tensor, "K T"]:
        """Read the text, and return log P of each prediction, minus that of the other one in a contrast."""
        known = self.of_rows(self.run(copies))
        found = known[:, range(len(self.chosen)), self.chosen]
        return found - known[:, range(len(self.others)), self.others] if self.others else found

    def contrasted(self, others: Sequence[int]) -> "Reading":
        """Compare the predictions with others: causal ones where they first differ, as both have read the same there.

        A causal prediction of another length differs at its end.
        """
        if tuple(others) == self.chosen:
            raise UserError("`against` is what is explained: give another output to compare with.")
        pairs = list(enumerate(zip(self.chosen, others, strict=not self.causal)))
        if self.causal:
            pairs = [pair for pair in pairs if pair[1][0] != pair[1][1]][:1]
        if not pairs:
            raise UserError("`against` begins with the whole output, or the reverse: there is no token to compare.")
        rows = self.rows or range(len(self.chosen))
        chosen, foils = (tuple(pair[side] for _, pair in pairs) for side in (0, 1))
        return replace(
            self,
            outputs=TokenSequence.named(self.names(chosen)),
            chosen=chosen,
            rows=tuple(rows[number] for number, _ in pairs),
            others=foils,
            against=tuple(self.names(foils)),
        )

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute by the equations, without dropout and without gradients."""
        with torch.no_grad(), evaluation_mode(self.network), by_equation():
            yield

    @contextmanager
    def deriving(self) -> Iterator[None]:
        """Compute by the equations, without dropout and with gradients."""
        with differentiable(self.network):
            yield

    @contextmanager
    def embedding_as(self, change: Change) -> Iterator[None]:
        """Let the network read other vectors inside the block: `change` returns what replaces an embedding.

        N-grams are embedded besides tokens: a sequence may be embedded several times.
        """
        size = {name: len(sequence) for name, sequence in self.inputs.items()}
        first, *_ = size

        def hook(path: str, module: Embedding) -> Any:
            name = "target" if "target" in size and path.startswith("decoder") else first

            def look(called: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
                assert len(output) % size[name] == 0, f"{path} embeds something else than `{name}`"
                return change(name, output.detach(), _blank(module).forward(*given[:3]).detach())

            return hook_calls(module, look)

        found = [one for one in self.network.named_modules() if isinstance(one[1], Embedding)]
        with hooked(hook(path, one) for path, one in found if "letters" not in path.split(".")):
            yield


def _blank(embedding: Embedding) -> Embedding:
    """Return the embedding of words that say nothing, each a vector of zeros: positions and segments stay.

    Zeros, not the vector of `<pad>`: networks read without padding, so that no training ever gave that vector a
    meaning. What is left is where words stand, and what is explained is what they say.
    """
    made = copy(embedding)
    made._parameters = {**embedding._parameters}  # which a copy has in common with what it is a copy of
    made._parameters.pop("markers", None)
    width = embedding.weight.shape[1]

    def zeros(tokens_N: Tensor) -> Tensor:
        return embedding.weight.new_zeros(len(tokens_N), width)

    made.__dict__.update(markers=None, rows=zeros)
    return made


def stacks_of(network: nn.Module) -> dict[str, TransformerEncoder | TransformerDecoder]:
    """Return the Transformers in a network, by name."""
    kinds = TransformerEncoder | TransformerDecoder
    return {name: one for name, one in network.named_modules() if isinstance(one, kinds) and len(one.blocks)}


def chunks_of(reading: Reading, copies: int) -> Iterator[range]:
    """Yield the numbers of copies of a text, as many at a time as fit."""
    most = max(1, _COPIED // max(reading.tokens, 1))
    for first in range(0, copies, most):
        yield range(first, min(first + most, copies))
