"""Recurrent cells as drawings, with the equations of the classes that compute them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from heedful.base.errors import UserError, suggestion
from heedful.config.recipe import Recipe
from heedful.nn.recurrent.stack import KINDS
from heedful.pages.charts.drawing import heading, image, label
from heedful.plots.diagram import Box, arrow, dot
from heedful.plots.unrolled import graph_of

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


def _paper_gru(parts: list[str]) -> None:
    _gru(parts, paper=True)


def _simple(sign: str) -> Callable[[list[str]], None]:
    def draw(parts: list[str]) -> None:
        _ends(parts, memory=False)
        box = _gate(270, sign, "", parts, "series-3")
        parts += [arrow([box.top, (270, 120), (500, 120)]), label(506, 124, "h(t)")]

    return draw


_DRAWINGS: Final[Mapping[str, tuple[str, Callable[[list[str]], None]]]] = {
    "lstm": ("lstm", _lstm),
    "gru": ("gru", _gru),
    "gru_paper": ("gru_paper", _paper_gru),
    "tanh": ("rnn_tanh", _simple(_TANH)),
    "relu": ("rnn_relu", _simple("max(0, .)")),
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


def cell_of(recipe: Recipe) -> str:
    """Return the name of a recipe's recurrent cell."""
    return graph_of(recipe).cell
