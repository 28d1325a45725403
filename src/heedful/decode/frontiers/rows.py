"""K rows of each sentence: what every frontier knows of them, and how they are rearranged."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

if TYPE_CHECKING:
    from heedful.decode.frontiers.attended import Attended


class Rows:
    """Hypotheses that grow by one token a step."""

    tokens_BKT: Int[Tensor, "B K T"]  # `<s>` first
    attended: "Attended | None"

    @property
    def aligned(self) -> bool:
        """Whether the attention of each step is needed."""
        return self.attended is not None

    @property
    def length(self) -> int:
        """How many tokens were decoded; `<s>` is none of them."""
        return self.tokens_BKT.shape[2] - 1

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row."""
        return self.tokens_BKT[:, :, -1].flatten()


def pick(x_BW: Shaped[Tensor, "B W *rest"], places_BI: Int[Tensor, "B I"]) -> Shaped[Tensor, "B I *rest"]:
    """I of the W items of each sentence."""
    sentences = torch.arange(x_BW.shape[0], device=x_BW.device).unsqueeze(1)
    return x_BW[sentences, places_BI]
