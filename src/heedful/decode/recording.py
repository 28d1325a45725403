"""The life of a beam: every hypothesis of a search for one sentence, its score, and where it died.

A record is made by a search of its own, step by step with the same frontier: searches that are not recorded do nothing
for it.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch

from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.frontiers.beam import Beam
from heedful.decode.query import Query, pack_sources
from heedful.decode.scorer import Scorer
from heedful.decode.settings import SearchSettings
from heedful.decode.ticket import check_queries
from heedful.decode.waves import begin_frontier

# It was continued; it ended with `</s>`; its continuations were not among the K best; it was still open when the search
# was done. Candidates that never were among the K best are `dropped`.
Fate = Literal["continued", "finished", "died", "open", "dropped"]


@dataclass(frozen=True)
class BeamNode:
    """One more token of a hypothesis."""

    parent: int | None  # index of the node before it; None after the start
    token: int
    step: int  # tokens so far, this one included
    log_probability: float  # of all tokens so far
    score: float  # log P over the length penalty of this length; coverage is not counted
    fate: Fate


@torch.inference_mode()
def record_beam(scorer: Scorer, query: Query, settings: SearchSettings) -> list[BeamNode]:
    """Search for one sentence and return all nodes, those of a step in the order of their rank.

    Only a beam search is recorded: greedy search and sampling give no nodes. Models are used as they are: put them into
    `eval` mode.
    """
    if settings.sampling is not None or settings.beam == 1:
        return []
    queries = check_queries([query], settings, scorer.vocab_size, scorer.longest, scorer.continues)
    sources = pack_sources(queries).to(scorer.device)
    frontier = begin_frontier(queries, sources.layout, settings, scorer)
    assert isinstance(frontier, Beam)
    state = scorer.begin(sources, frontier.beams, frontier.aligned)
    nodes: list[BeamNode] = []
    rows: list[int | None] = [None] * settings.beam  # the node of each row
    step = 0
    while not step or not bool(frontier.done_B.all()):
        step += 1
        logits_RV, state = scorer.step(frontier.last_R, state)
        ranked = frontier.rank(logits_RV.clone())  # `extend` uses the scores up
        frontier, parents_BK = frontier.extend(logits_RV, state.attention_RL)
        state = state.reorder(parents_BK)
        rows = _add(nodes, rows, [part[0].tolist() for part in ranked], step, settings)
    going = {node.parent for node in nodes if node.fate != "dropped"}  # those that were continued
    return [
        replace(node, fate="continued" if index in going else "died")
        if node.fate == "open" and node.step < step
        else node
        for index, node in enumerate(nodes)
    ]


def _add(
    nodes: list[BeamNode], rows: list[int | None], ranked: list[list[float]], step: int, settings: SearchSettings
) -> list[int | None]:
    """Add the ranked continuations of all rows; return the nodes of the K that continue."""
    going: list[int | None] = []
    for rank, (log_p, parent, token) in enumerate(zip(*ranked, strict=True)):
        if log_p == -torch.inf or token == PAD:
            continue
        ended = token == END
        kept = rank < settings.beam if ended else len(going) < settings.beam
        fate: Fate = "dropped" if not kept else "finished" if ended else "open"
        if kept and not ended:
            going.append(len(nodes))
        score = log_p / settings.penalty(step)
        nodes.append(BeamNode(rows[int(parent)], int(token), step, log_p, score, fate))
    return going + [None] * (settings.beam - len(going))
