"""Truncated back-propagation through time: states are carried from segment to segment, gradients are not.

Williams and Peng 1990, in the usual form of language models: gradients reach back to the start of the current segment.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.packed import IGNORED, Layout
from heedful.data.batches.windows import StreamBatch
from heedful.models.networks import LanguageModel
from heedful.models.recurrent.language_model import RecurrentLanguageModel
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.nn.recurrent.cells import RecurrentState
from heedful.training.objectives import Sums


@dataclass(frozen=True)
class ActivationPenalty:
    """alpha * mean(D(h(t))^2) + beta * mean((h(t) - h(t-1))^2)      Merity et al. 2017

    h is the output of the last layer, and D its dropout; the means are over all values of a segment.
    """

    alpha: float = 0.0
    beta: float = 0.0

    def __call__(
        self, hidden_NE: Float[Tensor, "N E"], dropped_NE: Float[Tensor, "N E"], layout: Layout
    ) -> Float[Tensor, ""]:
        """Return the penalty of a segment."""
        total = self.alpha * dropped_NE.float().square().mean()
        if self.beta:
            starts_N1 = (layout.positions[1:] == 0).unsqueeze(1)  # the token before is that of another stream
            change_NE = (hidden_NE[1:] - hidden_NE[:-1]).float().masked_fill(starts_N1, 0)
            pairs = max(1, layout.tokens - layout.sentences) * hidden_NE.shape[1]
            total = total + self.beta * change_NE.square().sum() / pairs
        return total


class TruncatedBackPropagation:
    """Cross-entropy of the next token of each stream, segment by segment: an objective with a state.

    The state at the end of a segment is the initial state of the next one, detached; rows that start a new text start
    from zeros. Segments must come in order, and checkpoints must store `state_dict` if a resumed run is to be exact.

    The carried state stays where it is in memory, so that a CUDA graph can read and write it.
    """

    def __init__(self, smoothing: float = 0.0, penalty: ActivationPenalty | None = None) -> None:
        self.smoothing, self.penalty = smoothing, penalty
        self._carried: RecurrentState | None = None

    def __call__(self, model: LanguageModel, batch: StreamBatch) -> Sums:
        """Sum the loss over the tokens of a segment, and keep its last state for the next one."""
        decoder, layout = carrying(model), batch.inputs.layout
        carried = self._carried or decoder.zeros(layout.sentences)
        known = carried.hidden.shape[1]
        if known != layout.sentences:
            raise ValueError(
                f"a segment of {layout.sentences} streams follows one of {known}: call `reset` before other streams"
            )
        hidden_NE, last = decoder.hidden(batch.inputs, carried.restart(batch.fresh))
        self._keep(last)
        dropped_NE = decoder.drop(hidden_NE, layout)
        weight, bias = decoder.output.weight, decoder.output.bias
        loss, likelihood = smoothed_cross_entropy(dropped_NE, weight, bias, batch.labels, self.smoothing)
        if self.penalty is not None:
            # Counted on the device, as a graph that was captured with one segment is replayed with others.
            loss = loss + (batch.labels != IGNORED).sum() * self.penalty(hidden_NE, dropped_NE, layout)
        return Sums(loss, likelihood)

    def units(self, batch: StreamBatch) -> int:
        """Return the number of predicted tokens."""
        return batch.tokens

    def tokens(self, batch: StreamBatch) -> int:
        """Return the number of predicted tokens."""
        return batch.tokens

    def reset(self) -> None:
        """Start the next segment from zeros."""
        self._carried = None

    def state_dict(self) -> dict[str, Tensor]:
        """Return the carried state as tensors by name; empty before the first segment."""
        names = ("hidden", "cell")
        return {
            name: part.clone() for name, part in zip(names, self._carried.parts if self._carried else (), strict=False)
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore a carried state."""
        if not tensors:
            self.reset()
            return
        state = RecurrentState(tensors["hidden"], tensors.get("cell"))
        if self._carried is not None:
            state = RecurrentState.of([part.to(self._carried.hidden.device) for part in state.parts])
        self._keep(state)

    def _keep(self, state: RecurrentState) -> None:
        """Take over a state: into the memory of the one before, where that has its shape.

        Rows that are not finite start again from zeros: an update that is not applied must not spoil the next ones.
        """
        state = RecurrentState.of([part.masked_fill(~part.isfinite().all(-1, keepdim=True), 0) for part in state.parts])
        if self._carried is None or not _alike(self._carried, state):
            self._carried = RecurrentState.of([part.detach().clone() for part in state.parts])
            return
        with torch.no_grad():
            for mine, theirs in zip(self._carried.parts, state.parts, strict=True):
                mine.copy_(theirs)


def carrying(model: LanguageModel) -> RecurrentLanguageModel:
    """Return the decoder of a language model whose state can be carried."""
    decoder = model.decoder
    assert isinstance(decoder, RecurrentLanguageModel), f"{type(decoder).__name__} has no state to carry"
    return decoder


def _alike(one: RecurrentState, other: RecurrentState) -> bool:
    """Whether two states have the same shapes and types, on the same device."""
    mine, theirs = ([(part.shape, part.dtype, part.device) for part in state.parts] for state in (one, other))
    return mine == theirs
