"""A recipe's own network, drawn from its modules with their shapes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from torch import nn

from heedful.base.errors import counted
from heedful.models.networks import Classifier
from heedful.models.recurrent.initial_state import Bridge
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.attention.any_alignment import AlignedCrossAttention, AlignedSelfAttention
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.layers.linear import LayerNorm, RMSNorm
from heedful.nn.layers.pooling import Pool
from heedful.nn.layers.residual import Residual
from heedful.nn.recurrent.attention import RecurrentAttention
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.pages.charts.drawing import heading, image, label, paint, shape
from heedful.plots.diagram import Box, arrow

_WIDTH: Final = 270
_HEIGHT: Final = 42
_GAP: Final = 20
_ROLES: Final = {
    "attention": "series-2",
    "layer": "series-1",
    "norm": "series-5",
    "recurrent": "series-3",
    "ends": "series-4",
}


_NAMES: Final = {"FeedForward": "Feed-forward", "DeepOutput": "Deep output", "LinearChain": "Linear chain (CRF)"}


@dataclass(frozen=True)
class Part:
    """A box of the drawing: its name, its shape in words, and what it is for the colour."""

    name: str
    shape: str
    kind: str
    parameters: int
    attends: bool = False  # to the memory of the encoder


@dataclass(frozen=True)
class Group:
    """Parts that follow each other, and how often they are repeated."""

    parts: tuple[Part, ...]
    times: int = 1


@dataclass(frozen=True)
class Column:
    """One side of a network, from its input on."""

    name: str
    groups: tuple[Group, ...]
    besides: tuple[Group, ...] = ()  # parts of which the network does not say where values come from: several heads


def describe_network(network: nn.Module) -> list[Column]:
    """Return the sides of a network with their parts, in the order in which values pass through them."""
    sides = [name for name in ("encoder", "question", "decoder") if isinstance(getattr(network, name, None), nn.Module)]
    owned = {id(module) for side in sides for module in getattr(network, side).modules()}
    columns = [Column(side, _merged(_groups(getattr(network, side)))) for side in sides]
    rest = _merged(_rest(network, owned)) if sides else _merged(_groups(network))
    if rest and columns:
        last, chained = columns[-1], isinstance(network, Classifier)
        columns[-1] = replace(last, groups=last.groups + rest) if chained else replace(last, besides=rest)
    elif rest:
        columns = [Column("network", rest)]
    return [column for column in columns if column.groups]


def draw_architecture(network: nn.Module, title: str) -> str:
    """Draw a network from the bottom up: repeated layers are framed, with their number."""
    columns = describe_network(network)
    heights = [_tall(column) for column in columns]
    base, x = 76 + max(heights), 40.0
    parts, tops, wanted = [heading(title)], [], []
    for column in columns:
        drawn, top, arrows = _draw_column(column, x, base)
        parts += drawn
        tops.append(top)
        wanted.append(arrows)
        x += _WIDTH + 110
    if len(columns) > 1:
        (from_x, from_y), aim = tops[0], x - 110 - _WIDTH
        middle = aim - 42
        for target in wanted[-1] or [base - _GAP - _HEIGHT / 2]:
            over = [(from_x, from_y), (from_x, from_y - 12), (middle, from_y - 12)]
            parts.append(arrow([*over, (middle, target), (aim, target)], dashed=not wanted[-1]))
    total = sum(parameter.numel() for parameter in network.parameters())
    parts.append(label(16, 46, f"{total:,} parameters", role="soft", size=12))
    said = "; ".join(f"{column.name}: " + ", ".join(map(_said, column.groups + column.besides)) for column in columns)
    return image(x - 50, base + 40, title, parts, said)


def _draw_column(column: Column, x: float, base: float) -> tuple[list[str], tuple[float, float], list[float]]:
    """Return a side's elements, the point above it, and the heights at which it reads the encoder."""
    drawn, y, reads = [label(x + _WIDTH / 2, base + 22, column.name, anchor="middle", role="soft")], base, []
    below = (x + _WIDTH / 2, base + 6)
    for group in column.groups:
        framed = group.times > 1
        y -= _GAP if not framed else _GAP + 12
        bottom = y
        for number_of, part in enumerate(group.parts):
            box = Box(x, y - _HEIGHT, _WIDTH, _HEIGHT)
            drawn.append(arrow([below, box.bottom]))
            drawn.append(box.draw(part.name, part.shape, _ROLES[part.kind], f"{part.parameters:,} parameters"))
            if part.attends:
                reads.append(y - _HEIGHT / 2)
            below = box.top
            y -= _HEIGHT + (_GAP if number_of + 1 < len(group.parts) else 0)
        if framed:
            look = f'fill="none" stroke-dasharray="5 4" {paint("faint", "stroke")}'
            frame = {"x": x - 14, "y": y - 12, "width": _WIDTH + 28, "height": bottom - y + 24, "rx": 10}
            drawn.append(shape("rect", look, **frame))
            drawn.append(
                label(x + _WIDTH + 20, (bottom + y) / 2 + 5, f"\N{MULTIPLICATION SIGN} {group.times}", size=15)
            )
            y -= 12
    above = (below[0], y - 16)
    drawn.append(arrow([below, above], head=False))
    y -= 16
    for part in (part for group in column.besides for part in group.parts):
        y -= 10 + _HEIGHT
        drawn.append(
            Box(x, y, _WIDTH, _HEIGHT).draw(part.name, part.shape, _ROLES[part.kind], f"{part.parameters:,} parameters")
        )
    return drawn, above, reads


