"""The logit lens: what a network would predict if its layers ended earlier.

    scores(l) = W N(h_l) + b        nostalgebraist 2020

h_l are the states after layer l, 0 the embeddings; N is the final norm, where there is one, and W the network's own
output layer, with what comes before it: the transformation of a masked language model, the pool of a classifier. At the
last layer these are the network's own scores.

Shape letters of this file: L  layers, the embedding included    T  predictions    C  classes
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from heedful.base.arguments import check_whole
from heedful.base.errors import UserError
from heedful.explain.explanation import Array, Measured, TokenSequence
from heedful.explain.readings import Reading, stacks_of
from heedful.explain.recorded_states import record_states


@dataclass(frozen=True, eq=False)
class Lens(Measured):
    """What each layer would predict: layer 0 is the embedding, the last layer is what the model predicts."""

    name: ClassVar[str] = "lens"

    outputs: TokenSequence  # what the model predicts
    log_probabilities: Array  # of these: layer x prediction
    best: tuple[tuple[tuple[tuple[str, float], ...], ...], ...]  # layer x prediction: the most likely, with P

    @property
    def layers(self) -> int:
        """The number of layers, the embedding included."""
        return len(self.best)

    def to_json(self) -> dict[str, Any]:
        """Return all numbers."""
        return {
            "outputs": list(self.outputs.pieces),
            "axes": ["layer", "output"],
            "log_probabilities": self.log_probabilities.tolist(),
            "best": [
                [[{"piece": piece, "probability": share} for piece, share in ranked] for ranked in layer]
                for layer in self.best
            ],
        }


def look(reading: Reading, top: int) -> Lens:
    """Read every layer of a reading's Transformer by the network's own output layer."""
    check_whole("top", top, least=1)
    stack, head = reading.stack, reading.head
    if stack is None or head is None:
        raise UserError(
            "The lens reads the layers of a Transformer, and this model has none that its output layer reads."
        )
    with reading.computing():
        with record_states(reading.network) as record:
            reading.run(1)
        (path,) = [name for name, one in stacks_of(reading.network).items() if one is stack]
        scores = [head(stack.final(states)) for states in record.of(path)]
        log_p_LTC = reading.of_rows(torch.stack(scores))
    chosen_LT = log_p_LTC[:, range(len(reading.chosen)), reading.chosen]
    ranked = log_p_LTC.topk(min(top, log_p_LTC.shape[2]), dim=2)
    known = sorted(set(ranked.indices.flatten().tolist()))
    spelled = dict(zip(known, reading.names(known), strict=True))
    best = tuple(
        tuple(
            tuple((spelled[number], share) for number, share in zip(*pair, strict=True))
            for pair in zip(layer.tolist(), shares.exp().tolist(), strict=True)
        )
        for layer, shares in zip(ranked.indices, ranked.values, strict=True)
    )
    return Lens(reading.outputs, chosen_LT.float().cpu().numpy(), best)
