"""Truncated back-propagation through time: states are carried from segment to segment, gradients are not.

Williams and Peng 1990, in the usual form of language models: gradients reach back to the start of the current segment.
"""

from collections.abc import Mapping

from torch import Tensor

from heedful.data.batches.streams import StreamBatch
from heedful.models.recurrent.language_model import RecurrentLanguageModel
from heedful.nn.cross_entropy import smoothed_cross_entropy
from heedful.nn.recurrent.cells import RecurrentState
from heedful.training.objectives import Sums


class TruncatedBackPropagation:
    """Cross-entropy of the next token of each stream, segment by segment: an objective with a state.

    The state at the end of a segment is the initial state of the next one, detached; rows that start a new text start
    from zeros. Segments must come in order, and checkpoints must store `state_dict` if a resumed run is to be exact.
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing
        self._carried: RecurrentState | None = None

    def __call__(self, model: RecurrentLanguageModel, batch: StreamBatch) -> Sums:
        """Sum the loss over the tokens of a segment, and keep its last state for the next one."""
        states, last = model.read(batch.inputs, self._initial(model, batch))
        self._carried = last.detach()
        output = model.output
        return Sums(*smoothed_cross_entropy(states, output.weight, output.bias, batch.labels, self.smoothing))

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
        return dict(zip(names, self._carried.parts, strict=False)) if self._carried else {}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore a carried state."""
        self._carried = RecurrentState(tensors["hidden"], tensors.get("cell")) if tensors else None

    def _initial(self, model: RecurrentLanguageModel, batch: StreamBatch) -> RecurrentState:
        rows = batch.inputs.layout.sentences
        carried = self._carried or model.zeros(rows)
        known = carried.hidden.shape[1]
        if known != rows:
            raise ValueError(f"a segment of {rows} streams follows one of {known}: call `reset` before other streams")
        fresh_B1 = batch.fresh.unsqueeze(1)
        # Filled, not multiplied: values that are not finite must not survive into a new epoch.
        return RecurrentState.of([part.to(fresh_B1.device).masked_fill(fresh_B1, 0) for part in carried.parts])
