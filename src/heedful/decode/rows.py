"""Rows of sentences, rearranged."""

import torch
from jaxtyping import Int, Shaped
from torch import Tensor


def pick(x_BW: Shaped[Tensor, "B W *rest"], places_BI: Int[Tensor, "B I"]) -> Shaped[Tensor, "B I *rest"]:
    """I of the W items of each sentence."""
    sentences = torch.arange(x_BW.shape[0], device=x_BW.device).unsqueeze(1)
    return x_BW[sentences, places_BI]
