"""`heedful plot`: images as the papers draw them, from recipes, options and models."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.cli import messages
from heedful.cli.options import ModelArgument, SetOption, json_option, option, page_option
from heedful.cli.output import check_output, tell_page, write_result
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.pages.html import static_page, themed

app = typer.Typer(
    help="Draw positions, schedules, distributions, alignments, networks, cells, costs of layers and gradients."
)

OutputOption = Annotated[
    Path | None,
    page_option("ending in .svg, .png or .html"),
]
RecipeArgument = Annotated[
    str | None, typer.Argument(metavar="RECIPE", help="Recipe file, or the name of a recipe that ships with Heedful.")
]
RecipesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="RECIPE", help="Recipe files or names; several share one chart.")
]


@app.command()
def positions(
    recipe: RecipeArgument = None,
    overrides: SetOption = None,
    width: Annotated[int | None, option("Number of dimensions (default: 500).", metavar="N", min=2, max=8192)] = None,
    length: Annotated[int, option("Number of positions.", metavar="N", min=2, max=20_000)] = 2000,
    dimensions: Annotated[str, option("Dimensions to draw as curves, counted from 0.", metavar="N,N,...")] = "4,5,6,7",
    output: OutputOption = None,
) -> None:
    """Draw sinusoidal positions: all of them, both arrangements side by side, and some dimensions as curves.

    With a recipe, its width and its arrangement are drawn.
    """
    path = image_file(output, "positions")
    for part in map(str.strip, dimensions.split(",")):
        if not part.isdecimal():
            raise UserError(f"--dimensions: `{part}` is not a whole number from 0 on: write such as 4,5,6,7.")
    curves = list(map(int, dimensions.split(",")))
    from heedful.plots.positions import draw_positions, positions_of

    own, halves = 500, None
    for _, read in _recipes([recipe] if recipe else [], overrides):
        own, halves = positions_of(read)
    wide = width or own
    if wide % 2:
        raise UserError(f"--width is {wide}, but sinusoidal positions have an even number of dimensions.")
    write_image(draw_positions(wide, length, curves, halves), path, "Sinusoidal positions")


@app.command()
def schedule(
    recipes: RecipesArgument = None,
    overrides: SetOption = None,
    given: Annotated[
        list[str] | None,
        option(
            "A schedule by name, such as cosine,lr=0.001,warmup=500,steps=5000; repeatable.",
            "--schedule",
            metavar="KIND,KEY=VALUE,...",
        ),
    ] = None,
    steps: Annotated[int | None, option("Number of updates to draw.", metavar="N", min=2, max=100_000_000)] = None,
    log: Annotated[bool, option("Draw the learning rate on a logarithmic scale.", "--log")] = False,
    output: OutputOption = None,
) -> None:
    """Draw the learning rate over the updates of a run, for recipes and for schedules given by name.

    Without either, the schedule of Vaswani et al. 2017 is drawn for three models. No data is read. The rate of RAdam is
    drawn with its rectification: of a recipe with that optimizer, and of a schedule with optimizer=radam,beta2=0.999.
    """
    path = image_file(output, "schedule")
    from heedful.plots.schedules import USUAL, curve_of_recipe, curve_of_text, draw_schedules

    curves = [curve_of_recipe(recipe, name) for name, recipe in _recipes(recipes, overrides)]
    texts = given or ([] if curves else list(USUAL))
    curves += [curve_of_text(text, steps) for text in texts]
    write_image(draw_schedules(curves, steps, log), path, "Learning rate")


@app.command()
def distribution(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Distributions as recipes name them, such as sparsemax.")
    ] = None,
    scores: Annotated[str, option("Scores of keys.", "--values", metavar="X,X,...")] = "2,1.5,1,0.2,-0.5,-2",
    alpha: Annotated[float, option("Alpha of entmax.", metavar="X")] = 1.5,
    output: OutputOption = None,
) -> None:
    """Draw what distributions make of the same scores: softmax, sparsemax, entmax and others."""
    path = image_file(output, "distribution")
    numbers = list(map(_score, scores.split(",")))
    from heedful.plots.attention import USUAL, draw_distributions

    write_image(draw_distributions(names or USUAL, numbers, alpha), path, "From scores to weights")


@app.command()
def alignment(
    model: ModelArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Sentence to translate.")],
    target: Annotated[
        str | None, option("Target text: align this, not the model's own.", "--target-text", metavar="TEXT")
    ] = None,
    output: OutputOption = None,
) -> None:
    """Draw the alignment of a translation: how much each word attends to each word of the source."""
    path = image_file(output, "alignment")
    with messages.busy(f"loading {model}"):
        from heedful.plots.attention import draw_alignment
        from heedful.tasks.loading import load
        from heedful.tasks.translate.model import Translator

        loaded = load(model, "cpu")
    if not isinstance(loaded, Translator):
        raise UserError(
            f"{model} does not translate (its task is `{loaded.recipe.rules.name}`), so it has no alignment: use a "
            "translator, or `heedful explain`."
        )
    write_image(draw_alignment(loaded.explain(text, target, top=0)), path, "Alignment")


@app.command()
def architecture(
    source: Annotated[
        str, typer.Argument(metavar="RECIPE|MODEL", help="Recipe file or name, or the folder of a trained model.")
    ],
    overrides: SetOption = None,
    classes: Annotated[
        int, option("Number of classes, which is not in the recipe.", metavar="N", min=2, max=100_000)
    ] = 2,
    output: OutputOption = None,
) -> None:
    """Draw the network of a recipe or a model from its own modules, with the shapes of their matrices.

    The data of a recipe is not read: vocabularies have the size that the recipe sets.
    """
    path = image_file(output, "architecture")
    from heedful.plots.architecture import draw_architecture
    from heedful.plots.recipes import network_of

    network, title = network_of(source, overrides or [], classes)
    write_image(draw_architecture(network, title), path, title)


@app.command()
def unrolled(
    recipe: RecipeArgument = None,
    overrides: SetOption = None,
    text: Annotated[
        str, option("A text, which the network reads.", "--text", "-t", metavar="TEXT")
    ] = "the green house </s>",
    target: Annotated[
        str, option("Target text: what a decoder writes.", "--target-text", metavar="TEXT")
    ] = "la casa verde </s>",
    layers: Annotated[int, option("Number of layers, without a recipe.", metavar="N", min=1, max=8)] = 1,
    bidirectional: Annotated[bool, option("Read in both directions, without a recipe.", "--bidirectional")] = False,
    output: OutputOption = None,
) -> None:
    """Draw a recurrent network unrolled over the words of a text, with its decoder and attention if it has them."""
    path = image_file(output, "unrolled")
    from heedful.plots.recurrent import Graph, draw_unrolled, graph_of

    graph, title = Graph("lstm", layers, bidirectional), "Recurrent network, unrolled"
    if recipe is not None:
        ((name, read),) = _recipes([recipe], overrides)
        graph, title = graph_of(read), f"{name}, unrolled"
    write_image(draw_unrolled(graph, text.split(), target.split(), title), path, title)


@app.command()
def cell(
    name: Annotated[str, typer.Argument(metavar="CELL|RECIPE", help="lstm, gru, gru_paper, tanh, relu; or a recipe.")],
    output: OutputOption = None,
) -> None:
    """Draw a recurrent cell with its gates and equations."""
    path = image_file(output, "cell")
    from heedful.config.reading.shipped_recipes import shipped_recipes
    from heedful.plots.recurrent import draw_cell, graph_of

    if name in shipped_recipes() or Path(name).is_file():
        name = graph_of(load_recipe(name)).cell
    write_image(draw_cell(name), path, f"{name} cell")


@app.command(name="layer-cost")
def layer_cost(
    results: Annotated[
        Path | None, option("Record of benchmarks/cpu/layer_cost.py; by default, measure here.", metavar="FILE")
    ] = None,
    device: Annotated[Literal["cpu", "gpu"], option("Machine of the record.", "--machine")] = "gpu",
    work: Annotated[Literal["forward", "both"], option("Forward passes, or forward and backward.")] = "forward",
    width: Annotated[int, option("Number of dimensions, of the layers.", metavar="N", min=8, max=8192)] = 256,
    kernel: Annotated[
        int, option("Number of tokens that a convolution sees, an odd number.", metavar="N", min=3, max=1001)
    ] = 7,
    radius: Annotated[
        int, option("Distance that restricted attention sees on each side.", metavar="N", min=1, max=8192)
    ] = 64,
    length: Annotated[
        int, option("Number of positions: layers are counted up to it.", metavar="N", min=2, max=8192)
    ] = 1024,
    tokens: Annotated[
        int,
        option(
            "Budget of a batch: tokens at every length, if measured.",
            "--batch-tokens",
            metavar="N",
            min=16,
            max=65_536,
        ),
    ] = 2048,
    as_json: Annotated[bool, json_option("all numbers as one object, instead of an image")] = False,
    output: OutputOption = None,
) -> None:
    """Draw what layers cost over the length of sequences: table 1 of Vaswani et al. 2017, counted and measured.

    Multiplications, products that wait for each other, and the path from the first token to the last are counted while
    self-attention, whole and restricted, recurrences and convolutions run. Times are measured on this machine's CPU,
    forward passes only, or read from a record.
    """
    path = None if as_json else image_file(output, "layer-cost")
    check_output(output)
    if kernel % 2 == 0:
        raise UserError(f"--kernel is {kernel}, but must be odd, so that a token is in the middle of what it sees.")
    from heedful.doctor.estimates.layers import Sizes
    from heedful.plots.layer_cost import (
        count_layers,
        draw_layer_costs,
        layer_table,
        measure_layers,
        powers_of_two,
        read_layer_costs,
    )

    sizes = Sizes(width, kernel, radius)
    if results is not None:
        times, machine = read_layer_costs(results, device, work, width)
    elif work == "both":
        raise UserError("--work both needs a record with --results: only forward passes are measured here.")
    else:
        with messages.busy("measuring"):
            lengths = powers_of_two(min(tokens, max(length, _MEASURED)))  # attention over all tokens may take minutes
            times, machine = measure_layers(sizes, lengths, tokens), "this CPU"
    with messages.busy("counting"):
        columns = count_layers(sizes, powers_of_two(length)) | {"milliseconds": times}
    if path is None:
        write_result({**layer_table(columns, sizes), "machine": machine}, output)
        return
    passes = "forward" if work == "forward" else "forward and backward"
    titles = {
        "cost": "Cost",
        "in_sequence": "Sequential operations",
        "path": "Path length",
        "milliseconds": f"Time of equally many tokens, {passes}: {machine}",
    }
    title = f"Layers of width {width:,}; convolutions of {kernel} tokens, attention within {radius}"
    write_image(draw_layer_costs(columns, titles, title, width), path, "Cost of layers")


@app.command()
def gradients(
    recipes: RecipesArgument = None,
    overrides: SetOption = None,
    width: Annotated[int, option("Number of dimensions, of the cells.", metavar="N", min=1, max=4096)] = 100,
    steps: Annotated[
        int, option("Number of positions, of the sequence.", "--length", metavar="N", min=2, max=2000)
    ] = 101,
    seed: Annotated[int, option("Random seed, of weights and inputs.", metavar="N", min=0)] = 1,
    output: OutputOption = None,
) -> None:
    """Draw norms of gradients: by distance for recurrent cells or, with recipes, by layer of their new networks."""
    path = image_file(output, "gradients")
    read = _recipes(recipes, overrides)
    from heedful.plots.gradients import draw_by_distance, draw_by_layer, gradients_by_layer

    if not recipes:
        write_image(draw_by_distance(width, steps, seed), path, "Gradients over time")
        return
    found = {name: gradients_by_layer(recipe, seed) for name, recipe in read}
    write_image(draw_by_layer(found), path, "Gradients by layer")


# --- what all share ---------------------------------------------------------------------------------------------------


def _recipes(names: Sequence[str] | None, overrides: list[str] | None) -> list[tuple[str, Recipe]]:
    """Read recipes, each with its name in titles."""
    if overrides and not names:
        raise UserError("--set changes a recipe, but there is none: name one, or leave --set out.")
    return [(Path(name).name.removesuffix(".toml"), load_recipe(name, overrides or [])) for name in names or ()]


def _score(given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = float("nan")
    if not abs(number) < 1e6:
        raise UserError(f"--values: `{given.strip()}` is not a number below a million: write such as 2,1,0.5.")
    return number


# --- images as files: SVG, a page of HTML, or PNG, by the ending of the file's name -----------------------------------


ENDINGS: Final = (".svg", ".png", ".html")
_MEASURED: Final = 2048  # tokens of the longest sequence that is timed, unless longer ones are counted
_CONVERTER: Final = "rsvg-convert"


def image_file(output: Path | None, name: str) -> Path:
    """Return the file of an image, by default named after the plot; refuse, before it is drawn, one for no image."""
    path = output or Path(f"{name}.svg")
    check_output(path)
    ending = path.suffix.lower()
    if path != Path("-") and ending not in ENDINGS:
        raise UserError(f"{path}: an image is a file that ends in {', '.join(ENDINGS)}: choose another name.")
    if ending == ".png" and shutil.which(_CONVERTER) is None:
        raise UserError(
            f"{path}: PNG needs the program {_CONVERTER}: install it (Debian: `apt-get install librsvg2-bin`, macOS: "
            f"`brew install librsvg`), or write {path.with_suffix('.svg')}."
        )
    return path


def write_image(svg: str, path: Path, title: str) -> None:
    """Write an image in the form that the name of the file asks for; a page has its title."""
    if path == Path("-"):
        write_result(svg.rstrip(), path)
        return
    match path.suffix.lower():
        case ".html":
            lead = "Drawn by `heedful plot`, with the code that models run."
            made = static_page(title, lead, f"<section><figure class='figure'>{svg}</figure></section>").encode()
        case ".png":
            # A PNG with two pixels for each of the image's.
            done = subprocess.run(  # noqa: S603 - its arguments are ours, the image is its standard input
                [_CONVERTER, "--zoom", "2", "--unlimited"], input=svg.encode(), capture_output=True, check=False
            )
            if done.returncode:
                said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
                raise UserError(
                    f"{path}: {_CONVERTER} could not draw the image ({said}): write {path.with_suffix('.svg')}."
                )
            made = done.stdout
        case _:
            made = themed(svg).encode()
    write_bytes(path, made)
    tell_page(path)
