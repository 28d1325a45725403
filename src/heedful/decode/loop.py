"""The decoding loop: step the decoder, extend the hypotheses, let finished sentences leave.

It does not know what scores the tokens (the `Scorer`) or how hypotheses are chosen (the `Frontier`).
"""

from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from heedful.base.packed import Packed
from heedful.decode.frontiers.protocol import Frontier
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.scorer import Scorer


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
            leaving, staying = _rows(done, True), _rows(done, False)
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


def _rows(done: list[bool], wanted: bool) -> list[int]:
    return [row for row, is_done in enumerate(done) if is_done is wanted]


def _index(rows: list[int], like: Tensor) -> Int[Tensor, "A"]:
    return torch.tensor(rows, dtype=torch.int64, device=like.device)
