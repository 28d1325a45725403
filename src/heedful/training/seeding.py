"""Random seeds as a function of the position in a run, so that no random state needs to be saved."""

import hashlib

import torch


def seed_for(seed: int, *position: int | str) -> int:
    """Hash the seed of a run and a position in the run to a 63-bit seed."""
    text = ":".join(str(part) for part in (seed, *position))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed_micro_batch(seed: int, update: int, micro_batch: int) -> None:
    """Seed torch's generators before a micro-batch, so that dropout depends only on its position in the run."""
    number = seed_for(seed, "micro-batch", update, micro_batch)
    if torch.cuda.is_initialized():
        torch.manual_seed(number)
    else:  # torch.manual_seed would note the whole stack of calls for GPUs that nobody uses: up to a millisecond
        torch.default_generator.manual_seed(number)
