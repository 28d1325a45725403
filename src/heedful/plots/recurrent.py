"""Drawings of recurrent networks: unrolled over the words of a text, and cells with their equations."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, Literal

from heedful.base.errors import UserError, counted, suggestion
from heedful.config.model.encoder_only import TaggerModel
from heedful.config.model.encoders import RecurrentEncoderTable
from heedful.config.model.language import RecurrentDecoderTable
from heedful.config.model.mixed import CaptionerModel
from heedful.config.model.pooled import PooledModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.recipe import Recipe
from heedful.nn.recurrent.stack import KINDS
from heedful.pages.charts.drawing import heading, image, label
from heedful.plots.diagram import Box, Point, arrow, dot
from heedful.plots.recipes import tables_of

MOST: Final = 12  # words of a side
_STEP: Final = 104
_SIZE: Final = (66, 34)
_RISE: Final = 68
_SHIFT: Final = 18.0  # of the second direction to the right
_TOP: Final = 74  # of the words that are predicted
_SCORED: Final = 92  # height of outputs, losses and targets
# By family, and by whether it pools the last state.
_OUTPUTS: Final[Mapping[tuple[str, bool], Literal["each", "last"]]] = {
    ("tagger", False): "each",
    ("classifier", True): "last",
    ("regressor", True): "last",
}
_SUBSCRIPTS: Final = {ord(str(digit)): chr(0x2080 + digit) for digit in range(10)}


@dataclass(frozen=True)
class Graph:
    """What the drawing shows of a recurrent network."""

    cell: str = "lstm"
    layers: int = 1
    bidirectional: bool = False
    reverse: bool = False  # whether the source is read from its end
    wiring: str = ""  # of a decoder, by its paper; empty: there is none
    decoder_layers: int = 0
    image: bool = False  # whether the decoder describes an image, and not a text
    outputs: Literal["none", "each", "last"] = "none"  # the states that an output is made of
    feedback: Literal["hidden", "output", "target"] = "hidden"  # what a step reads of the step before

    @property
    def repeats(self) -> bool:
        """Whether one vector of the source is an input of every step of the decoder."""
        return self.wiring in ("vector", "cho")

    @property
    def attends(self) -> bool:
        """Whether every step of the decoder reads all states of the encoder."""
        return self.wiring in ("bahdanau", "luong")

    @property
    def directions(self) -> int:
        """The number of directions in which the source is read."""
        return 2 if self.bidirectional else 1


def graph_of(recipe: Recipe) -> Graph:
    """Return the recurrent graph of a recipe."""
    model = recipe.model
    if isinstance(model, TaggerModel) and model.feedback != "none":
        return Graph("tanh", outputs="each", feedback=model.feedback)  # over the states of the encoder, whatever it is
    for table in tables_of(model):
        match table:
            case RecurrentModel(cell=cell, layers=layers):
                decoder, image = table.decoder_layers or layers, isinstance(model, CaptionerModel)
                return Graph(cell, layers, table.bidirectional, table.reverse_source, table.wiring, decoder, image)
            case RecurrentEncoderTable(cell=cell, layers=layers):
                last = isinstance(model, PooledModel) and model.pooled_by == "last"
                return Graph(cell, layers, table.bidirectional, outputs=_OUTPUTS.get((model.family, last), "none"))
            case RecurrentDecoderTable(cell=cell, layers=layers):
                return Graph(cell, layers, outputs="each", feedback=table.feedback)
    raise UserError(
        f"The family of this recipe is `{recipe.model.family}`, without a recurrent cell: choose a recipe that has "
        "one, such as rnnsearch."
    )


def draw_unrolled(graph: Graph, source: Sequence[str], target: Sequence[str], title: str) -> str:
    """Draw the states over the words of a source and, for a decoder, of a target."""
    source = ["image"] if graph.image else source
    for side in (source, target if graph.wiring else source):
        if not 0 < len(side) <= MOST:
            raise UserError(f"There are {len(side)} words, but an unrolled graph shows 1 to {MOST}: give another text.")
    encoder = 1 if graph.image else graph.layers * graph.directions
    rows = max(encoder, graph.decoder_layers if graph.wiring else 0)
    scored = graph.outputs != "none" or graph.wiring == "vector"
    base = 96 + (70 if graph.attends else 0) + (_SCORED if scored else 0) + _RISE * rows
    parts, width = [heading(title)], 60.0 + _STEP * len(source)
    read = _draw_encoder(graph, source, base, parts)
    if graph.outputs != "none":
        _draw_outputs(graph, read[0], base - _RISE + 20, parts)
    if graph.wiring:
        _draw_decoder(graph, target, (width + 26, base), read, parts)
        width += 26 + _STEP * len(target)
    both = ", in both directions" if graph.bidirectional and not graph.image else ""
    decoder = ", one vector into every step of the decoder" if graph.wiring == "vector" else ""
    if graph.wiring and not decoder:
        decoder = f", decoder as in {graph.wiring.capitalize()}"
    fed = {"hidden": "", "output": ", outputs fed back", "target": ", true outputs fed back"}[graph.feedback]
    said = f"{graph.cell} cells, {counted(graph.layers, 'layer')}{both}{decoder}{fed}."
    return image(width + 20, base + 54, title, parts, said)


def _draw_encoder(graph: Graph, words: Sequence[str], base: float, parts: list[str]) -> tuple[list[Point], Box]:
    """Draw the encoder's states; return the points above its last layer, and the last state that it computes."""
    below = _draw_inputs(words, 40, base, parts)
    final = Box(40, base - _RISE + 20, *_SIZE)
    if graph.image:
        parts += [final.draw("v"), arrow([below[0], final.bottom])]
        return [final.top], final
    for layer in range(graph.layers):
        rows = []
        for direction in range(graph.directions):
            y = base - (layer * graph.directions + direction + 1) * _RISE + 20
            boxes = [Box(40 + index * _STEP + _SHIFT * direction, y, *_SIZE) for index in range(len(words))]
            backward = (direction == 1) != graph.reverse
            mark = "\N{LEFTWARDS ARROW}" if backward else "\N{RIGHTWARDS ARROW}" if graph.bidirectional else ""
            for index, (box, (x, start)) in enumerate(zip(boxes, below, strict=True)):
                parts.append(box.draw(f"h{_low(layer + 1, graph.layers)}({index + 1}){mark}"))
                aside = 40 + index * _STEP + _SIZE[0] + 7  # right of the first direction's box
                up = [(aside, start), (aside, box.bottom[1])] if direction else [(x, box.bottom[1])]
                parts.append(arrow([(x, start), *up]))
            for left, right in pairwise(boxes if graph.feedback == "hidden" else ()):
                parts.append(arrow([right.left, left.right] if backward else [left.right, right.left], "series-1"))
            final = boxes[0] if backward else boxes[-1]
            rows.append(boxes)
        below = [_join(states, parts) for states in zip(*rows, strict=True)]
    return below, final


