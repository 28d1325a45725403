"""Tasks bring their own sources and their own rules: search needs no change for either."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.decode.slots.small_searches import engine_in_slots, run_in_slots
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.decode import Sampling
from heedful.config.model.transformer import TransformerModel
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.protocol import Constraint
from heedful.decode.query import Query, pack_sources, text_queries
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.lanes import SlotLanes
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder

WORDS, WIDTH = 20, 16
SOURCES = [[5, 6, 7], [9, 4], [8], [11, 5, 5, 5, 5]]
SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 3, "nbest": 3},
    "sampling": {"beam": 1, "sampling": Sampling(samples=3, seed=1)},
}


def model_of() -> EncoderDecoder:
    torch.manual_seed(3)
    return build_model(TransformerModel(width=WIDTH, heads=2, layers=1, inner=16, dropout=0.0), WORDS, WORDS).eval()


# --- a rule of the task -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EchoFirst:
    """A target repeats the first token of its source, `wanted` times, and ends."""

    first_B: Tensor
    wanted_B: Tensor

    @classmethod
    def begin(cls, queries: Sequence[Query], device: torch.device) -> Constraint:
        firsts = torch.tensor([int(query.source[0]) for query in queries], device=device)
        return cls(firsts, torch.tensor([len(query.source) for query in queries], device=device))

    def forbid(self, scores_RV: Tensor, tokens_RT: Tensor) -> None:
        rows = tokens_RT.shape[0] // len(self.first_B)
        ended_R = (tokens_RT.shape[1] - 1 >= self.wanted_B).repeat_interleave(rows)
        allowed_R1 = torch.where(ended_R, END, self.first_B.repeat_interleave(rows)).unsqueeze(1)
        kept_R1 = scores_RV.gather(1, allowed_R1)
        scores_RV.fill_(-math.inf).scatter_(1, allowed_R1, kept_R1)

    def follow(self, parents_BK: Tensor | None, last_BK: Tensor) -> "EchoFirst":
        return self

    def select(self, sentences: Tensor) -> "EchoFirst":
        return EchoFirst(self.first_B[sentences], self.wanted_B[sentences])


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("batch_tokens", [4, 4096])
def test_a_rule_made_from_the_queries_holds_in_every_search(kind: str, batch_tokens: int) -> None:
    settings = SearchSettings(**SEARCHES[kind], constraints=(EchoFirst.begin,))  # type: ignore[arg-type]
    found = search(model_of(), text_queries(SOURCES, 50), settings, batch_tokens)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert len(hypotheses) == (3 if kind == "sampling" else 1)
        assert {(best.tokens, best.complete) for best in hypotheses} == {((source[0],) * (len(source) + 1), True)}


def test_rules_of_a_task_and_named_rules_hold_together() -> None:
    settings = SearchSettings(beam=2, never=(5,), constraints=(EchoFirst.begin,))
    found = search(model_of(), text_queries(SOURCES, 50), settings, 4096)
    assert [best.tokens for (best, *_) in found] == [(), (9,) * 3, (8,) * 2, (11,) * 6]


def test_a_search_with_a_rule_of_its_own_does_not_use_slots() -> None:
    slots = SlotLanes(model_of())
    assert slots.takes(SearchSettings())
    assert not slots.takes(SearchSettings(constraints=(EchoFirst.begin,)))


# --- vectors as sources -----------------------------------------------------------------------------------------------


class Patches(nn.Module):
    """The smallest encoder of vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, WIDTH)

    def forward(self, source: Packed) -> Packed:
        return source.with_values(self.linear(source.values).tanh())


def images() -> list[Tensor]:
    torch.manual_seed(5)
    return [torch.randn(rows, 6) for rows in (4, 1, 3)]


@pytest.mark.parametrize("kind", SEARCHES)
def test_vectors_are_sources_like_others(kind: str) -> None:
    model = EncoderDecoder(Patches(), model_of().decoder).eval()  # type: ignore[arg-type]
    settings = SearchSettings(**SEARCHES[kind], coverage=0.1, aligned=True)  # type: ignore[arg-type]
    queries = [Query(image, limit=7, number=number) for number, image in enumerate(images())]
    together = search(model, queries, settings, 4096)
    for query, found in zip(queries, together, strict=True):
        (alone,) = search(model, [query], settings, 4096)
        assert [best.tokens for best in alone] == [best.tokens for best in found]
        assert all(1 <= best.length <= 7 for best in found)
        assert all(index < len(query.source) for best in found for index in best.alignment or ())
    assert len({best.score for best, *_ in together}) == 3  # each is read


@pytest.mark.parametrize("kind", [Tensor.numpy, lambda rows: rows], ids=["arrays", "tensors"])
def test_sources_are_joined_row_by_row(kind: Any) -> None:
    joined = pack_sources([Query(kind(image), 7) for image in images()])
    assert torch.equal(joined.values, torch.cat(images()))
    assert joined.layout.lengths.tolist() == [4, 1, 3]


def test_token_ids_may_be_lists_or_arrays() -> None:
    model, settings = model_of(), SearchSettings(beam=2)
    lists = text_queries(SOURCES, 50)
    arrays = [Query(np.array(query.source), query.limit, number=query.number) for query in lists]
    assert search(model, arrays, settings, 4096) == search(model, lists, settings, 4096)
    engine = engine_in_slots(model)
    assert [[best.tokens for best in found] for found in run_in_slots(engine, arrays, settings)] == [
        [best.tokens for best in found] for found in run_in_slots(engine, lists, settings)
    ]
