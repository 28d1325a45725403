"""The explorer: explanations of one or several texts as a page in one file."""

import base64
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heedful.base.errors import UserError
from heedful.base.trees import read_tree
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import TASKS
from heedful.explain.explanation import Array, Explanation
from heedful.explain.pages.measured import draw_measured
from heedful.explain.pages.trees import beam_svg, parse_svg
from heedful.explain.recorded_states import GateValues
from heedful.pages.charts.heat_maps import heat_map
from heedful.pages.html import write_page

_MOST_UNITS: Final = 64  # of a layer whose gates are drawn
_MOST_STACKS: Final = 24  # layers and directions whose gates are drawn
_MOST_TOKENS: Final = 80  # of a text whose states are drawn
_MOST: Final = 40_000_000  # weights of a page: more would be hundreds of megabytes


def explorer_page(explanations: Sequence[Explanation], model: str, gates: bool = True) -> str:
    """Return the page of some explanations of a model, which has this name; with `gates`, those of recurrent ones."""
    weights = sum(one.weights.size for found in explanations for one in found.attentions)
    if weights > _MOST:
        raise UserError(
            f"The page would have {weights:,} weights, but at most {_MOST:,} fit: explain fewer or shorter texts."
        )
    first = explanations[0]
    lead = f"{model}: {first.family}, task {first.task}. Point at words, choose layers and heads, download every image."
    rules = TASKS.get(first.task)
    title = TaskRules.explained if rules is None else rules.explained
    return write_page(title, lead, "explorer.js", {"items": [explorer_item(one, gates) for one in explanations]})


def explorer_item(found: Explanation, gates: bool = True) -> dict[str, Any]:
    """Return an explanation for `explorer/view.js`: as its JSON, with packed weights, drawings and labels.

    With `gates`, those of recurrent layers are drawn too.
    """
    rules = TASKS.get(found.task)
    described = found.to_json(weights=False)
    for one, written in zip(found.attentions, described["attentions"], strict=True):
        written.update(pack(one.weights))
    if found.image is not None:
        described["image"]["png"] = f"data:image/png;base64,{base64.b64encode(_png(found.image.pixels)).decode()}"
    if found.before is not None:
        described["before"]["classes"] = dict(found.before.classes)
    return described | {
        "drawings": [*_drawings(found)],
        "gates": [*_gates(found)] if gates else [],
        "states": [*_states(found)],
        "labels": TaskRules.explained_as if rules is None else rules.explained_as,
    }


def _states(found: Explanation) -> Iterator[dict[str, Any]]:
    """Yield how far each layer turned the state of each token, and how long it is; not of many tokens."""
    for one in found.states:
        if one.values.shape[1] <= _MOST_TOKENS:
            turned, norms = 1 - one.similarities(), one.norms()
            yield {"part": one.part, "tokens": one.tokens, "turn": _rounded(turned), "norm": _rounded(norms)}


def _rounded(values: Array) -> list[list[float]]:
    """Return four digits of each number, 0 where it is not one: JSON does not have those."""
    return [[float(f"{value:.4g}") for value in row] for row in np.nan_to_num(values).tolist()]


def _gates(found: Explanation) -> Iterator[dict[str, Any]]:
    """Yield the heat maps of each recurrent layer and direction: units from the top, tokens from the left."""
    for one in found.gates[:_MOST_STACKS]:
        pieces = found.sequences[one.steps].pieces
        maps = {}
        for gate, values in one.values.items():
            units = np.unique(
                np.linspace(0, values.shape[1] - 1, min(values.shape[1], _MOST_UNITS)).round().astype(int)
            )
            shown = "units" if len(units) == values.shape[1] else f"{len(units)} of {values.shape[1]:,} units"
            title = f"{gate} of the {one.kind}: {_stack_name(one)}"
            maps[gate] = heat_map(values[:, units].T, title=title, y_label=shown, column_names=pieces)
        yield {"name": _stack_name(one), "maps": maps}


def _stack_name(one: GateValues) -> str:
    part = one.stack.removeprefix("pooled.").split(".")[0]
    level = next((f", {level}" for level in ("words", "sentences") if level in one.stack.split(".")), "")
    return f"{part}{level}, layer {one.layer + 1}, {one.direction}"


def _drawings(found: Explanation) -> Iterator[dict[str, str]]:
    """Yield what is drawn here, with its title and a note."""
    if found.tree:
        yield {
            "name": "parse",
            "title": "Parse",
            "note": "The best tree over the words; their tags are above them.",
            "svg": parse_svg(read_tree(found.tree, "the parse")),
        }
    if found.search:
        yield {
            "name": "beam",
            "title": "Beam search",
            "note": "The best hypotheses of each step, from left to right, with the score at which each ended or died: "
            "log P over the length penalty. The one that was found is blue.",
            "svg": beam_svg(found.search, f"Beam search for {found.text}"),
        }
    for one in found.measured:
        yield from draw_measured(one)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """Return an image as a file."""
    written = BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(written, "PNG", optimize=True)
    return written.getvalue()


# --- arrays as text in a page: rounded to 8 or 16 bits, deflated, written as base64 -----------------------------------


_MOST_EXACT: Final = 2_000_000  # numbers of an array that is kept in 16 bits


def pack(values: NDArray[np.floating[Any]]) -> dict[str, Any]:
    """Return an array for `weights.js`: its shape, the range of its values, and the packed codes.

    16 bits are the range in equal steps, 8 bits in steps that grow from the least value on: code = 255 sqrt(share).
    """
    low, high = min(0.0, float(values.min(initial=0))), max(1.0, float(values.max(initial=1)))
    shares = (values.astype(np.float64) - low) / (high - low)
    if values.size <= _MOST_EXACT:
        bits, codes = 16, np.round(65535 * shares).astype("<u2")
    else:
        bits, codes = 8, np.round(255 * np.sqrt(shares)).astype("u1")
    return {
        "shape": list(values.shape),
        "range": [low, high],
        "bits": bits,
        "packed": base64.b64encode(zlib.compress(codes.tobytes(), 6)).decode(),
    }
