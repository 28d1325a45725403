"""Laws of readers with every kind of encoder: they learn, are kept, leak nothing, and resume bit by bit."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from rich.console import Console
from tests.models.reading import BERT, RECURRENT, TRANSFORMER, reader_recipe, write_reports
from tests.shared.covering import one_in
from torch import nn

from heedful.config.model.encoder_only import ReaderModel
from heedful.data.batches.questions import QuestionBatch, QuestionCollator
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.models.from_recipe.encoder_only import build_reader
from heedful.models.networks import SpanReader, set_precision
from heedful.nn.initialization import init_xavier
from heedful.runs.training_run import train
from heedful.tasks.answer.model import Reader
from heedful.tasks.answer.objective import AnswerEnds

ENCODERS: Mapping[str, Mapping[str, Any]] = {
    "transformer": TRANSFORMER,
    "without-segments": {**TRANSFORMER, "segments": 0, "positions": "rope", "norm": "pre"},
    "marked-matches": {**TRANSFORMER, "segments": 3},
    "recurrent": RECURRENT,
    "bert": {**BERT, "dropout": 0.0, "dropout_attention": 0.0},
}
WORDS = 14
STORE = TokenStore.of(
    question=[[5, 6], [7], [5, 6, 8], [9]],
    text=[[10, 11, 12, 5, 6], [13, 4], [8, 9, 10, 11], [4, 4, 5]],
    answer=[[1, 2], [0, 0], [], [2, 2]],
)
SHAPE = StaticShape.around(tokens=64, max_sentences=6, longest=20)


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def model_of(encoder: str) -> SpanReader:
    torch.manual_seed(2)
    table = {"family": "reader", "encoder": {**ENCODERS[encoder], "dropout": 0.0}, "dropout": 0.0}
    table["mark_matches"] = ENCODERS[encoder].get("segments") == 3
    return build_reader(TypeAdapter(ReaderModel).validate_python(table), WORDS)


def exact(model: nn.Module) -> None:
    """In float64, every parameter counting."""
    model.double().eval()
    set_precision(model, torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)


def batch_of(*rows: int, **shape: Any) -> QuestionBatch:
    return QuestionCollator().batch([STORE], np.array(rows or range(len(STORE))), **shape)


def test_a_reader_overfits_one_batch(encoder: str) -> None:
    model, batch, objective = model_of(encoder), batch_of(), AnswerEnds()
    init_xavier(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    before = float(objective(model, batch).loss.detach())
    for _ in range(40):
        optimizer.zero_grad()
        objective(model, batch).loss.backward()
        optimizer.step()
    assert float(objective(model, batch).loss.detach()) < 0.1 * before


def test_every_weight_of_a_reader_has_a_gradient(encoder: str) -> None:
    model = model_of(encoder)
    exact(model)
    AnswerEnds()(model, batch_of()).loss.backward()
    unused = ("pooler", "follows")
    lacking = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert [name for name in lacking if not name.startswith(unused)] == []


@torch.no_grad()
def test_neighbours_and_what_fills_a_shape_cannot_change_scores_or_loss(encoder: str) -> None:
    model, objective = model_of(encoder), AnswerEnds(0.1)
    exact(model)
    alone = [batch_of(row) for row in range(4)]
    scores = torch.cat([model(batch.text) for batch in alone])
    loss = torch.stack([objective(model, batch).loss for batch in alone]).sum()
    for batch in (batch_of(), batch_of(static=SHAPE), batch_of(multiple=64)):
        assert torch.allclose(model(batch.text)[: len(scores)], scores, rtol=1e-10, atol=1e-12)
        assert torch.allclose(objective(model, batch).loss, loss, rtol=1e-6)
        assert objective.units(batch) == 4


@torch.no_grad()
def test_the_loss_is_the_mean_of_both_ends_by_hand() -> None:
    model = model_of("transformer").eval()
    total = 0.0
    for row, (start, end) in enumerate([(5, 6), (3, 3), (0, 0), (5, 5)]):
        batch = batch_of(row)
        scores = model(batch.text).float()
        for side, true in ((0, start), (1, end)):
            possible = scores[batch.possible, side]
            total += float(possible.logsumexp(0) - scores[true, side]) / 2
    sums = AnswerEnds()(model, batch_of())
    assert float(sums.loss) == pytest.approx(total, rel=1e-5)
    assert float(sums.likelihood) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("encoder", one_in(2, ENCODERS))
def test_a_reader_trained_in_two_halves_has_the_bits_of_a_whole_run_and_answers_as_before(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    write_reports(tmp_path)

    def run(steps: int, name: str, resume: bool = False) -> Path:
        settings = {"steps": steps, "schedule": {"kind": "constant", "lr": 0.01}, "validation": {"metric": "loss"}}
        model = {"encoder": ENCODERS[encoder], "mark_matches": ENCODERS[encoder].get("segments") == 3}
        recipe = reader_recipe(tmp_path, model, train=settings, data={"max_length": 9, "stride": 2})
        return train(recipe, tmp_path / name, resume=resume, console=Console(file=StringIO()))

    whole = run(4, "whole")
    run(2, "halves")
    halves = run(4, "halves", resume=True)
    files = ("model.safetensors", "optimizer.safetensors")
    for file in files:
        paths = [folder / "checkpoints/step-00000004" / file for folder in (whole, halves)]
        assert paths[0].read_bytes() == paths[1].read_bytes()
    text = "so so Ann lives in New York now ."
    assert Reader.load(whole, "cpu").answer("Who ?", text) == Reader.load(halves, "cpu").answer("Who ?", text)
