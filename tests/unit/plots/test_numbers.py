"""What plots draw is what models compute."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.shared.refusals import refuses

import heedful
from heedful.config.reading.load import load_recipe
from heedful.doctor.estimates.layers import KINDS, Sizes
from heedful.plots.attention import DRAWN, draw_distributions, weigh
from heedful.plots.gradients import draw_by_layer, gradients_by_layer
from heedful.plots.layer_cost import (
    count_layers,
    draw_layer_costs,
    layer_table,
    measure_layers,
    powers_of_two,
    read_layer_costs,
)
from heedful.plots.positions import draw_positions, position_table, positions_of
from heedful.plots.schedules import curve_of_recipe, curve_of_text, draw_schedules

TINY = {"model.width": 8, "model.heads": 2, "model.layers": 3, "model.inner": 8, "tokenizer.size": 300}


def test_positions_are_those_of_the_paper_in_both_arrangements() -> None:
    alternating, halves = position_table(6, 5), position_table(6, 5, halves=True)
    for position in range(5):
        for pair in range(3):
            angle = position / 10_000 ** (2 * pair / 6)
            expected = [math.sin(angle), math.cos(angle)]
            np.testing.assert_allclose(alternating[position, [2 * pair, 2 * pair + 1]], expected, atol=1e-6)
            np.testing.assert_allclose(halves[position, [pair, pair + 3]], expected, atol=1e-6)


def test_positions_of_a_recipe_have_its_width() -> None:
    assert positions_of(load_recipe("transformer-base-wmt14")) == (512, False)
    with refuses("...The family `recurrent` has no positions to draw..."):
        positions_of(load_recipe("rnnsearch"))
    with refuses("...The positions of this recipe are `rope`, but only sinusoidal ones..."):
        positions_of(load_recipe("demo-en-es", {"model.positions": "rope"}))
    with refuses("...There is no dimension 8: the positions have 8, counted from 0..."):
        draw_positions(8, 4, [8])


def test_schedules_have_the_values_of_their_equations() -> None:
    noam = curve_of_text("noam, width=256, warmup=100")
    assert noam.rate(50) == pytest.approx(256**-0.5 * 50 * 100**-1.5)
    assert noam.rate(400) == pytest.approx(256**-0.5 * 400**-0.5)
    cosine = curve_of_text("cosine,lr=0.01,steps=100")
    assert (cosine.rate(50), cosine.rate(100)) == pytest.approx((0.005, 0.0))
    recipe = load_recipe("demo-en-es", {"train.schedule": {"kind": "constant", "lr": 0.5, "warmup": 10}})
    curve = curve_of_recipe(recipe, "demo")
    assert (curve.rate(5), curve.rate(20)) == pytest.approx((0.25, 0.5))
    assert "demo" in draw_schedules([curve, noam])


def test_figure_2_15_is_drawn_from_schedules_and_from_recipes() -> None:
    """RAdam without a warm-up beside the untuned warm-ups of Adam, over 18,000 updates."""
    radam = curve_of_text("constant,lr=0.001,optimizer=radam,beta2=0.999")
    linear = curve_of_text("constant,lr=0.001,warmup=untuned_linear,beta2=0.999")
    exponential = curve_of_text("constant,lr=0.001,warmup=untuned_exponential,beta2=0.999")
    assert [radam.rate(step) for step in range(1, 6)] == [0.0] * 5
    assert radam.rate(6) == pytest.approx(0.001 * rectified(6, 0.999))
    assert radam.rate(18_000) == pytest.approx(0.001, rel=1e-4)
    assert (linear.rate(500), linear.rate(2000), linear.rate(18_000)) == pytest.approx((0.00025, 0.001, 0.001))
    assert exponential.rate(1000) == pytest.approx(0.001 * (1 - math.exp(-1)))
    recipe = load_recipe("demo-en-es", {
        "train.schedule": {"kind": "constant", "lr": 0.001}, "train.optimizer": {"kind": "radam", "beta2": 0.999},
    })  # fmt: skip
    of_recipe = curve_of_recipe(recipe, "demo")
    assert all(of_recipe.rate(step) == radam.rate(step) for step in (1, 5, 6, 500, 18_000))
    assert "nan" not in draw_schedules([radam, linear, exponential, of_recipe], 18_000, log_y=True)


def rectified(t: int, beta2: float) -> float:
    """Liu et al. 2020, algorithm 2, lines 1, 8 and 10."""
    rho = 2 / (1 - beta2) - 1
    rho_t = rho - 2 * t * beta2**t / (1 - beta2**t)
    return math.sqrt((rho_t - 4) * (rho_t - 2) * rho / ((rho - 4) * (rho - 2) * rho_t))


@pytest.mark.parametrize(("given", "message"), [
    ("cosin,lr=1", "--schedule cosin,lr=1: `cosin` is not a schedule. Did you mean `cosine`?"),
    ("cosine", "--schedule cosine: `lr` is missing: add such as lr=0.001."),
    ("noam,warmup", "--schedule noam,warmup: `warmup` is not a key with its value: write such as warmup=4000."),
    ("cosine,lr=-1", "--schedule cosine,lr=-1: `lr` must be greater than 0."),
    ("noam,width=x", "--schedule noam,width=x: `width` is x, but must be a whole number from 1 on."),
    ("noam,speed=3", "--schedule noam,speed=3: `speed` is not a key of the schedule `noam`: leave it out."),
    ("noam,optimizer=sgd", "--schedule noam,optimizer=sgd: `optimizer` is sgd, but must be adam or radam."),
    (
        "noam,beta2=0.9",
        "--schedule noam,beta2=0.9: `beta2` changes no rate but that of optimizer=radam and of an untuned warm-up: "
        "leave it out, or add one of them.",
    ),
    ("noam,beta2=2", "--schedule noam,beta2=2: `beta2` is 2, but must be a number between 0 and 1."),
    (
        "noam,warmup=untuned_linear",
        "--schedule noam,warmup=untuned_linear: `warmup` is untuned_linear, but the schedule `noam` has a warm-up of "
        "its own: use constant, linear or cosine.",
    ),
    ("constant,lr=1,warmup=slow", "--schedule constant,lr=1,warmup=slow: `warmup` must be a valid integer."),
])  # fmt: skip
def test_a_wrong_schedule_is_named(given: str, message: str) -> None:
    with pytest.raises(heedful.UserError) as error:
        curve_of_text(given)
    assert message in str(error.value)


def test_distributions_give_the_weights_of_their_equations() -> None:
    scores = [1.0, 0.5, -1.0]
    exponents = [math.exp(score) for score in scores]
    assert weigh("softmax", [scores])[0] == pytest.approx([one / sum(exponents) for one in exponents])
    assert weigh("sparsemax", [scores])[0] == pytest.approx([0.75, 0.25, 0.0])
    assert weigh("entmax", [scores], alpha=2.0)[0] == pytest.approx([0.75, 0.25, 0.0], abs=1e-6)
    assert all(name in draw_distributions(DRAWN, scores) for name in DRAWN if name != "entmax")
    with refuses("...`softmx` is not a distribution that can be drawn. Did you..."):
        weigh("softmx", [scores])
    with refuses("...--alpha is 1, but must be above 1: at 1, entmax is softmax..."):
        weigh("entmax", [scores], alpha=1.0)


def test_gradients_by_layer_show_the_placement_of_norms() -> None:
    pre, post = (gradients_by_layer(load_recipe("demo-en-es", TINY | {"model.norm": norm})) for norm in ("pre", "post"))
    assert [len(norms) for norms in (*pre.values(), *post.values())] == [3, 3, 3, 3]
    assert all(norm > 0 for norms in pre.values() for norm in norms)
    assert pre != post
    assert "pre, decoder" in draw_by_layer({"pre": pre, "post": post})
    with refuses("...Gradients by layer are drawn for networks that generate text..."):
        gradients_by_layer(load_recipe("imdb", {"model.encoder.width": 8, "model.encoder.heads": 2}))


def test_costs_of_layers_are_counted_measured_or_read(tmp_path: Path) -> None:
    sizes = Sizes(8, kernel=3, radius=2)
    measured = measure_layers(sizes, [4, 8], 16)
    assert [*measured] == [name for name in KINDS if name != "dilated"]
    assert all([*row] == [4, 8] for row in measured.values())
    columns = count_layers(sizes, [4, 8]) | {"milliseconds": measured}
    drawn = draw_layer_costs(columns, {column: column for column in columns}, "Cost", 8)
    assert "restricted self-attention: 8, " in drawn
    rows = {row["layer"]: row for row in layer_table(columns, sizes)["layers"]}
    assert rows["rnn_tanh"]["cost"] == {4: 2 * 4 * 8**2, 8: 2 * 8 * 8**2}
    assert rows["rnn_tanh"]["cost"][8] == rows["attention_alone"]["cost"][8], "at n = d"
    assert rows["convolution"]["path"] == {4: 3, 8: 7}
    assert "milliseconds" not in rows["dilated"]
    assert powers_of_two(70) == [16, 32, 64, 70]
    assert powers_of_two(4) == [4]
    record = {"machine": {"cpu": "a CPU"}, "milliseconds": {"256": {"forward": {"lstm": {"16": 2.0}}}}}
    (tmp_path / "cost.json").write_text(json.dumps({"details": {"cpu": record}}))
    assert read_layer_costs(tmp_path / "cost.json", "cpu", "forward", 256) == ({"lstm": {16: 2.0}}, "a CPU")
    with refuses("...has no times of gpu, both and width 256: give a result of..."):
        read_layer_costs(tmp_path / "cost.json", "gpu", "both", 256)
