"""Objectives of captioners: the next token; with hard attention also REINFORCE, which draws patches more often where it
paid.

Xu et al. 2015, 4.1, after Williams 1992. For a caption y and drawn patches s the loss is

    -log p(y | s) - sum_t [ (R(t) - b(t)) log p(s(t)) + e H(p(t)) ],   R(t) = sum_{u >= t} d^(u - t) log p(y(u) | s)

where R is a constant to the gradient. With d = 1 the gradient's mean over s is that of the paper's bound on the log
likelihood, sum_s p(s) log p(y | s); a smaller d leaves out what a patch does for words long after it, and so most of
the variance. The paper rewards every patch with the whole caption; words before a patch do not depend on it, so leaving
them out changes no mean. The baseline b(t) has a moving average of the log probability of a token in place of each
log p(y(u) | s).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.models.protocols import NextTokenModel
from heedful.nn.alignments.reinforce import Reinforced
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.nn.losses.cross_entropy import label_log_probabilities
from heedful.nn.losses.predictions import TokenPrediction
from heedful.nn.padding import pad, unpad
from heedful.nn.recurrent.stack import TimeMajor
from heedful.training.objectives import NextToken, Sums

_DECAY: Final = 0.9  # of the baseline, as in the paper


class Captions(NextToken):
    """Label-smoothed cross-entropy of each token of a caption, after random changes of the images."""

    def __init__(self, smoothing: float, augmentation: Augmentation) -> None:
        super().__init__(smoothing)
        self.augmentation = augmentation

    def draw(self, batch: Any) -> Any:
        """Change the images."""
        return replace(batch, source=self.augmentation.move(batch.source))


class RewardedCaptions(Captions):
    """The loss of captions, and the reward of the patches that the decoder drew: an objective with a state."""

    def __init__(
        self, smoothing: float, augmentation: Augmentation, entropy: float = 0.002, discount: float = 0.5
    ) -> None:
        super().__init__(smoothing, augmentation)
        self.entropy, self.discount = entropy, discount
        self._baseline: Tensor | None = None
        self._attention: Reinforced | None = None

    def predict(self, model: NextTokenModel[Any], batch: Any) -> TokenPrediction:
        """Predict every token, and let the attention remember what it draws."""
        self._attention = reinforced(model)
        self._attention.begin(batch.target.layout.sentences, batch.labels.device)
        return super().predict(model, batch)

    def score(self, predicted: TokenPrediction, batch: Any) -> Sums:
        """Sum the loss and the reward over the tokens of a micro-batch."""
        sums, layout, output = super().score(predicted, batch), batch.target.layout, predicted.output
        assert self._attention is not None, "`predict` comes first"
        log_p_N, entropy_N = collect_draws(self._attention, layout)
        with torch.no_grad():  # a reward is a constant
            known_N = label_log_probabilities(predicted.states_NE, output.weight, output.bias, batch.labels).float()
        mean = known_N.mean()
        baseline = mean.nan_to_num(0, 0, 0) if self._baseline is None else self._baseline.to(mean.device)
        mean = torch.where(mean.isfinite(), mean, baseline)  # an update that is not applied spoils no later one
        reward_N = rewards(known_N - baseline, layout, self.discount)
        self._baseline = _DECAY * baseline + (1 - _DECAY) * mean
        drawn = (reward_N * log_p_N).sum() + self.entropy * entropy_N.sum()
        return Sums(sums.loss - drawn, sums.likelihood)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the baseline; nothing before the first batch."""
        return {} if self._baseline is None else {"baseline": self._baseline.clone()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the baseline."""
        self._baseline = tensors["baseline"] if tensors else None


def reinforced(model: Any) -> Reinforced:
    """Return the attention of a model that learns by reward."""
    assert isinstance(model, nn.Module)
    return next(module for module in model.modules() if isinstance(module, Reinforced))


def rewards(gains_N: Float[Tensor, "N"], layout: Layout, discount: float) -> Float[Tensor, "N"]:
    """Return for each token the discounted sum of the gains from it to the end of its sentence."""
    gains_BL = pad(gains_N, layout).masked_fill(~layout.keep, 0)
    total_B, sums = torch.zeros_like(gains_BL[:, 0]), []
    for step in reversed(range(layout.bound)):
        total_B = gains_BL[:, step] + discount * total_B
        sums.append(total_B)
    summed: Tensor = unpad(torch.stack(sums[::-1], dim=1), layout)
    return summed


def collect_draws(attention: Reinforced, layout: Layout) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """Return the log probabilities and entropies of all draws of a batch, by packed token.

    A decoder draws for all tokens at once, or step by step in the order of time.
    """
    draws = attention.draws
    if len(draws) == 1 and draws[0].log_p_X.shape[-1] == layout.bound:
        both = torch.stack([draws[0].log_p_X[:, 0], draws[0].entropy_X[:, 0]], dim=2)
        packed = unpad(both, layout)
    else:
        steps = [torch.stack([draw.log_p_X.flatten(), draw.entropy_X.flatten()], dim=1) for draw in draws]
        packed = TimeMajor.of(layout).restore(torch.cat(steps))
    return packed[:, 0], packed[:, 1]
