"""Local attention: a query sees a window of keys, around its own position or around a predicted one.

    local-m   p_t = t
    local-p   p_t = S sigmoid(v . tanh(W h_t)),  weights times exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2
    window    [p_t - D, p_t + D], within the sentence                          Luong et al. 2015, 3.2

Positions s start at 0; S is the length of the sentence, and D is half the width of the window.

Shape letters of this file: Q  queries    L  keys
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor, nn

from heedful.nn.layers.linear import Linear


@dataclass(frozen=True)
class Window:
    """The keys at a distance of at most `half_width` from a position."""

    half_width: int

    def __post_init__(self) -> None:
        if self.half_width < 0:
            raise ValueError(f"local attention has a half width of {self.half_width}; it must be at least 0")

    def around(
        self, positions_BQ: Real[Tensor, "B Q"], lengths_B: Int[Tensor, "B"], keys: int
    ) -> Bool[Tensor, "B Q {keys}"]:
        """Return True for the keys of each sentence that are in the window of each position."""
        place_L = torch.arange(keys, device=positions_BQ.device)
        near_BQL = (place_L - positions_BQ.unsqueeze(2)).abs() <= self.half_width
        return near_BQL & (place_L < lengths_B[:, None, None])

    def monotone(self, step: int, lengths_B: Int[Tensor, "B"], keys: int) -> Bool[Tensor, "B {keys}"]:
        """Return the window of one decoder step in local-m.

        A target can be longer than its source. Past the end of the source, the window stays around the last key: the
        window of the paper would be empty.
        """
        position_B1 = (lengths_B - 1).clamp(max=step).unsqueeze(1)
        return self.around(position_B1, lengths_B, keys).squeeze(1)


class PredictedWindow(nn.Module):
    """local-p: the position to attend to is predicted from the decoder's state h."""

    def __init__(self, width: int, half_width: int) -> None:
        super().__init__()
        if half_width < 1:
            raise ValueError(f"predicted local attention has a half width of {half_width}; it must be at least 1")
        self.window = Window(half_width)
        self.inner = Linear(width, width, bias=False)
        self.out = Linear(width, 1, bias=False)

    def positions(self, h_BQE: Float[Tensor, "B Q E"], lengths_B: Int[Tensor, "B"]) -> Float[Tensor, "B Q"]:
        """Return p = S sigmoid(v . tanh(W h)), in float32 or wider: 16 bits cannot distinguish high positions."""
        score_BQ = self.out(self.inner(h_BQE).tanh()).squeeze(2)
        wide = torch.promote_types(h_BQE.dtype, torch.float32)
        return lengths_B.unsqueeze(1) * score_BQ.to(wide).sigmoid()

    def forward(
        self, h_BQE: Float[Tensor, "B Q E"], lengths_B: Int[Tensor, "B"], keys: int
    ) -> tuple[Bool[Tensor, "B Q {keys}"], Float[Tensor, "B Q {keys}"]]:
        """Return the window of every query, and the Gaussian that multiplies its weights; only that has gradients."""
        position_BQ = self.positions(h_BQE, lengths_B)
        place_L = torch.arange(keys, device=h_BQE.device)
        sigma = self.window.half_width / 2
        gaussian_BQL = (-(place_L - position_BQ.unsqueeze(2)).square() / (2 * sigma**2)).exp()
        return self.window.around(position_BQ.detach(), lengths_B, keys), gaussian_BQL.to(h_BQE.dtype)


# --- which keys the queries of a decoder see --------------------------------------------------------------------------


class GlobalView(nn.Module):
    """Which keys a query sees, and how much each of them counts: the whole sentence, in global attention."""

    def forward(
        self,
        q_BQE: Float[Tensor, "B Q E"],
        positions_Q: Int[Tensor, "Q"],
        lengths_B: Int[Tensor, "B"],
        keys: int,
    ) -> tuple[Bool[Tensor, "B Q L"] | None, Float[Tensor, "B Q L"] | None]:
        """Return a mask of visible keys (None: the whole sentence), and factors of their weights (None: 1).

        The position of a query is its decoder step.
        """
        return None, None


class MonotoneView(GlobalView):
    """local-m: the query of step t sees the window around t; see `Window.monotone`."""

    def __init__(self, half_width: int) -> None:
        super().__init__()
        self.window = Window(half_width)

    def forward(
        self,
        q_BQE: Float[Tensor, "B Q E"],
        positions_Q: Int[Tensor, "Q"],
        lengths_B: Int[Tensor, "B"],
        keys: int,
    ) -> tuple[Bool[Tensor, "B Q {keys}"], None]:
        """Return a window around the position of each query."""
        positions_BQ = torch.minimum(positions_Q, lengths_B.unsqueeze(1) - 1)
        return self.window.around(positions_BQ, lengths_B, keys), None


class PredictedView(GlobalView):
    """local-p: a query sees the window around the position that it predicts, with the largest weight at its centre."""

    def __init__(self, width: int, half_width: int) -> None:
        super().__init__()
        self.predicted = PredictedWindow(width, half_width)

    def forward(
        self,
        q_BQE: Float[Tensor, "B Q E"],
        positions_Q: Int[Tensor, "Q"],
        lengths_B: Int[Tensor, "B"],
        keys: int,
    ) -> tuple[Bool[Tensor, "B Q {keys}"], Float[Tensor, "B Q {keys}"]]:
        """Return a window around each predicted position, and its Gaussian."""
        seen, gaussian = self.predicted(q_BQE, lengths_B, keys)
        return seen, gaussian