def _tall(column: Column) -> float:
    tall = 30.0
    for group in column.groups:
        tall += len(group.parts) * (_HEIGHT + _GAP) + (24 if group.times > 1 else 0)
    return tall + sum(len(group.parts) * (_HEIGHT + 10) for group in column.besides)


def _said(group: Group) -> str:
    said = " + ".join(f"{part.name} ({part.shape})" if part.shape else part.name for part in group.parts)
    return f"{group.times} times [{said}]" if group.times > 1 else said


# --- from modules to parts --------------------------------------------------------------------------------------------


def _groups(module: nn.Module) -> Iterator[Group]:
    """Yield the parts of a module; whatever has no row of its own is the sum of what is in it."""
    match module:
        case EncoderBlock() | DecoderBlock():
            yield Group(tuple(_block(module)))
        case RecurrentStack():
            yield from (Group((_recurrent_layer(module, layer),)) for layer in range(len(module.layers)))
        case _ if (part := _part(module)) is not None:
            yield Group((part,))
        case _:
            for child in sorted(module.children(), key=lambda child: not isinstance(child, Bridge)):
                yield from _groups(child)


def _rest(network: nn.Module, owned: set[int]) -> Iterator[Group]:
    """Yield what a network has besides its sides."""
    for child in network.children():
        if id(child) in owned:
            continue
        if any(id(inner) in owned for inner in child.modules()):
            yield from _rest(child, owned)
        else:
            yield from _groups(child)


def _block(block: EncoderBlock | DecoderBlock) -> Iterator[Part]:
    """Yield the sublayers of a block, each with the norm that its residual has."""
    sublayers: list[tuple[nn.Module, nn.Module | None]] = [(block.attention, block.around_attention)]
    if isinstance(block, DecoderBlock) and block.cross is not None:
        sublayers.append((block.cross, block.around_cross))
    for sublayer, around in [*sublayers, (block.network, block.around_network)]:
        before, after = (around.before, around.after) if isinstance(around, Residual) else (None, None)
        yield from _norm(before)
        part = _part(sublayer)
        yield part if part is not None else _other(sublayer)
        yield from _norm(after, "residual sum, then ")


def _norm(module: nn.Module | None, prefix: str = "") -> Iterator[Part]:
    if isinstance(module, LayerNorm | RMSNorm):
        name = "RMS norm" if isinstance(module, RMSNorm) else "layer norm"
        yield Part((prefix + name).capitalize().replace("Rms", "RMS"), "", "norm", _count(module))


def _part(module: nn.Module) -> Part | None:
    """Return the box of a module that is one; None for those that only hold others."""
    count = _count(module)
    match module:
        case SelfAttention() | CrossAttention():
            name, crossed = "Attention over the source", isinstance(module, CrossAttention)
            if not crossed:
                name = "Causal self-attention" if module.causal else "Self-attention"
            of = f"{counted(module.shape.heads, 'head')} of {module.shape.key_width}"
            return Part(name + _alignment(module), of, "attention", count, attends=crossed)
        case RecurrentAttention():
            name = type(module.alignment).__name__
            return Part("Attention over the source", f"alignment {name}", "attention", count, attends=True)
        case Embedding():
            positions = "" if module.positions is None else f", {type(module.positions).__name__} positions"
            return Part("Embedding", f"{_shape(module.weight.shape)}{positions}", "ends", count)
        case Output():
            return Part(
                "Output", f"{module.weight.shape[1]:,} \N{RIGHTWARDS ARROW} {module.weight.shape[0]:,}", "ends", count
            )
        case Bridge():
            return Part("Initial state", _matrices(module), "layer", count, attends=True)
        case Pool():
            return Part(type(module).__name__.replace("Pool", " pool"), "", "layer", count)
        case LayerNorm() | RMSNorm():
            return next(_norm(module))
        case _ if count and all(not list(child.children()) for child in module.children()):
            return _other(module)
    return None


def _other(module: nn.Module) -> Part:
    """Return the box of any other layer: its name, and the shapes of its matrices."""
    name = type(module).__name__
    return Part(_NAMES.get(name, name), _matrices(module), "layer", _count(module))


def _matrices(module: nn.Module) -> str:
    shapes = [_shape(tuple(weight.shape)[::-1]) for weight in module.parameters() if weight.ndim > 1]
    return ", ".join(shapes[:3]) + (", ..." if len(shapes) > 3 else "")


def _recurrent_layer(stack: RecurrentStack, layer: int) -> Part:
    inner = stack.layers[layer]
    both = "both directions, " if stack.directions == 2 else ""
    read, own = inner.input_size, inner.hidden_size
    shape = f"{both}{read:,} \N{RIGHTWARDS ARROW} {stack.directions * own:,}"  # type: ignore[operator]
    name = stack.kind.removeprefix("rnn_").replace("_paper", " of the paper")
    shown = name.upper() if name in ("lstm", "gru") else name.replace("gru", "GRU")
    return Part(f"{shown} layer", shape, "recurrent", _count(inner))


def _alignment(module: nn.Module) -> str:
    aligned = isinstance(module, AlignedSelfAttention | AlignedCrossAttention)
    return f": {type(module.reading.alignment).__name__}" if aligned else ""  # type: ignore[union-attr]


def _merged(groups: Iterator[Group]) -> tuple[Group, ...]:
    """Join groups that are equal and follow each other."""
    found: list[Group] = []
    for group in groups:
        if found and found[-1].parts == group.parts:
            found[-1] = Group(group.parts, found[-1].times + group.times)
        else:
            found.append(group)
    return tuple(found)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _shape(shape: Sequence[int]) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(f"{size:,}" for size in shape)