def _join(states: tuple[Box, ...], parts: list[str]) -> Point:
    """Draw how the states of both directions become one vector; return the point above them."""
    x, y = states[-1].top
    if len(states) == 1:
        return x, y
    first = states[0].x + 7
    parts.append(arrow([(first, states[0].y), (first, y - 12), (x, y - 12)], head=False))
    parts.append(arrow([(x, y), (x, y - 12)], head=False))
    return x, y - 12


def _draw_decoder(
    graph: Graph, words: Sequence[str], place: Point, read: tuple[list[Point], Box], parts: list[str]
) -> None:
    """Draw the decoder's states, from the encoder's last one on, and what it predicts."""
    (left, base), (tops, last) = place, read
    below = _draw_inputs(["<s>", *words[:-1]], left, base, parts)
    for layer in range(graph.decoder_layers):
        boxes = [Box(left + index * _STEP, base - (layer + 1) * _RISE + 20, *_SIZE) for index in range(len(words))]
        for index, box in enumerate(boxes):
            parts.append(box.draw(f"s{_low(layer + 1, graph.decoder_layers)}({index + 1})", role="series-3"))
            parts.append(arrow([below[index], box.bottom]))
        parts += [arrow([one.right, two.left], "series-3") for one, two in pairwise(boxes)]
        if layer == 0 and graph.wiring != "vector":
            parts.append(arrow([last.right, boxes[0].left], "series-3", dashed=True))
        if layer == 0 and graph.repeats:  # below the states, into the corner of each
            line = base - 2
            parts.append(
                arrow([last.right, (last.right[0] + 12, last.right[1]), (last.right[0] + 12, line)], head=False)
            )
            parts.append(arrow([(last.right[0] + 12, line), (boxes[-1].x + 10, line)], "series-2", head=False))
            parts += [arrow([(box.x + 10, line), (box.x + 10, box.bottom[1])], "series-2") for box in boxes]
        below = [box.top for box in boxes]
    if graph.wiring == "vector":
        below = [_draw_score(point, index + 1, parts) for index, point in enumerate(below)]
    for word, (x, y) in zip(words, below, strict=True):
        parts.append(label(x, _TOP - 8, word, anchor="middle"))
        if not graph.attends:
            ends = [(x, y), (x, _TOP - 2)]
            parts.append(arrow(ends[::-1] if graph.wiring == "vector" else ends))  # a target goes into its loss
            continue
        context = _TOP + 28.0
        parts += [arrow([top, (x - 12, context)], "series-2", head=False) for top in tops]
        parts += [dot(x, context, "c"), arrow([(x, y), (x, context + 12)]), arrow([(x, context - 12), (x, _TOP - 2)])]


