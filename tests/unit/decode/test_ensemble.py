"""Several models as one: the mean of probabilities, whatever the members are."""

from typing import Any

import torch
from tests.models.language import language_model
from tests.shared.refusals import refuses
from tests.shared.searching import search_texts

from heedful.base.packed import Packed
from heedful.config.model.transformer import TransformerModel
from heedful.data.tokenize.tokenizer import BEGIN
from heedful.decode.scorer import Ensemble
from heedful.decode.settings import SearchSettings
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision

SOURCES = Packed.of([[5, 6, 7, 2], [9, 2]])


def model_of(seed: int, words: int = 20, **options: Any) -> EncoderDecoder:
    torch.manual_seed(seed)
    config = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "dropout": 0.5} | options
    return build_model(TransformerModel(**config), words, words).eval()


def test_probabilities_are_the_mean_of_the_members() -> None:
    models = [model_of(1), model_of(2, width=8, norm="pre"), model_of(3, layers=2)]
    target = Packed.of([[BEGIN, 5, 6], [BEGIN, 7]])
    mean_NV = sum(model(SOURCES, target).softmax(1) for model in models) / 3
    torch.testing.assert_close(Ensemble(models)(SOURCES, target).exp(), mean_NV)


@torch.no_grad()
def test_stepping_equals_forward() -> None:
    ensemble = Ensemble([model_of(1), model_of(2, width=8, layers=3)])
    state = ensemble.begin(SOURCES, beams=2, aligned=True)
    rows = [[BEGIN, 5, 6], [BEGIN, 7, 8], [BEGIN, 9, 4], [BEGIN, 9, 9]]
    for place in range(3):
        found_RV, state = ensemble.step(torch.tensor([row[place] for row in rows]), state)
    sources = Packed.of([[5, 6, 7, 2], [5, 6, 7, 2], [9, 2], [9, 2]])
    torch.testing.assert_close(found_RV, ensemble(sources, Packed.of(rows))[2::3], atol=1e-5, rtol=1e-5)
    assert state.attention_RL is not None
    weights = [member.attention_RL for member in state.members if member.attention_RL is not None]
    torch.testing.assert_close(state.attention_RL, (weights[0] + weights[1]) / 2)
    torch.testing.assert_close(state.attention_RL.sum(1), torch.ones(4))
    swapped = state.reorder(torch.tensor([[1, 0], [0, 0]])).narrow(torch.tensor([0]))
    torch.testing.assert_close(swapped.attention_RL, state.attention_RL[[1, 0]])
    assert ensemble.begin(SOURCES).attention_RL is None


@torch.no_grad()
def test_improbable_tokens_do_not_become_impossible() -> None:
    model = model_of(1, tie="none")
    with torch.no_grad():
        model.decoder.output.weight[7] *= 2000
    log_p_NV = Ensemble([model, model])(SOURCES, Packed.of([[BEGIN], [BEGIN]]))
    assert log_p_NV.isfinite().all()
    assert float(log_p_NV.min()) < -150
    torch.testing.assert_close(log_p_NV, model(SOURCES, Packed.of([[BEGIN], [BEGIN]])).log_softmax(1))


def test_bfloat16_members_vote_in_float32() -> None:
    models = [model_of(1), model_of(2)]
    for model in models:
        set_precision(model, torch.bfloat16)
    log_p_NV = Ensemble(models)(SOURCES, Packed.of([[BEGIN], [BEGIN]]))
    assert log_p_NV.dtype == torch.float32
    torch.testing.assert_close(log_p_NV.exp().sum(1), torch.ones(2))


def test_the_shortest_member_bounds_the_length() -> None:
    short: dict[str, Any] = {"positions": "learned", "max_positions": 6}
    long: dict[str, Any] = {"positions": "learned", "max_positions": 9}
    assert Ensemble([model_of(1, **long), model_of(2), model_of(3, **short)]).longest == 6
    assert Ensemble([model_of(1), model_of(2)]).longest is None
    ensemble = Ensemble([model_of(1, **long), model_of(3, **short)])
    found = search_texts(ensemble, [[5, 6, 7]], SearchSettings(beam=2, nbest=2, max_extra=30, min_length=5), 4096)
    assert all(best.length <= 6 for best in found[0])


def test_an_ensemble_is_a_module_of_its_members() -> None:
    ensemble = Ensemble([model_of(1), model_of(2)])
    assert not any(module.training for module in ensemble.eval().modules())
    assert len(list(ensemble.parameters())) == 2 * len(list(model_of(1).parameters()))
    assert ensemble.device == torch.device("cpu")


def test_members_must_share_a_vocabulary() -> None:
    with refuses(
        "Model 3 of the ensemble has 2,100 target tokens, but the first has 20: the models of an ensemble must share "
        "their vocabularies."
    ):
        Ensemble([model_of(1), model_of(2), model_of(3, words=2100)])


def test_members_must_use_their_sources_alike() -> None:
    with refuses(
        "Model 2 of the ensemble continues its source, but the first reads its source: the models of an ensemble must "
        "use their sources alike."
    ):
        Ensemble([model_of(1), language_model("gru", words=20)])  # type: ignore[arg-type]


def test_an_ensemble_of_nothing_is_refused() -> None:
    with refuses("An ensemble has no models, but needs at least one: name them."):
        Ensemble([])


@torch.no_grad()
def test_one_member_is_enough() -> None:
    model = model_of(1)
    log_p_NV = Ensemble([model])(SOURCES, Packed.of([[BEGIN], [BEGIN]]))
    torch.testing.assert_close(log_p_NV, model(SOURCES, Packed.of([[BEGIN], [BEGIN]])).log_softmax(1))
