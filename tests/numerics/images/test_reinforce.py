"""Hard attention by REINFORCE: its gradient, averaged over all choices of patches, is that of the expected reward."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.base.packed import Images, Layout, Packed
from heedful.config.reading.load import recipe_from_json
from heedful.data.batches.pairs import PairBatch
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import ImageCaptioner, set_precision
from heedful.nn.alignments.distributions import softmax
from heedful.nn.alignments.reinforce import Reinforced
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.tasks.caption.objective import RewardedCaptions, collect_draws, reinforced, rewards

WIRINGS: dict[str, dict[str, Any]] = {
    "luong": {"wiring": "luong"},
    "bahdanau": {"wiring": "bahdanau"},
    "without input feeding": {"wiring": "luong", "input_feeding": False},
}


def captioner(decoder: dict[str, Any]) -> ImageCaptioner:
    recipe = recipe_from_json(
        {
            "data": {"train": [{"builtin": "scenes"}]},
            "tokenizer": {"kind": "word"},
            "model": {
                "family": "captioner",
                "encoder": {"family": "convolutional", "width": 4, "stages": 2, "depth": 1, "dropout": 0.0},
                "decoder": {"family": "recurrent", "width": 4, "dropout": 0.0, "choice": "reinforce", **decoder},
            },
        },
        "recipe",
    )
    torch.manual_seed(5)
    tokenizer = train_tokenizer(recipe.tokenizer, ["one two three"])
    network = build_network(recipe.model, Vocabularies({"text": tokenizer}))
    assert isinstance(network, ImageCaptioner)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)
    set_precision(network.double().train(), torch.float64)
    return network


def batch() -> PairBatch:
    """One image of two patches, with a caption of one word and its end."""
    pixels = torch.arange(4 * 8 * 3, dtype=torch.float64).mul(37).remainder(255).to(torch.uint8)
    images = Images.of([pixels.view(4, 8, 3)], 4, class_token=False)
    return PairBatch(
        images, Packed.of([[BEGIN, 4]]), torch.tensor([4, END]), sentences=1, source_tokens=1, target_tokens=2
    )


def gradients(model: ImageCaptioner, loss: Tensor) -> list[Tensor]:
    weights = list(model.parameters())
    found = torch.autograd.grad(loss, weights, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]


def forced(chosen: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """Return a choice of these patches, one after the other."""
    keys = iter(chosen)
    return lambda weights: torch.tensor([next(keys) for _ in range(weights[..., 0].numel())]).view(weights.shape[:-1])


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("baseline", [0.0, -1.7])
def test_the_mean_gradient_over_all_choices_is_that_of_the_expected_log_likelihood(
    wiring: str, baseline: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, example = captioner(WIRINGS[wiring]), batch()
    attention = reinforced(model)
    attention.soft = 0.0
    objective = RewardedCaptions(0.0, Augmentation(), entropy=0.0, discount=1.0)
    expected: Tensor | float = 0.0
    mean = [torch.zeros_like(weight) for weight in model.parameters()]
    total = 0.0
    for chosen in product((0, 1), repeat=2):
        monkeypatch.setattr(attention, "choose", forced(chosen))
        objective.load_state_dict({"baseline": torch.tensor(baseline)})
        sums = objective(model, example)
        log_p_N, _ = collect_draws(attention, example.target.layout)
        share = float(log_p_N.sum().detach().exp())
        total += share
        found = gradients(model, sums.loss)
        mean = [before + share * gradient for before, gradient in zip(mean, found, strict=True)]
        monkeypatch.setattr(attention, "choose", forced(chosen))  # once more, for the exact expectation
        attention.begin(1, torch.device("cpu"))
        scores = model(example.source, example.target)
        log_likelihood = scores.log_softmax(1).gather(1, example.labels.unsqueeze(1)).sum()
        drawn, _ = collect_draws(attention, example.target.layout)
        expected = expected + drawn.sum().exp() * log_likelihood
    assert total == pytest.approx(1)
    assert isinstance(expected, Tensor)
    for ours, exact in zip(mean, gradients(model, -expected), strict=True):
        assert torch.allclose(ours, exact, atol=1e-5)
    assert any(gradient.abs().max() > 1e-3 for gradient in mean)


def test_rewards_are_discounted_sums_from_a_token_to_the_end_of_its_sentence() -> None:
    gains, layout = torch.tensor([1.0, 2.0, 4.0, 3.0]), Layout.of([3, 1])
    assert rewards(gains, layout, 1.0).tolist() == [7, 6, 4, 3]
    assert rewards(gains, layout, 0.5).tolist() == [1 + 0.5 * 4, 4, 4, 3]


def test_patches_are_drawn_as_often_as_their_weights_say_and_the_likeliest_is_read_afterwards() -> None:
    attention, scores = Reinforced(softmax, soft=0.0).train(), torch.tensor([0.0, math.log(3)]).expand(4000, 1, 2)
    torch.manual_seed(2)
    attention.begin(4000, scores.device)
    read = attention(scores)
    assert read.unique().tolist() == [0, 1]
    assert float(read[..., 1].mean()) == pytest.approx(0.75, abs=0.03)
    (draw,) = attention.draws
    assert torch.allclose(draw.log_p_X, (read * torch.tensor([0.25, 0.75])).sum(-1).log())
    assert torch.allclose(draw.entropy_X, torch.tensor(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75))))
    assert attention.eval()(scores)[0].tolist() == [[0, 1]]


def test_some_sentences_read_the_weighted_mean_at_every_step() -> None:
    attention, scores = Reinforced(softmax, soft=0.5).train(), torch.tensor([0.0, math.log(3)]).expand(200, 1, 2)
    torch.manual_seed(2)
    attention.begin(200, scores.device)
    first, second = attention(scores), attention(scores[:150])
    soft = (first[:, 0, 0] - 0.25).abs() < 1e-6
    assert 60 < int(soft.sum()) < 140
    assert torch.equal((second[:, 0, 0] - 0.25).abs() < 1e-6, soft[:150])
    assert (attention.draws[0].log_p_X[soft] == 0).all()
    assert (attention.draws[0].log_p_X[~soft] < 0).all()


def test_the_baseline_moves_and_is_restored() -> None:
    model, example, objective = captioner({}), batch(), RewardedCaptions(0.0, Augmentation())
    assert objective.state_dict() == {}
    objective(model, example)
    first = float(objective.state_dict()["baseline"])
    assert first < 0
    other = RewardedCaptions(0.0, Augmentation())
    other.load_state_dict({"baseline": torch.tensor(-1000.0)})
    other(model, example)
    assert -1000 < float(other.state_dict()["baseline"]) < -899
    other.load_state_dict({})
    assert other.state_dict() == {}
