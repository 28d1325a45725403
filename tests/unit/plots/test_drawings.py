"""Drawn networks: what is in them is what the recipe builds."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.shared.refusals import refuses

import heedful
from heedful.cli.verbs.plot import image_file, write_image
from heedful.config.reading.load import load_recipe
from heedful.config.reading.shipped_recipes import shipped_recipes
from heedful.plots.architecture import describe_network, draw_architecture
from heedful.plots.recipes import network_of, recipe_network
from heedful.plots.recurrent import NAMES, Graph, draw_cell, draw_unrolled, graph_of

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(drawn).iter(f"{SVG}text")]


def test_a_transformer_is_drawn_with_its_shapes() -> None:
    network, title = network_of("transformer-base-wmt14", ["model.layers=3"], 2)
    shown = texts(draw_architecture(network, title))
    assert {"encoder", "decoder", "Self-attention", "Causal self-attention", "Attention over the source"} <= set(shown)
    assert shown.count("8 heads of 64") == 3
    assert shown.count("\N{MULTIPLICATION SIGN} 3") == 2
    assert "512 \N{RIGHTWARDS ARROW} 37,000" in shown
    assert f"{sum(weight.numel() for weight in network.parameters()):,} parameters" in shown


def test_parts_hold_all_parameters_of_a_network() -> None:
    for name in ("rnnsearch", "imdb-han", "gum-chunks"):
        network = recipe_network(load_recipe(name))
        groups = [group for column in describe_network(network) for group in column.groups + column.besides]
        found = sum(part.parameters * group.times for group in groups for part in group.parts)
        assert found >= 0.999 * sum(weight.numel() for weight in network.parameters())


@pytest.mark.wide
@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_is_drawn(name: str) -> None:
    recipe = load_recipe(name)
    drawn = draw_architecture(recipe_network(recipe), name)
    assert "parameters" in drawn
    ElementTree.fromstring(drawn)


def test_a_recipe_that_starts_from_a_model_needs_it() -> None:
    with refuses("...bert-reviews takes its network from the model `runs/bert-wikitext2`..."):
        network_of("bert-reviews", [], 2)


def test_an_unrolled_graph_has_a_state_for_every_word_and_layer() -> None:
    graph = graph_of(load_recipe("rnnsearch"))
    assert (graph.bidirectional, graph.wiring, graph.attends) == (True, "bahdanau", True)
    shown = texts(draw_unrolled(graph, ["a", "b", "c"], ["x", "y"], "title"))
    states = [one for one in shown if re.fullmatch(r"[hs]\(\d\).?", one)]
    assert len(states) == 2 * 3 + 2
    assert shown.count("c") == 2 + 1  # a context for every word of the target, and a word of the source
    stacked = texts(draw_unrolled(Graph("lstm", 2), ["a", "b"], [], "title"))
    assert {"h\u2081(1)", "h\u2082(2)"} <= set(stacked)
    with refuses("...There are 13 words, but an unrolled graph shows 1 to 12..."):
        draw_unrolled(Graph(), ["a"] * 13, [], "title")
    with refuses("...The family of this recipe is `transformer`, without a recurrent cell..."):
        graph_of(load_recipe("demo-en-es"))


@pytest.mark.parametrize(
    ("name", "settings", "outputs", "feedback"),
    [
        ("output-feedback", ["model.decoder.feedback=hidden"], "each", "hidden"),
        ("output-feedback", [], "each", "output"),
        ("teacher-forced", [], "each", "target"),
        ("imdb-lstm", ["model.pool=last"], "last", "hidden"),
        ("gum-pos", [], "each", "hidden"),
    ],
)
def test_a_wiring_is_drawn_with_its_outputs_and_what_is_fed_back(
    name: str, settings: list[str], outputs: str, feedback: str
) -> None:
    graph = graph_of(load_recipe(name, settings))
    assert (graph.outputs, graph.feedback) == (outputs, feedback)
    drawn = draw_unrolled(replace(graph, bidirectional=False, layers=1), ["a", "b", "c"], [], "title")
    steps = ["1", "2", "3"] if outputs == "each" else ["3"]
    for sign in ("o", "y"):
        assert [one for one in texts(drawn) if one.startswith(f"{sign}(")] == [f"{sign}({step})" for step in steps]
    assert texts(drawn).count("L") == len(steps)
    # Arrows: into states, from states to outputs, to losses, from targets, and between steps.
    assert drawn.count("<polygon") == 3 + 3 * len(steps) + 2


def test_one_vector_is_drawn_into_every_step() -> None:
    graph = graph_of(load_recipe("vector-to-sequence"))
    assert (graph.wiring, graph.image, graph.repeats) == ("vector", True, True)
    drawn = draw_unrolled(graph, [], ["a", "b", "c"], "title")
    assert {"image", "v", "s(1)", "o(3)", "<s>"} <= set(texts(drawn))
    assert "<desc>gru cells, 1 layer, one vector into every step of the decoder.</desc>" in drawn
    assert drawn.count("<polygon") == 1 + 3 + 2 + 3 + 3 * 3  # image, words, states, vectors, and what is scored


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_is_drawn_with_the_equations_of_its_class(name: str) -> None:
    shown = texts(draw_cell(name))
    assert any(line.startswith("h(t) = ") for line in shown)
    assert {"x(t)", "h(t-1)", "h(t)"} <= set(shown)


def test_the_cell_of_a_recipe_is_found_and_others_refused() -> None:
    assert graph_of(load_recipe("sutskever")).cell == "lstm"
    with refuses("...`lstn` is not a recurrent cell. Did you mean `lstm`..."):
        draw_cell("lstn")


def test_images_are_written_by_their_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw_cell("tanh")
    write_image(drawn, tmp_path / "cell.svg", "title")
    file = (tmp_path / "cell.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in file
    assert re.sub("<style>.*?</style>", "", file, count=1, flags=re.DOTALL) == drawn
    write_image(drawn, tmp_path / "cell.html", "A <title>")
    page = (tmp_path / "cell.html").read_text(encoding="utf-8")
    assert "<h1>A &lt;title&gt;</h1>" in page
    assert drawn in page
    assert "<script" not in page
    with refuses("...cell.gif: an image is a file that ends in .svg, .png, .html..."):
        image_file(Path("cell.gif"), "cell")
    monkeypatch.setattr("shutil.which", lambda name: None)
    with refuses("...cell.png: PNG needs the program rsvg-convert: ...write cell.svg..."):
        image_file(Path("cell.png"), "cell")


def test_a_png_has_twice_the_pixels(tmp_path: Path) -> None:
    try:
        image_file(Path("cell.png"), "cell")
    except heedful.UserError as error:
        pytest.skip(str(error))
    write_image(draw_cell("tanh"), tmp_path / "cell.png", "title")
    data = (tmp_path / "cell.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") == 2 * 560
    with refuses("...rsvg-convert could not draw the image..."):
        write_image("<svg", tmp_path / "broken.png", "title")
