"""Randomness as a function of where training stands: nothing random is ever saved."""

import hashlib

import torch


def seed_for(seed: int, *place: int | str) -> int:
    """Hash a run's seed and a place in the run to a 63-bit seed."""
    text = ":".join(str(part) for part in (seed, *place))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_micro_batch(seed: int, update: int, micro_batch: int) -> None:
    """Seed torch's generators before a micro-batch, so that dropout depends on its place alone."""
    torch.manual_seed(seed_for(seed, "micro-batch", update, micro_batch))
