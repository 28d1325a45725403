"""The evaluation mode of networks."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import nn


@contextmanager
def evaluation_mode(*networks: nn.Module) -> Iterator[None]:
    """Disable dropout and select the networks' GPU inside the block; restore both afterwards."""
    training = [network.training for network in networks]
    for network in networks:
        network.eval()
    weight = next(networks[0].parameters())
    try:
        with torch.cuda.device(weight.device) if weight.is_cuda else nullcontext():
            yield
    finally:
        for network, before in zip(networks, training, strict=True):
            network.train(before)
