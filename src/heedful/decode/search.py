"""Many sentences at once: batches of similar length within a budget, results in the order of the sources."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from heedful.data.epochs.plan import batches_by_length
from heedful.data.tokenize.tokenizer import END
from heedful.decode.frontiers.make import frontier_of
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.loop import decode
from heedful.decode.query import Query, make_queries
from heedful.decode.scorer import Scorer, SingleModel
from heedful.decode.settings import SearchSettings
from heedful.models.networks import EncoderDecoder
from heedful.nn.kernels import use_kernels
from heedful.packed import Packed

ProgressCallback = Callable[[int], None]  # called with the number of sentences that just got ready


def search(
    model: EncoderDecoder | Scorer,
    sources: Sequence[Sequence[int]],
    settings: SearchSettings,
    batch_tokens: int,
    progress: ProgressCallback = lambda ready: None,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Search the N best targets of each source, given as pieces without markers; with one model or an ensemble.

    `batch_tokens` is the budget of a batch: source tokens times the rows of a sentence (beams or samples). A longer
    source makes a batch of its own. `prefixes` are what the targets begin with, and belong to what is found. `numbers`
    are the sentences' own, from 0, where `sources` is a part of more: messages name them, and sampling draws by them.

    Sampling gives `samples` targets of each source in the order they are drawn in, which is not that of their scores.
    """
    translator = SingleModel(model) if isinstance(model, EncoderDecoder) else model
    sentences = make_queries(translator, sources, settings, prefixes, numbers)
    if isinstance(translator, SingleModel) and _recordable(translator, sentences, settings):
        return translator.in_slots(sentences, settings, batch_tokens, progress)
    costs = np.array([(len(source) + 1) * settings.rows for source in sources], dtype=np.int64)
    found: dict[int, list[Hypothesis]] = {}
    for indices in batches_by_length([costs], batch_tokens=batch_tokens):
        places = indices.tolist()
        results = search_batch(translator, [sentences[place] for place in places], settings)
        found.update(zip(places, results, strict=True))
        progress(len(places))
    return [found[place] for place in range(len(sources))]


def _recordable(translator: SingleModel, sentences: Sequence[Query], settings: SearchSettings) -> bool:
    return use_kernels(translator.model.decoder.output.weight) and translator.in_slots.takes(settings, sentences)


@torch.inference_mode()
def search_batch(translator: Scorer, sentences: Sequence[Query], settings: SearchSettings) -> list[list[Hypothesis]]:
    """Search the targets of one batch. Models are used as they are: put them into `eval` mode."""
    device = translator.device
    sources = Packed.of([[*sentence.source, END] for sentence in sentences]).to(device)
    return decode(translator, sources, frontier_of(sentences, sources.layout, settings, device))