def _draw_outputs(graph: Graph, tops: Sequence[Point], bottom: float, parts: list[str]) -> None:
    """Draw outputs with their losses and targets above states, and what is fed back to the states at `bottom`."""
    scored = [*enumerate(tops, start=1)][-1 if graph.outputs == "last" else 0 :]
    for number, point in scored:
        x, loss = _draw_score(point, number, parts)
        target = (x, loss - 24)
        parts += [label(x, target[1] - 6, f"y({number})", anchor="middle"), arrow([target, (x, loss)])]
        if graph.feedback == "hidden" or number == len(tops):
            continue
        # Along the gap between two columns, from an output or its target to the state of the next step.
        start = (x + 18, target[1] - 10) if graph.feedback == "target" else (x + _SIZE[0] / 2, point[1] - 34)
        state, gap = (x + _STEP - _SIZE[0] / 2, bottom + _SIZE[1] / 2), x + _STEP / 2
        parts.append(arrow([start, (gap, start[1]), (gap, state[1]), state], "series-2"))


def _draw_score(point: Point, number: int, parts: list[str]) -> Point:
    """Draw the output of a state, and its loss; return the point above them."""
    x, y = point
    output = Box(x - _SIZE[0] / 2, y - 51, *_SIZE)
    loss = output.y - 30
    parts += [output.draw(f"o({number})", role="series-3"), arrow([point, output.bottom])]
    parts += [dot(x, loss, "L"), arrow([output.top, (x, loss + 12)])]
    return x, loss - 12


def _draw_inputs(words: Sequence[str], left: float, base: float, parts: list[str]) -> list[Point]:
    """Draw words below the states; return the points above them."""
    places = [left + index * _STEP + _SIZE[0] / 2 for index in range(len(words))]
    parts += [label(x, base + 30, word, anchor="middle") for x, word in zip(places, words, strict=True)]
    return [(x, base + 14) for x in places]


def _low(number: int, several: int) -> str:
    """Return the number of a layer as a subscript, where there are several."""
    return "" if several == 1 else str(number).translate(_SUBSCRIPTS)


# --- recurrent cells as drawings, with the equations of the classes that compute them ---------------------------------


_TIMES, _PLUS, _SIGMA, _TANH = "\N{MULTIPLICATION SIGN}", "+", "\N{GREEK SMALL LETTER SIGMA}", "tanh"
_WIDTH: Final = 560
_HEIGHT: Final = 330
_LINE: Final = 268.0  # height of the line of inputs: [x(t), h(t-1)]


def _gate(x: float, sign: str, name: str, parts: list[str], role: str = "series-1") -> Box:
    """Draw a gate over the line of inputs: its function, and its name below."""
    box = Box(x - 25, 190, 50, 32)
    parts += [box.draw(sign, role=role), arrow([(x, _LINE), box.bottom])]
    parts.append(label(x + 4, 240, name, role="soft", size=11))
    return box


def _ends(parts: list[str], memory: bool) -> None:
    """Draw what comes into a cell, and the line along which it is joined."""
    parts += [label(16, _LINE + 4, "h(t-1)"), arrow([(58, _LINE), (440, _LINE)], head=False)]
    parts += [label(84, 322, "x(t)"), arrow([(96, 308), (96, _LINE)])]
    if memory:
        parts.append(label(16, 84, "c(t-1)"))


