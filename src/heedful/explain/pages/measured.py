"""Drawings of attributions, of the logit lens and of patches."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from heedful.explain.attribution import Attribution
from heedful.explain.explanation import Measured
from heedful.explain.lens import Lens
from heedful.explain.patching import Patches
from heedful.pages.charts.drawing import heading, image, label, text_width
from heedful.pages.charts.heat_maps import cells, heat_map, name_sides

_MOST_NAMED: Final = 80  # along one side; more have numbers instead of names
_KINDS: Final = {
    "integrated": "Integrated gradients (Sundararajan et al. 2017)",
    "gradient": "Gradient times input (Shrikumar et al. 2017)",
    "erasure": "Erasure (Li et al. 2016)",
}


def draw_measured(found: Measured) -> Iterator[dict[str, str]]:
    """Yield the drawings of some numbers, each with its title and a note."""
    match found:
        case Attribution():
            yield from _attribution(found)
        case Lens():
            yield _lens(found)
        case Patches():
            yield from _patches(found)


def _attribution(found: Attribution) -> Iterator[dict[str, str]]:
    rows = list(found.outputs.pieces)
    if found.against:
        rows = [f"{one}, not {other}" for one, other in zip(rows, found.against, strict=True)]
    summed = (
        " A row, over all inputs, sums to the difference that the input makes; of it, "
        f"{found.shared.max(initial=0):.2g} at most is shared out rather than integrated."
        if found.kind == "integrated"
        else ""
    )
    for name, values in found.values.items():
        yield {
            "name": f"attribution-{name}",
            "title": f"Why: attribution to the {name}",
            "note": f"{_KINDS[found.kind]}: how much each token of the {name} adds to log P of each output, compared "
            f"with a token that says nothing. What is below 0 speaks against it.{summed}",
            "svg": heat_map(
                values,
                title=f"Attribution to the {name}",
                row_names=_names(rows),
                column_names=_names(found.inputs[name].pieces),
            ),
        }


def _lens(found: Lens) -> dict[str, str]:
    return {
        "name": "lens",
        "title": "Logit lens",
        "note": "What the model would predict if its layers ended earlier: the most likely token after each layer. The "
        "colour is the probability of what it predicts in the end.",
        "svg": _lens_svg(found),
    }


def _lens_svg(found: Lens) -> str:
    names, layers = found.outputs.pieces, ["embedding", *(f"layer {layer}" for layer in range(1, found.layers))]
    best = [[ranked[0][0] for ranked in row] for row in found.best]
    wide = 12 + max(map(text_width, (*names, *(piece for row in best for piece in row))), default=30)
    left, top, tall = 90.0, 56 + 0.82 * max(map(text_width, names), default=0), 40
    shares = np.exp(found.log_probabilities)
    parts = [heading("Logit lens"), *name_sides(layers, names, left, top, wide, tall)]
    for layer, row in enumerate(best):
        y = top + layer * tall
        parts += cells(shares[layer : layer + 1], left, y + 24, wide, tall - 28, 1.0)
        parts += [label(left + (place + 0.5) * wide, y + 17, said, anchor="middle") for place, said in enumerate(row)]
    width, height = left + wide * len(names) + 40, top + tall * len(layers) + 16
    return image(width, height, "Logit lens", parts, f"{len(layers)} layers x {len(names)} predictions.")


def _patches(found: Patches) -> Iterator[dict[str, str]]:
    said = " ".join(found.outputs.texts)
    before, after = float(found.before.sum()), float(found.after.sum())
    for one in found.parts:
        pairs = zip(one.tokens.pieces, one.others.pieces, strict=True)
        yield {
            "name": f"patch-{one.part}",
            "title": f"Patches: states of the {one.part}",
            "note": f"How much log P of the output, {said}, changes when the state of a token after a layer is that of "
            f"the other text. It is {before:.2f} for this text, and {after:.2f} for the other one.",
            "svg": heat_map(
                one.values.sum(axis=2) - before,
                title=f"Effect of states of the {one.part} on log P",
                row_names=["embedding", *(f"layer {layer}" for layer in range(1, len(one.values)))],
                column_names=_names([own if own == other else f"{own} / {other}" for own, other in pairs]),
            ),
        }


def _names(names: Sequence[str]) -> Sequence[str] | None:
    return names if len(names) <= _MOST_NAMED else None
