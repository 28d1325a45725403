"""Pools with a learned query, any alignment and any distribution, against attention to one text at a time."""

import itertools
from typing import get_args

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from heedful.base.packed import Layout
from heedful.config.model.attention import AlignmentName, AttentionPoolTable, DistributionName
from heedful.models.from_recipe.attention import build_distance, build_distribution
from heedful.models.from_recipe.encoder_only import build_pool
from heedful.nn.alignments.base import Candidates
from heedful.nn.attention.aligned_pooling import AlignedPool
from heedful.nn.initialization import init_normal, init_scaled, init_xavier

LENGTHS, WIDTH = [3, 1, 0, 5, 2], 4


def tables() -> dict[str, AttentionPoolTable]:
    """Return all pairs of an alignment and a distribution that a recipe may have."""
    found = {}
    for alignment, distribution in itertools.product(get_args(AlignmentName), get_args(DistributionName)):
        try:
            found[f"{alignment}-{distribution}"] = AttentionPoolTable(alignment=alignment, distribution=distribution)
        except ValidationError:
            continue
    return found


TABLES = tables()


def pool_of(name: str) -> AlignedPool:
    torch.manual_seed(1)
    pool = build_pool(TABLES[name], WIDTH).double()
    assert isinstance(pool, AlignedPool)
    with torch.no_grad():
        for parameter in pool.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return pool


def states(grad: bool = False) -> Tensor:
    torch.manual_seed(2)
    return torch.randn(sum(LENGTHS), WIDTH, dtype=torch.float64, requires_grad=grad)


def naive(name: str, pool: AlignedPool, text: Tensor) -> Tensor:
    """Attend to one text by itself: what the values of the candidates sum to, with their weights."""
    if not len(text):
        return text.new_zeros(WIDTH)
    table, x = TABLES[name], text[None, None]
    candidates, q = pool.alignment.prepare(x, x), pool.query.view(1, 1, 1, -1)
    scores = torch.cat([pool.alignment(q, _one(candidates, i)) for i in range(candidates.keys.shape[2])], dim=3)
    distance = build_distance(table)
    keys = x if pool.alignment.one_to_one else candidates.keys
    measured = [] if distance is None else [-(q - keys).abs().sum(-1).unsqueeze(2)]
    distribution = pool.distribution if table.distribution == "learned_entmax" else build_distribution(table, WIDTH)
    weights = distribution(scores, *measured)[0, 0, 0]
    return sum((weight * value for weight, value in zip(weights, candidates.values[0, 0], strict=True)), text.sum() * 0)


def _one(candidates: Candidates, index: int) -> Candidates:
    one = slice(index, index + 1)
    return Candidates(candidates.keys[:, :, one], candidates.values[:, :, one])


def test_all_alignments_and_distributions_are_pools_but_those_that_cannot_be() -> None:
    assert {name.split("-")[0] for name in TABLES} == {*get_args(AlignmentName)} - {"location"}
    assert {name.split("-")[1] for name in TABLES} == {*get_args(DistributionName)}
    assert len(TABLES) == 9 * 8 + 1  # a kernel has its own softmax alone


@pytest.mark.parametrize("name", TABLES)
@torch.no_grad()
def test_a_pool_reads_what_attention_to_each_text_by_itself_reads(name: str) -> None:
    pool, x, layout = pool_of(name), states(), Layout.of(LENGTHS)
    found = pool(x, layout)
    for number, text in enumerate(x.split(LENGTHS)):
        torch.testing.assert_close(found[number], naive(name, pool, text))
    weights = pool.weights(x, layout).split(LENGTHS)
    summed = [(part * text).sum(0) for part, text in zip(weights, x.split(LENGTHS), strict=True)]
    torch.testing.assert_close(found, torch.stack(summed))
    if name.endswith(("softmax", "max15", "max", "normalised_sigmoid")) and not name.startswith("area"):
        torch.testing.assert_close(torch.stack([part.sum() for part in weights]), (layout.lengths > 0).double())


@pytest.mark.parametrize("name", ["deep-entmax", "additive-sigmoid", "area-sparsemax", "content-de_attention"])
def test_neither_neighbours_nor_dummies_matter(name: str) -> None:
    pool, x = pool_of(name), states(grad=True)
    whole = pool(x, Layout.of(LENGTHS))
    for number, begin in ((0, 0), (3, 4)):
        text = x[begin : begin + LENGTHS[number]]
        torch.testing.assert_close(pool(text, Layout.of([len(text)]))[0], whole[number])
    (gradient,) = torch.autograd.grad(whole[3].square().sum(), x)
    assert gradient[4:9].any()
    assert not gradient[:4].any()
    assert not gradient[9:].any()


@pytest.mark.parametrize(
    "name", ["dot-softmax", "deep-entmax15", "additive-learned_entmax", "area-softmax", "general-de_attention"]
)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    pool, x = pool_of(name), states(grad=True)
    query = pool.query.detach().clone().requires_grad_()

    def pooled(x: Tensor, query: Tensor) -> Tensor:
        return torch.func.functional_call(pool, {"query": query}, (x, Layout.of(LENGTHS)))

    assert torch.autograd.gradcheck(pooled, (x, query))


@pytest.mark.parametrize("name", ["deep-entmax", "area-softmax"])
def test_a_batch_without_tokens_has_zeros(name: str) -> None:
    pool = pool_of(name)
    assert torch.equal(pool(torch.zeros(0, WIDTH).double(), Layout.of([0, 0])), torch.zeros(2, WIDTH).double())


def test_a_hard_pool_reads_one_token() -> None:
    pool = build_pool(AttentionPoolTable(alignment="dot", choice="hard"), WIDTH).double()
    x, layout = states(), Layout.of([5, 6])
    for training in (True, False):
        pool.train(training)
        weights = pool.weights(x, layout).detach().squeeze(1)
        assert sorted(weights.tolist()) == [0.0] * 9 + [1.0] * 2
    assert int(weights[:5].argmax()) == int((x[:5] @ pool.query).argmax())  # type: ignore[operator]


def test_an_alignment_keeps_its_initial_weights_whatever_the_encoder_begins_with() -> None:
    for initialize in (init_xavier, init_normal, lambda module: init_scaled(module, layers=2)):
        pool = build_pool(AttentionPoolTable(alignment="content"), WIDTH)
        before = [parameter.detach().clone() for parameter in pool.parameters()]
        initialize(pool)
        assert all(torch.equal(one, two) for one, two in zip(before, pool.parameters(), strict=True))