def _lstm(parts: list[str]) -> None:
    _ends(parts, memory=True)
    forget, write = _gate(140, _SIGMA, "forget F", parts), _gate(225, _SIGMA, "input I", parts)
    candidate, read = _gate(310, _TANH, "candidate", parts, "series-3"), _gate(410, _SIGMA, "output O", parts)
    parts += [arrow([(60, 80), (128, 80)]), arrow([(152, 80), (255, 80)]), arrow([(279, 80), (500, 80)])]
    parts += [dot(140, 80, _TIMES), arrow([forget.top, (140, 92)]), dot(267, 80, _PLUS)]
    parts += [
        dot(267, 140, _TIMES),
        arrow([write.top, (225, 140), (255, 140)]),
        arrow([candidate.top, (310, 140), (279, 140)]),
    ]
    parts += [arrow([(267, 128), (267, 92)]), label(506, 84, "c(t)")]
    squash = Box(440, 108, 50, 28)
    parts += [squash.draw(_TANH, role="series-3"), arrow([(465, 80), squash.top]), dot(465, 175, _TIMES)]
    parts += [arrow([squash.bottom, (465, 163)]), arrow([read.top, (410, 175), (453, 175)])]
    parts += [arrow([(465, 187), (465, _LINE), (500, _LINE)]), label(506, _LINE + 4, "h(t)")]


def _gru(parts: list[str], paper: bool = False) -> None:
    _ends(parts, memory=False)
    reset, update = _gate(150, _SIGMA, "reset R", parts), _gate(240, _SIGMA, "update Z", parts)
    candidate = _gate(430, _TANH, "candidate", parts, "series-3")
    parts += [arrow([(70, _LINE), (70, 80), (228, 80)]), dot(240, 80, _TIMES), arrow([update.top, (240, 92)])]
    where = (330, _LINE) if paper else (330, 206)
    parts += [dot(where[0], where[1], _TIMES), arrow([reset.top, (150, 150), (330, 150), (330, where[1] - 12)])]
    said = "R * h(t-1)" if paper else "R * U h(t-1)"
    parts.append(label(338, 176 if not paper else 240, said, role="soft", size=11))
    if not paper:
        parts += [arrow([(342, 206), candidate.left]), arrow([(330, _LINE), (330, 218)])]
    parts += [dot(430, 130, _TIMES), arrow([candidate.top, (430, 142)])]
    parts += [arrow([(240, 130), (418, 130)]), label(310, 122, "1 - Z", role="soft", size=11)]
    parts += [dot(430, 80, _PLUS), arrow([(252, 80), (418, 80)]), arrow([(430, 118), (430, 92)])]
    parts += [arrow([(442, 80), (500, 80)]), label(506, 84, "h(t)")]


def _simple(parts: list[str], sign: str) -> None:
    _ends(parts, memory=False)
    box = _gate(270, sign, "", parts, "series-3")
    parts += [arrow([box.top, (270, 120), (500, 120)]), label(506, 124, "h(t)")]


_DRAWINGS: Final[Mapping[str, tuple[str, Callable[[list[str]], None]]]] = {
    "lstm": ("lstm", _lstm),
    "gru": ("gru", _gru),
    "gru_paper": ("gru_paper", partial(_gru, paper=True)),
    "tanh": ("rnn_tanh", partial(_simple, sign=_TANH)),
    "relu": ("rnn_relu", partial(_simple, sign="max(0, .)")),
}
NAMES: Final = tuple(_DRAWINGS)


def draw_cell(name: str) -> str:
    """Draw a cell by its name in recipes, with its equations as the code has them."""
    if name not in _DRAWINGS:
        raise UserError(f"`{name}` is not a recurrent cell.{suggestion(name, list(NAMES))}")
    kind, draw = _DRAWINGS[name]
    equations = (inspect.getdoc(KINDS[kind].cell) or "").splitlines()
    title = f"{name.upper() if name in ('lstm', 'gru') else name} cell"
    parts = [heading(title)]
    draw(parts)
    written = ' font-family="ui-monospace, monospace" xml:space="preserve"'
    for number, line in enumerate(equations):
        parts.append(label(16, _HEIGHT + 34 + 17 * number, line, size=12, more=written))
    wide = max(_WIDTH, 40 + 7.3 * max(map(len, equations), default=0))
    return image(wide, _HEIGHT + 40 + 17 * len(equations), title, parts, " ".join(equations))
