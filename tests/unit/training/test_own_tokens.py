"""Scheduled sampling: a recurrent decoder that is given some of its own tokens in training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses

from heedful.config.model.recurrent import RecurrentModel
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.batches.pairs import PairBatch, collate
from heedful.data.token_store import TokenStore
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.recurrent.decoder import RecurrentDecoder
from heedful.runs import run as running
from heedful.runs.training_run import train


def model_of(wiring: str) -> tuple[EncoderDecoder, RecurrentDecoder]:
    torch.manual_seed(1)
    config = {"family": "recurrent", "wiring": wiring, "width": 8, "dropout": 0.0}
    model = build_model(RecurrentModel.model_validate(config), 12, 12)
    assert isinstance(model.decoder, RecurrentDecoder)
    return model, model.decoder


def batch() -> PairBatch:
    store = TokenStore.of(source=[[4, 5, 6], [7]], target=[[8, 9, 10, 11], [9]])
    return collate([store], np.arange(2))


@pytest.mark.parametrize("wiring", ["sutskever", "cho", "bahdanau", "luong"])
def test_without_own_tokens_every_step_is_as_it_was(wiring: str) -> None:
    model, decoder = model_of(wiring)
    made = batch()
    expected = model.states(made.source, made.target)
    decoder.own_share = 1e-12  # step by step, and the coin never falls so
    torch.testing.assert_close(model.states(made.source, made.target), expected)


def test_with_own_tokens_alone_nothing_but_the_first_token_counts() -> None:
    model, decoder = model_of("bahdanau")
    decoder.own_share = 1.0
    found = []
    for target in ([8, 9, 10], [11, 11, 11]):
        made = collate([TokenStore.of(source=[[4, 5]], target=[target])], np.arange(1))
        torch.manual_seed(3)
        found.append(model.states(made.source, made.target))
    assert torch.equal(*found)


@pytest.mark.parametrize(("sign", "expected"), [(1, 400), (-1, 0)])
def test_own_tokens_are_drawn_from_the_scores_of_the_step_before(
    sign: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, decoder = model_of("luong")
    made = collate([TokenStore.of(source=[[4]] * 400, target=[[8, 9]] * 400)], np.arange(400))
    with torch.no_grad():
        first_E = model.states(made.source, made.target)[0]
        decoder.output.weight.zero_()
        decoder.output.weight[7] = sign * 100 * first_E / first_E.square().sum()
    seen: list[torch.Tensor] = []
    step = decoder.embedding.step

    def watched(tokens: torch.Tensor, place: int) -> torch.Tensor:
        seen.append(tokens)
        return step(tokens, place)

    monkeypatch.setattr(decoder.embedding, "step", watched)
    decoder.own_share = 1.0
    model.states(made.source, made.target)
    assert int((seen[1] == 7).sum()) == expected
    assert len(seen[1].unique()) == (1 if expected else 11)  # else all other tokens are equally likely


def test_in_use_and_when_judged_it_is_given_the_truth() -> None:
    model, decoder = model_of("bahdanau")
    decoder.own_share = 1.0
    made = batch()
    model.eval()
    expected = model.states(made.source, made.target)
    decoder.own_share = 0.0
    assert torch.equal(model.states(made.source, made.target), expected)


def recipe(folder: Path, **model: Any) -> Recipe:
    for name in "ab":
        (folder / name).write_text("one two three\nfour five\nsix one\n" * 5)
    options = {"family": "recurrent", "width": 8, **model}
    schedule = {"kind": "constant", "lr": 0.01}
    decay = {"kind": "linear", "slope": 0.1}
    return recipe_from_json(
        {
            "data": {"folder": str(folder), "train": [{"source": "a", "target": "b"}]},
            "tokenizer": {"kind": "word"},
            "model": options,
            "train": {"steps": 4, "schedule": schedule, "scheduled_sampling": decay, "device": "cpu"},
        },
        "recipe",
    )


def test_the_share_follows_the_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    shares: list[float] = []
    build = running.build_trainer

    def watched(*parts: Any) -> Any:
        trainer = build(*parts)
        update = trainer._update

        def noted(*rest: Any) -> Any:
            result = update(*rest)
            decoder = trainer.model.decoder
            assert isinstance(decoder, RecurrentDecoder)
            shares.append(decoder.own_share)
            return result

        monkeypatch.setattr(trainer, "_update", noted)
        return trainer

    monkeypatch.setattr(running, "build_trainer", watched)
    train(recipe(tmp_path), tmp_path / "run")
    assert shares == pytest.approx([0, 0.1, 0.2, 0.3])


def test_decoders_that_take_no_steps_are_refused(tmp_path: Path) -> None:
    with refuses("...`train.scheduled_sampling` needs a recurrent decoder, as a Transformer's reads..."):
        recipe(tmp_path, family="transformer", heads=2)
    with refuses("...`train.scheduled_sampling` samples tokens step by step...`variational = false`..."):
        recipe(tmp_path, variational=True)
