"""R-Drop: two passes of the same batch with different dropout should predict the same      Liang et al. 2021"""

from typing import Any

from heedful.training.objectives import PredictiveObjective, Sums


class RDrop:
    """L = 1/2 (L_1 + L_2) + alpha/2 * D(P_1, P_2),  D(P, Q) = 1/2 KL(P || Q) + 1/2 KL(Q || P)

    Liang et al. 2021, (4), divided by 2, so that the loss, its gradients and their norm stay those of one pass. P_1 and
    P_2 are what the network predicts for the same batch in two passes. Their dropout comes one after the other from the
    generator that the trainer seeds for each micro-batch, so a resumed run draws the same. Random changes of the batch
    itself, such as those of images, are drawn once. The batch keeps its shape: updates can be captured.
    """

    def __init__(self, objective: PredictiveObjective[Any, Any], alpha: float) -> None:
        self.objective, self.alpha = objective, alpha
        self.units, self.tokens = objective.units, objective.tokens

    def __call__(self, model: Any, batch: Any) -> Sums:
        """Sum the loss over the units of a micro-batch."""
        drawn = self.objective.draw(batch)
        first, second = (self.objective.predict(model, drawn) for _ in range(2))
        one, other = self.objective.score(first, drawn), self.objective.score(second, drawn)
        loss = (one.loss + other.loss + self.alpha * first.divergence(second)) / 2
        return Sums(loss, (one.likelihood + other.likelihood) / 2)
