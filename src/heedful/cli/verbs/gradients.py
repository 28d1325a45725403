"""`heedful gradients`: how far back the gradient of a recurrent cell reaches."""

from typing import Annotated

from heedful.cli.options import OutputOption, json_option, option
from heedful.cli.output import check_output, line_writer

_DISTANCES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def command(
    width: Annotated[int, option("Number of dimensions, of the states.", metavar="N", min=1, max=10_000)] = 100,
    steps: Annotated[
        int,
        option(
            "Number of positions, of the sequence; the loss depends on the last output.",
            "--length",
            metavar="N",
            min=1,
            max=10_000,
        ),
    ] = 101,
    seed: Annotated[int, option("Random seed, of weights and inputs.", metavar="N", min=0)] = 1,
    as_json: Annotated[bool, json_option("one object with the norm at every distance")] = False,
    output: OutputOption = None,
) -> None:
    """Measure gradients over time: their norm by distance from the loss, for tanh, GRU and LSTM cells.

    Each cell is one layer with its initial weights. Norms are relative to that of the last input, at distance 0.
    """
    check_output(output)
    from heedful.lab.gradients import CELLS, gradients_over_time  # importing torch takes seconds

    curves = {cell: gradients_over_time(cell, width, steps, seed) for cell in CELLS}
    with line_writer(output) as write:
        if as_json:
            rounded = {cell: [float(f"{norm:.4g}") for norm in curve] for cell, curve in curves.items()}
            write({"width": width, "steps": steps, "seed": seed, "norms": rounded})
            return
        write("distance  " + "  ".join(f"{cell:>9}" for cell in curves))
        for distance in (some for some in _DISTANCES if some < steps):
            write(f"{distance:>8}  " + "  ".join(f"{curve[distance]:>9.3g}" for curve in curves.values()))
