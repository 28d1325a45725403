"""Back-propagation through time, truncated: gradients stop where a segment begins, values do not.

Williams and Peng 1990; as most language models train, a segment is both what is read and how far gradients go back.
"""

from collections.abc import Mapping

from torch import Tensor

from heedful.data.batches.streams import StreamBatch
from heedful.models.recurrent.language_model import RecurrentLanguageModel
from heedful.nn.cross_entropy import smoothed_cross_entropy
from heedful.nn.recurrent.cells import RecurrentState
from heedful.training.objectives import Sums


class TruncatedBackPropagation:
    """Cross-entropy of each next token of streams, segment after segment: an objective with a state.

    The state at the end of a segment starts the next one, without its history; rows that begin anew start from zeros.
    The segments must come in their order, and a checkpoint must keep `state_dict` for a resumed run to be exact.
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing
        self._carried: RecurrentState | None = None

    def __call__(self, model: RecurrentLanguageModel, batch: StreamBatch) -> Sums:
        """Sum over the tokens of a segment, and carry the state on."""
        states, last = model(batch.inputs, self._initial(model, batch))
        self._carried = last.detach()
        output = model.output
        return Sums(*smoothed_cross_entropy(states, output.weight, output.bias, batch.labels, self.smoothing))

    def units(self, batch: StreamBatch) -> int:
        """The tokens that are predicted."""
        return batch.tokens

    def tokens(self, batch: StreamBatch) -> int:
        """The same."""
        return batch.tokens

    def reset(self) -> None:
        """Forget what was carried."""
        self._carried = None

    def state_dict(self) -> dict[str, Tensor]:
        """What is carried, as plain tensors by name; empty before the first segment."""
        names = ("hidden", "cell")
        return dict(zip(names, self._carried.parts, strict=False)) if self._carried else {}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with what was carried then."""
        self._carried = RecurrentState(tensors["hidden"], tensors.get("cell")) if tensors else None

    def _initial(self, model: RecurrentLanguageModel, batch: StreamBatch) -> RecurrentState:
        rows = batch.inputs.layout.sentences
        carried = self._carried or model.start(rows)
        known = carried.hidden.shape[1]
        if known != rows:
            raise ValueError(f"a segment of {rows} streams after one of {known}: `reset` before other streams begin")
        fresh_B1 = batch.fresh.unsqueeze(1)
        # Filled, not multiplied: what is not finite must not live on in a new epoch.
        return RecurrentState.of([part.to(fresh_B1.device).masked_fill(fresh_B1, 0) for part in carried.parts])
