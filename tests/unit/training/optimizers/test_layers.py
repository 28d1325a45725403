"""Which layers learn, and how fast: rates that fall from the top down, and weights that stay as they are."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.pooled import ClassifierModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.train.optimizers import Adam, AdamW, AnyOptimizer
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model
from heedful.models.from_recipe.network import build_model
from heedful.training.objectives import Sums
from heedful.training.optimizers.build import build_optimizer, freeze, layer_scales
from heedful.training.updates import EagerUpdates

TINY = {"width": 8, "heads": 2, "layers": 3, "inner": 8, "dropout": 0.0}


def classifier(**encoder: Any) -> nn.Module:
    table = {"family": "transformer", **TINY, **encoder}
    return build_classifier(
        ClassifierModel.model_validate({"family": "classifier", "encoder": table, "pooler": True}),
        vocabulary=10,
        classes=3,
    )


def recurrent() -> nn.Module:
    config = ClassifierModel.model_validate({"family": "classifier", "encoder": {"family": "recurrent", "width": 4}})
    return build_classifier(config, 10, 3)


def masked() -> nn.Module:
    return build_masked_model(BertModel.model_validate({"family": "bert", **TINY}), 10)


def translator() -> nn.Module:
    return build_model(TransformerModel.model_validate(TINY), 10, 10)


def height(name: str, layers: int = 3) -> int:
    """How many layers above a parameter learn faster, by its name: 0 of what stands on the encoder."""
    parts = name.removeprefix("pooled.").split(".")
    if parts[0] != "encoder":
        return 0
    if parts[1] == "blocks":
        return layers - int(parts[2])
    return 1 if parts[1] == "final" else layers + 1


# --- rates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [classifier, lambda: classifier(norm="pre", segments=2), masked])
def test_each_layer_has_a_share_of_the_rate_of_the_layer_above_it(make: Callable[[], nn.Module]) -> None:
    model = make()
    scales = layer_scales(model, 0.5)
    found = {name: scales.get(parameter, 1.0) for name, parameter in model.named_parameters()}
    assert found == {name: 0.5 ** height(name) for name in found}
    assert set(found.values()) == {1.0, 0.5, 0.25, 0.125, 0.0625}


def test_without_decay_every_model_has_one_rate() -> None:
    assert layer_scales(recurrent(), 1) == {}
    assert layer_scales(classifier(), 1) == {}


def moved(model: nn.Module, optimizer: AnyOptimizer, decay: float, rate: float) -> dict[str, Tensor]:
    """How far one update moves every weight, where all gradients are 1."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    made = build_optimizer(optimizer, model, layer_scales(model, decay))
    everything = sum(parameter.sum() for parameter in model.parameters())
    assert isinstance(everything, Tensor)

    def batch_loss(_: Any) -> Sums:
        return Sums(everything, everything)

    update: EagerUpdates[Any] = EagerUpdates(batch_loss, made, None, torch.device("cpu"))
    update.differentiate(None)
    update.step(units=1, rate=rate)
    return {name: before[name] - parameter.detach() for name, parameter in model.named_parameters()}


def test_the_first_update_moves_each_layer_by_exactly_its_rate() -> None:
    """Adam's first step is the rate itself in the direction of the gradient's sign."""
    steps = moved(classifier().double(), Adam(epsilon=1e-30), decay=0.25, rate=2.0**-7)
    for name, step in steps.items():
        expected = torch.full_like(step, 2.0**-7 * 0.25 ** height(name))
        assert torch.allclose(step, expected, rtol=1e-9, atol=1e-15), name


def test_weights_decay_by_the_rate_of_their_layer_and_vectors_do_not() -> None:
    model = classifier().double()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    steps = moved(model, AdamW(kind="adamw", epsilon=1e-30, weight_decay=0.5), decay=0.25, rate=2.0**-7)
    for name, step in steps.items():
        rate = 2.0**-7 * 0.25 ** height(name)
        expected = rate * (1 + 0.5 * before[name] if before[name].ndim > 1 else torch.ones_like(step))
        assert torch.allclose(step, expected, rtol=1e-9, atol=1e-15), name


def test_every_weight_is_in_one_group_whose_rate_follows_the_schedule() -> None:
    model = classifier()
    for config in (Adam(), AdamW(kind="adamw")):
        optimizer = build_optimizer(config, model, layer_scales(model, 0.5))
        members = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
        assert sorted(members) == sorted(map(id, model.parameters()))
        shares = [group["rate_scale"] for group in optimizer.param_groups]
        assert set(shares) == {1.0, 0.5, 0.25, 0.125, 0.0625}
        update: EagerUpdates[Any] = EagerUpdates(
            lambda _: Sums(torch.zeros(()), torch.zeros(())), optimizer, None, torch.device("cpu")
        )
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        update.step(units=1, rate=0.3)
        assert [group["lr"] for group in optimizer.param_groups] == [0.3 * share for share in shares]


# --- freezing ---------------------------------------------------------------------------------------------------------


def frozen(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


@pytest.mark.parametrize("make", [classifier, lambda: classifier(norm="pre"), masked])
@pytest.mark.parametrize("what", [None, 0, 1, 2, 3, "encoder"])
def test_the_embedding_and_the_first_layers_or_the_whole_encoder_stay(make: Callable[[], nn.Module], what: Any) -> None:
    model = make()
    freeze(model, what)
    names = {name for name, _ in model.named_parameters()}
    least = {None: 5, "encoder": 1}.get(what) or 4 - what  # the height from which on weights stay
    assert frozen(model) == {name for name in names if height(name) >= least}


def test_what_is_frozen_keeps_its_bits_and_the_rest_learns() -> None:
    for optimizer in (Adam(), AdamW(kind="adamw", weight_decay=0.5)):
        model = classifier()
        freeze(model, "encoder")
        steps = moved(model, optimizer, decay=0.5, rate=0.01)
        for name, step in steps.items():
            assert bool(step.any()) == (height(name) == 0), name


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layers", "said"), [(3, "3 layers"), (1, "1 layer")])
def test_more_layers_than_there_are_cannot_be_frozen(layers: int, said: str) -> None:
    with refuses(
        f'`train.freeze` is {layers + 1}, but the encoder has {said}: use a smaller number, or "encoder" for all of it.'
    ):
        freeze(classifier(layers=layers), layers + 1)


def test_a_model_without_layers_of_attention_has_none_to_freeze_or_to_slow_down() -> None:
    message = r"^`train.{}` needs a Transformer encoder, which this model does not have: leave it out\.$"
    with pytest.raises(UserError, match=message.format("freeze")):
        freeze(recurrent(), "encoder")
    with pytest.raises(UserError, match=message.format("layer_decay")):
        layer_scales(recurrent(), 0.5)
    with pytest.raises(UserError, match=message.format("freeze")):
        freeze(nn.Linear(2, 2), 0)


def test_a_translator_has_an_encoder_too() -> None:
    model = translator()
    freeze(model, 1)
    assert {name.split(".")[1] for name in frozen(model)} == {"embedding", "blocks"}
    assert all(name.startswith(("encoder.embedding", "encoder.blocks.0.")) for name in frozen(model))
