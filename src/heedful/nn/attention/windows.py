"""Local attention: a query looks at a window of keys, around its own place or around a predicted one.

    local-m   p_t = t
    local-p   p_t = S sigmoid(v . tanh(W h_t)),  weights times exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2
    window    [p_t - D, p_t + D], as far as it is inside the sentence          Luong et al. 2015, 3.2

Positions s count from 0; S is the length of the sentence and D half the width of the window.

Shape letters of this file: Q  queries    L  keys
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor, nn

from heedful.nn.layers.linear import Linear


@dataclass(frozen=True)
class Window:
    """The keys at most `half_width` from a position."""

    half_width: int

    def __post_init__(self) -> None:
        if self.half_width < 0:
            raise ValueError(f"local attention has a half width of {self.half_width}; it must be at least 0")

    def around(
        self, positions_BQ: Real[Tensor, "B Q"], lengths_B: Int[Tensor, "B"], keys: int
    ) -> Bool[Tensor, "B Q {keys}"]:
        """True at the keys of each sentence that are in the window of each position."""
        place_L = torch.arange(keys, device=positions_BQ.device)
        near_BQL = (place_L - positions_BQ.unsqueeze(2)).abs() <= self.half_width
        return near_BQL & (place_L < lengths_B[:, None, None])

    def monotone(self, step: int, lengths_B: Int[Tensor, "B"], keys: int) -> Bool[Tensor, "B {keys}"]:
        """local-m: the window of one step of the decoder.

        A target can be longer than its source. Behind the source's end the window stays around the last key: the paper
        would have nothing left to look at.
        """
        position_B1 = (lengths_B - 1).clamp(max=step).unsqueeze(1)
        return self.around(position_B1, lengths_B, keys).squeeze(1)


class PredictedWindow(nn.Module):
    """local-p: where to look is predicted from the decoder's state h."""

    def __init__(self, width: int, half_width: int) -> None:
        super().__init__()
        if half_width < 1:
            raise ValueError(f"predicted local attention has a half width of {half_width}; it must be at least 1")
        self.window = Window(half_width)
        self.inner = Linear(width, width, bias=False)
        self.out = Linear(width, 1, bias=False)

    def positions(self, h_BQE: Float[Tensor, "B Q E"], lengths_B: Int[Tensor, "B"]) -> Float[Tensor, "B Q"]:
        """p = S sigmoid(v . tanh(W h)), in float32 or wider: 16 bits do not tell far positions apart."""
        score_BQ = self.out(self.inner(h_BQE).tanh()).squeeze(2)
        wide = torch.promote_types(h_BQE.dtype, torch.float32)
        return lengths_B.unsqueeze(1) * score_BQ.to(wide).sigmoid()

    def forward(
        self, h_BQE: Float[Tensor, "B Q E"], lengths_B: Int[Tensor, "B"], keys: int
    ) -> tuple[Bool[Tensor, "B Q {keys}"], Float[Tensor, "B Q {keys}"]]:
        """The window of every query, and the Gaussian to multiply its weights by; only that has gradients."""
        position_BQ = self.positions(h_BQE, lengths_B)
        place_L = torch.arange(keys, device=h_BQE.device)
        sigma = self.window.half_width / 2
        gaussian_BQL = (-(place_L - position_BQ.unsqueeze(2)).square() / (2 * sigma**2)).exp()
        return self.window.around(position_BQ.detach(), lengths_B, keys), gaussian_BQL.to(h_BQE.dtype)


# --- what the queries of a decoder see --------------------------------------------------------------------------------


@runtime_checkable
class View(Protocol):
    """Which keys a query sees, and how much each of them counts."""

    def __call__(
        self,
        q_BQE: Float[Tensor, "B Q E"],
        positions_Q: Int[Tensor, "Q"],
        lengths_B: Int[Tensor, "B"],
        keys: int,
    ) -> tuple[Bool[Tensor, "B Q L"] | None, Float[Tensor, "B Q L"] | None]:
        """What is seen (None: all of the sentence), and the factors of the weights (None: one).

        Positions are those of the queries among the decoder's steps.
        """
        ...


class GlobalView(nn.Module):
    """Global attention: a query sees the whole sentence."""

    def forward(
        self,
        q_BQE: Float[Tensor, "B Q E"],
        positions_Q: Int[Tensor, "Q"],
        lengths_B: Int[Tensor, "B"],
        keys: int,
    ) -> tuple[None, None]:
        """All of it."""
        return None, None


class MonotoneView(nn.Module):
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
        """A window around each query's own position."""
        positions_BQ = torch.minimum(positions_Q, lengths_B.unsqueeze(1) - 1)
        return self.window.around(positions_BQ, lengths_B, keys), None


class PredictedView(nn.Module):
    """local-p: a query sees the window around the position that it predicts, the middle of it most."""

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
        """A window around each predicted position, and its Gaussian."""
        seen, gaussian = self.predicted(q_BQE, lengths_B, keys)
        return seen, gaussian
