"""Search for many queries at once: batches of similar length within a budget, results in the order of the queries."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from heedful.base.packed import Layout
from heedful.data.epochs.plan import batches_by_length
from heedful.decode.checks import check_queries
from heedful.decode.constraints.factories import make_constraints
from heedful.decode.frontiers.beam import Beam
from heedful.decode.frontiers.independent import Greedy, IndependentRows
from heedful.decode.frontiers.protocol import Frontier
from heedful.decode.frontiers.rows import Attended
from heedful.decode.frontiers.sampling import Draws
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.loop import decode
from heedful.decode.query import Query, pack_prompts, pack_sources
from heedful.decode.scorer import Scorer, SingleModel
from heedful.decode.settings import SearchSettings
from heedful.models.protocols import Generator
from heedful.nn.kernels import use_kernels

ProgressCallback = Callable[[int], None]  # called with the number of sentences just finished


def search(
    model: Generator | Scorer,
    queries: Sequence[Query],
    settings: SearchSettings,
    batch_tokens: int,
    progress: ProgressCallback = lambda ready: None,
) -> list[list[Hypothesis]]:
    """Find the N best targets of each query, with one model or an ensemble.

    `batch_tokens` is the budget of a batch: source tokens times the rows of a sentence (beams or samples); where a
    target continues its source, its longest length counts too. A longer sentence is a batch of its own.

    Sampling returns `samples` targets per query in the order in which they are drawn, not by score.
    """
    scorer = SingleModel(model) if isinstance(model, Generator) else model
    queries = check_queries(queries, settings, scorer.vocab_size, scorer.longest, scorer.continues)
    if isinstance(scorer, SingleModel) and _uses_slots(scorer, queries, settings):
        return scorer.in_slots(queries, settings, batch_tokens, progress)
    costs = np.array([_length(query, scorer) * settings.rows for query in queries], dtype=np.int64)
    found: dict[int, list[Hypothesis]] = {}
    for batch in batches_by_length([costs], batch_tokens=batch_tokens):
        indices = batch.tolist()
        results = search_batch(scorer, [queries[index] for index in indices], settings)
        found.update(zip(indices, results, strict=True))
        progress(len(indices))
    return [found[index] for index in range(len(queries))]


def _length(query: Query, scorer: Scorer) -> int:
    return len(query.source) + (query.limit if scorer.continues else 0)


def _uses_slots(scorer: SingleModel, queries: Sequence[Query], settings: SearchSettings) -> bool:
    return use_kernels(scorer.model.decoder.output.weight) and scorer.in_slots.takes(settings, queries)


@torch.inference_mode()
def search_batch(scorer: Scorer, queries: Sequence[Query], settings: SearchSettings) -> list[list[Hypothesis]]:
    """Find the targets of one batch. Models are used as they are: put them into `eval` mode."""
    packed, firsts = pack_prompts(queries) if scorer.continues else (pack_sources(queries), None)
    sources = packed.to(scorer.device)
    return decode(scorer, sources, begin_frontier(queries, sources.layout, settings, scorer.device, firsts))


def begin_frontier(
    queries: Sequence[Query],
    sources: Layout,
    settings: SearchSettings,
    device: torch.device,
    firsts: Sequence[int] | None = None,
) -> Frontier:
    """Start the hypotheses of a batch, as the settings ask.

    `sources` is the layout of the batch on the device; `firsts` are the tokens that the first step takes, if not `<s>`.
    """
    limits = [query.limit for query in queries]
    constraints = make_constraints(settings.rules, queries, device)
    attended = Attended.begin(sources, settings.rows) if settings.attentive else None
    if settings.sampling is not None:
        draws = Draws.of(settings.sampling, [query.drawn_from for query in queries], max(limits), device)
        return IndependentRows.begin(limits, settings, draws, constraints, device, attended, firsts)
    if settings.beam == 1:
        return IndependentRows.begin(limits, settings, Greedy(), constraints, device, attended, firsts)
    return Beam.begin(limits, settings, constraints, device, attended, firsts)
