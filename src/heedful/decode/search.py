"""Search for many queries at once: batches of similar length within a budget, results in the order of the queries.

What cannot be done is refused before the first sentence is decoded. The decoding loop does not know what scores the
tokens (the `Scorer`) or how hypotheses are chosen (the `Frontier`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from heedful.base.errors import UserError, option
from heedful.base.packed import Layout, Packed
from heedful.data.epochs.plan import batches_by_length
from heedful.data.tokenize.tokenizer import UNKNOWN
from heedful.decode.constraints.prefix import make_constraints
from heedful.decode.frontiers.beam import Beam
from heedful.decode.frontiers.independent import IndependentRows
from heedful.decode.frontiers.rows import Attended, Frontier
from heedful.decode.frontiers.token_scores import Draws
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, pack_prompts, pack_sources
from heedful.decode.scorer import Scorer, SingleModel
from heedful.decode.settings import SearchSettings
from heedful.decode.shortlist import Shortlists, listed_queries, listed_settings, takes_shortlists, with_tokens
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
    recorded = (
        scorer.in_slots if isinstance(scorer, SingleModel) and use_kernels(scorer.model.decoder.output.weight) else None
    )
    if recorded is not None and recorded.takes(settings, queries) and not takes_shortlists(queries, settings):
        return recorded(queries, settings, batch_tokens, progress)
    lengths = [len(query.source) + (query.limit if scorer.continues else 0) for query in queries]
    costs = np.array(lengths, dtype=np.int64) * settings.rows
    found: dict[int, list[Hypothesis]] = {}
    for batch in batches_by_length([costs], batch_tokens=batch_tokens):
        indices = batch.tolist()
        results = search_batch(scorer, [queries[index] for index in indices], settings)
        found.update(zip(indices, results, strict=True))
        progress(len(indices))
    return [found[index] for index in range(len(queries))]


@torch.inference_mode()
def search_batch(scorer: Scorer, queries: Sequence[Query], settings: SearchSettings) -> list[list[Hypothesis]]:
    """Find the targets of one batch. Models are used as they are: put them into `eval` mode."""
    if takes_shortlists(queries, settings):
        lists, words_U = Shortlists.of(queries, scorer.device)
        found = _search(scorer.listed(lists, words_U), listed_queries(queries), listed_settings(settings, lists))
        return with_tokens(found, queries)
    return _search(scorer, queries, settings)


def _search(scorer: Scorer, queries: Sequence[Query], settings: SearchSettings) -> list[list[Hypothesis]]:
    packed, firsts = pack_prompts(queries) if scorer.continues else (pack_sources(queries), None)
    sources = packed.to(scorer.device)
    return decode(scorer, sources, begin_frontier(queries, sources.layout, settings, scorer, firsts))


def begin_frontier(
    queries: Sequence[Query],
    sources: Layout,
    settings: SearchSettings,
    scorer: Scorer,
    firsts: Sequence[int] | None = None,
) -> Frontier:
    """Start the hypotheses of a batch, as the settings ask.

    `sources` is the layout of the batch on the device; `firsts` are the tokens that the first step takes, if not `<s>`.
    """
    device = scorer.device
    limits = [query.limit for query in queries]
    constraints = make_constraints(settings.rules, queries, device)
    attended = Attended.begin(sources, settings.rows) if settings.attentive else None
    start = limits, settings, constraints, device, attended, firsts
    if settings.sampling is not None:
        draws = Draws.of(settings.sampling, [query.drawn_from for query in queries], max(limits), device)
        return IndependentRows.begin(*start, chooser=draws, ranking=scorer.ranking)
    kind = IndependentRows if settings.beam == 1 else Beam
    return kind.begin(*start, ranking=scorer.ranking)


# --- the loop: step the decoder, extend the hypotheses, let finished sentences leave ----------------------------------


@torch.inference_mode()
def decode(scorer: Scorer, sources: Packed, frontier: Frontier) -> list[list[Hypothesis]]:
    """Decode until every sentence is done; finished sentences leave the batch at once.

    The host asks the device once per step (which sentences are done?), and fetches the results at the end.
    """
    state = scorer.begin(sources, frontier.beams, frontier.aligned)
    indices = list(range(sources.layout.sentences))  # of the sentences that are not done yet
    left: list[tuple[list[int], Frontier]] = []
    while True:
        logits_RV, state = scorer.step(frontier.last_R, state)
        frontier, parents_BK = frontier.extend(logits_RV, state.attention_RL)
        done = frontier.done_B.tolist()
        if any(done):
            leaving = [row for row, is_done in enumerate(done) if is_done]
            staying = [row for row, is_done in enumerate(done) if not is_done]
            left.append(([indices[row] for row in leaving], frontier.select(_index(leaving, logits_RV))))
            indices = [indices[row] for row in staying]
            if not indices:
                break
            going = _index(staying, logits_RV)
            frontier, state = frontier.select(going), state.narrow(going)
            parents_BK = None if parents_BK is None else parents_BK[going]
        if parents_BK is not None:
            state = state.reorder(parents_BK)
    found = {
        index: hypotheses
        for some, frontier in left
        for index, hypotheses in zip(some, frontier.hypotheses(), strict=True)
    }
    return [found[index] for index in range(len(found))]


@torch.inference_mode()
def decode_steps(scorer: Scorer, sources: Packed, frontier: Frontier) -> Iterator[Frontier]:
    """Decode as `decode` does, and yield all hypotheses after every step; sentences leave together."""
    state = scorer.begin(sources, frontier.beams, frontier.aligned)
    going = True
    while going:
        logits_RV, state = scorer.step(frontier.last_R, state)
        frontier, parents_BK = frontier.extend(logits_RV, state.attention_RL)
        going = not bool(frontier.done_B.all())
        yield frontier
        if parents_BK is not None:
            state = state.reorder(parents_BK)


def _index(rows: list[int], like: Tensor) -> Int[Tensor, "A"]:
    return torch.tensor(rows, dtype=torch.int64, device=like.device)


# --- what cannot be done --------------------------------------------------------------------------------------------


def check_queries(
    queries: Sequence[Query], settings: SearchSettings, vocab_size: int, longest: int | None, continues: bool = False
) -> list[Query]:
    """Return the queries with limits that the decoder has positions for, or refuse what cannot be done.

    `longest` is the number of positions, None if it is unlimited; where a target `continues` its source, both share it.
    """
    if continues and settings.attentive:
        raise UserError(
            "`aligned` and `coverage` need a source that the model attends to, but this model continues its source: "
            "leave them out."
        )
    for token in settings.never:
        if not 0 <= token < vocab_size:
            raise UserError(f"`never` has token {token}, but tokens go from 0 to {vocab_size - 1:,}.")
    return [_check(query, settings, vocab_size, longest, continues) for query in queries]


def _check(query: Query, settings: SearchSettings, vocab_size: int, longest: int | None, continues: bool) -> Query:
    sentence = f"sentence {query.number + 1:,}"
    if continues:
        if not len(query.source):
            raise UserError(f"{sentence.capitalize()} has no token to continue: start it with `<s>`.")
        if longest is not None and len(query.source) > longest:
            raise UserError(
                f"{sentence.capitalize()} has {len(query.source):,} tokens with its marker, but the model has "
                f"positions for {longest:,} (`model.max_positions`): shorten it."
            )
        longest = longest and longest - (len(query.source) - 1)
    if longest is not None and query.limit > longest:
        query = replace(query, limit=longest)
    room = f"may have at most {query.limit:,} tokens with `</s>`"
    way_out = f" or raise {option('max_extra')}"
    if query.limit == longest:
        way_out = ", as the model has positions for no more (`model.max_positions`)"
    if len(query.prefix) >= query.limit:
        raise UserError(
            f"The prefix of {sentence} has {len(query.prefix):,} tokens, but its target {room}: shorten the "
            f"prefix{way_out}."
        )
    if settings.min_length >= query.limit:
        raise UserError(
            f"{option('min_length')} is {settings.min_length:,}, but the target of {sentence} {room}: lower "
            f"{option('min_length')}{way_out}."
        )
    for token in query.prefix:
        if not UNKNOWN <= token < vocab_size:
            raise UserError(
                f"The prefix of {sentence} has token {token}, but its tokens must be from {UNKNOWN} to "
                f"{vocab_size - 1:,}: leave markers out."
            )
    return query
