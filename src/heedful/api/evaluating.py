"""Networks as they are used after training."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(*networks: nn.Module) -> Iterator[None]:
    """Without dropout inside the block; afterwards as before."""
    training = [network.training for network in networks]
    for network in networks:
        network.eval()
    try:
        yield
    finally:
        for network, before in zip(networks, training, strict=True):
            network.train(before)
