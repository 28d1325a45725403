"""Many sentences at once: batches of similar length within a budget, results in the order of the sources."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from torch import nn

from heedful.data.plan import batches_by_length
from heedful.data.tokenizer import END
from heedful.decode.beam import Beam
from heedful.decode.greedy import Greedy
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.limits import position_limit
from heedful.decode.loop import Frontier, decode
from heedful.decode.settings import Settings
from heedful.models.families import EncoderDecoder
from heedful.packed import Packed

Progress = Callable[[int], None]  # called with the number of sentences that just got ready


def search(
    model: EncoderDecoder,
    sources: Sequence[Sequence[int]],
    settings: Settings,
    batch_tokens: int,
    progress: Progress = lambda ready: None,
) -> list[list[Hypothesis]]:
    """Search the N best targets of each source, given as pieces without markers.

    `batch_tokens` is the budget of a batch: source tokens times beams. A longer source makes a batch of its own.
    """
    costs = np.array([(len(source) + 1) * settings.beam for source in sources], dtype=np.int64)
    found: dict[int, list[Hypothesis]] = {}
    for indices in batches_by_length([costs], batch_tokens=batch_tokens):
        places = indices.tolist()
        results = search_batch(model, [sources[place] for place in places], settings)
        found.update(zip(places, results, strict=True))
        progress(len(places))
    return [found[place] for place in range(len(sources))]


@torch.inference_mode()
def search_batch(model: EncoderDecoder, sources: Sequence[Sequence[int]], settings: Settings) -> list[list[Hypothesis]]:
    """Search the N best targets of the sources of one batch. The model is used as it is: put it into `eval` mode."""
    device = next(model.parameters()).device
    memory = model.encoder(Packed.of([[*source, END] for source in sources]).to(device))
    frontier: Frontier = _frontier(_limits(model, sources, settings), settings, device)
    return decode(model.decoder, memory, frontier)


def _frontier(limits: Sequence[int], settings: Settings, device: torch.device) -> Frontier:
    if settings.beam == 1:
        return Greedy.begin(limits, settings.penalty, device)
    return Beam.begin(limits, settings, device)


def _limits(model: EncoderDecoder, sources: Sequence[Sequence[int]], settings: Settings) -> list[int]:
    """The most tokens of each target: by the settings, and by the positions that the decoder has."""
    positions = position_limit(cast(nn.Module, model.decoder))
    wanted = [len(source) + settings.max_extra for source in sources]
    return wanted if positions is None else [min(limit, positions) for limit in wanted]
