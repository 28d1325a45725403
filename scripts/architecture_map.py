"""Draws the map of the source tree: `docs/images/architecture.svg`, and the same as a list in `docs/architecture.md`.

    python scripts/architecture_map.py            # write both
    python scripts/architecture_map.py --check    # exit code 1 where they are not current

Rooms are the folders of `src/heedful`. Their order is the layers contract in `pyproject.toml`, their arrows are read
from the imports. Rooms stand on a diagonal, so that an arrow leaves a room to the right and falls on the room it
imports from above: a room that imports one above it would have no line to draw, and is an error.
"""

import argparse
import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.import_graph import Import, modules, read_imports  # noqa: E402

PACKAGE = "heedful"
IMAGE = Path("docs/images/architecture.svg")
PAGE = Path("docs/architecture.md")
BEGIN, END = "<!-- map: written by scripts/architecture_map.py -->", "<!-- end of map -->"


@dataclass(frozen=True)
class Room:
    """A folder of the source tree: how many files are in it, and its folders, or its files where it has none."""

    name: str
    purpose: str
    files: int
    contents: Sequence[str]


@dataclass(frozen=True)
class Map:
    """Rooms in layers from top to bottom, the leaves below them, and how many imports run between rooms."""

    layers: Sequence[Sequence[Room]]
    leaves: Mapping[str, int]
    weights: Mapping[tuple[str, str], int]

    @property
    def rooms(self) -> list[Room]:
        """All rooms in the order in which they are drawn."""
        return [room for layer in self.layers for room in layer]


def read_map(root: Path) -> Map:
    """Read the map from the sources and the layers contract of a checkout."""
    source = root / "src"
    imports = read_imports(source, PACKAGE)
    layers, leaves = [], []
    for names in _contract(root):
        folders = [name for name in names if (source / PACKAGE / name).is_dir()]
        if folders:
            layers.append([_room(source, name) for name in folders])
        leaves += [name for name in names if name not in folders]
    weights = Counter((_top(i.importer), _top(i.imported)) for i in imports if _top(i.importer) != _top(i.imported))
    found = Map(layers, {leaf: _importers(imports, leaf) for leaf in leaves}, weights)
    _refuse_upward(found)
    return found


def draw(found: Map) -> str:
    """The map as an SVG that needs nothing but itself."""
    return _Drawing(found).svg()


def describe(found: Map) -> str:
    """The map as a list, for readers without images."""
    lines = [f"{BEGIN}", "| room | what it is | files | imports, most first |", "|---|---|---|---|"]
    for room in found.rooms:
        targets = [(found.weights[room.name, other.name], other.name) for other in found.rooms]
        ranked = sorted((pair for pair in targets if pair[0]), key=lambda pair: (-pair[0], pair[1]))
        listed = ", ".join(f"{name} {weight}" for weight, name in ranked) or "leaves only"
        lines.append(f"| `{room.name}/` | {room.purpose} | {room.files} | {listed} |")
    leaves = ", ".join(f"`{leaf}.py` {count}" for leaf, count in found.leaves.items())
    return "\n".join([*lines, "", f"Leaves, with the number of files that import each: {leaves}.", END])


def current_files(root: Path) -> dict[Path, str]:
    """What the image and the page of a checkout should hold."""
    found = read_map(root)
    page = (root / PAGE).read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return {IMAGE: draw(found), PAGE: before + describe(found) + after}


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description="Draw the map of the source tree.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file is not current")
    check = parser.parse_args().check
    old = []
    for path, text in current_files(ROOT).items():
        if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text:
            old.append(path)
            if not check:
                (ROOT / path).write_text(text, encoding="utf-8")
    for path in old:
        print(f"{path} is not current: run `make map`." if check else f"wrote {path}")
    return 1 if check and old else 0


def _contract(root: Path) -> list[list[str]]:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip().removeprefix(f"{PACKAGE}.") for name in layer.split("|")] for layer in layers]


def _room(source: Path, name: str) -> Room:
    folder = source / PACKAGE / name
    files = [path for path in modules(source, f"{PACKAGE}/{name}").values() if path.name != "__init__.py"]
    folders = sorted({path.relative_to(folder).parts[0] for path in files if path.parent != folder})
    contents = folders or sorted(path.stem for path in files)
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return Room(name, docstring.split("\n")[0].split(". ")[0].rstrip("."), len(files), contents)


def _top(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _importers(imports: Sequence[Import], leaf: str) -> int:
    return len({i.importer for i in imports if i.imported == f"{PACKAGE}.{leaf}"})


def _refuse_upward(found: Map) -> None:
    level = {room.name: number for number, layer in enumerate(found.layers) for room in layer}
    for (importer, imported), weight in found.weights.items():
        if importer in level and imported in level and weight and level[importer] >= level[imported]:
            raise SystemExit(f"`{importer}` imports `{imported}`, which is not in a layer below it (pyproject.toml).")


STYLE = """
  text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2933; }
  .paper { fill: #fbfaf7; }
  .band { fill: #f1efe9; }
  .room { fill: #ffffff; stroke-width: 1.6; }
  .name { font-weight: 650; font-size: 17px; }
  .count, .leaf { font-size: 12.5px; fill: #5f6b7a; }
  .folders { font-size: 12.5px; fill: #3e4c59; }
  .weight { font-size: 11px; font-weight: 650; fill: #ffffff; text-anchor: middle; }
  .key { font-size: 12.5px; fill: #5f6b7a; }
  .arrow { fill: none; stroke-linejoin: round; stroke-opacity: 0.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; }
    .paper { fill: #14181d; }
    .band { fill: #1b2128; }
    .room { fill: #232b34; }
    .count, .leaf, .key { fill: #9aa5b1; }
    .folders { fill: #cbd2d9; }
    .weight { fill: #14181d; }
    .arrow { stroke-opacity: 0.6; }
  }
"""
# One hue per layer, of middle lightness, so that it stands out on white and on black.
HUES = ["#7c6fd6", "#b565c9", "#d65f9c", "#e0685a", "#d98a2b", "#a79a1e", "#3fa66b", "#2f9bb3", "#4c86d8", "#7a8699"]


class _Drawing:
    """Sizes and positions of one image."""

    width, height = 252, 70  # of a room
    step, gap, layer_gap = 84, 14, 20  # from room to room: to the right, and down
    entry = 218  # where arrows fall on a room, from its left: to the right of every room above
    margin = 26

    def __init__(self, found: Map) -> None:
        self.found = found
        self.left: dict[str, int] = {}
        self.top: dict[str, int] = {}
        self.hue: dict[str, str] = {}
        self.bands: list[tuple[int, int]] = []
        x, y = self.margin, self.margin + 12
        for number, layer in enumerate(found.layers):
            start = y
            for room in layer:
                self.left[room.name], self.top[room.name], self.hue[room.name] = x, y, HUES[number % len(HUES)]
                x, y = x + self.step, y + self.height + self.gap
            self.bands.append((start - 8, y - self.gap + 8))
            y += self.layer_gap - self.gap
        self.floor = y
        self.total_width = x - self.step + self.width + self.margin
        self.total_height = y + 44 + self.margin

    def svg(self) -> str:
        title = "Rooms of src/heedful in their layers, and the imports between them"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.total_width} {self.total_height}" '
            f'width="{self.total_width}" height="{self.total_height}" role="img" aria-label="{title}">'
        )
        paper = f'<rect class="paper" width="{self.total_width}" height="{self.total_height}" rx="10"/>'
        parts = [head, f"<title>{title}</title>", f"<style>{STYLE}</style>", paper]
        parts += [self._band(top, bottom) for top, bottom in self.bands]
        arrows = sorted(self._arrows(), key=lambda arrow: (arrow[2], arrow))
        parts += [self._line(*arrow) for arrow in arrows]
        parts += [self._arrow_head(room.name) for room in self.found.rooms if any(a[1] == room.name for a in arrows)]
        parts += [self._weight(*arrow) for arrow in arrows]
        parts += [self._box(room) for room in self.found.rooms]
        parts += [self._leaves(), self._key()]
        return "\n".join([*parts, "</svg>", ""])

    def _arrows(self) -> list[tuple[str, str, int]]:
        names = [room.name for room in self.found.rooms]
        return [(a, b, self.found.weights[a, b]) for a in names for b in names if self.found.weights.get((a, b))]

    def _band(self, top: int, bottom: int) -> str:
        width = self.total_width - self.margin
        return f'<rect class="band" x="{self.margin / 2}" y="{top}" width="{width}" height="{bottom - top}" rx="8"/>'

    def _corner(self, importer: str, imported: str) -> tuple[int, int]:
        return self.left[imported] + self.entry, self.top[importer] + self.height // 2

    def _line(self, importer: str, imported: str, weight: int) -> str:
        x, y = self._corner(importer, imported)
        start, end = self.left[importer] + self.width, self.top[imported] - 7
        stroke = f'stroke-width="{1.2 + 0.75 * sqrt(weight):.1f}"'
        return (
            f'<path class="arrow" d="M{start} {y} H{x}" stroke="{self.hue[importer]}" {stroke}/>'
            f'<path class="arrow" d="M{x} {y} V{end}" stroke="{self.hue[imported]}" {stroke}/>'
        )

    def _arrow_head(self, imported: str) -> str:
        x, y = self.left[imported] + self.entry, self.top[imported]
        return f'<path d="M{x - 7} {y - 10} L{x + 7} {y - 10} L{x} {y} Z" fill="{self.hue[imported]}"/>'

    def _weight(self, importer: str, imported: str, weight: int) -> str:
        x, y = self._corner(importer, imported)
        radius = 8 + 0.85 * sqrt(weight)
        return (
            f'<circle cx="{x}" cy="{y}" r="{radius:.1f}" fill="{self.hue[imported]}"/>'
            f'<text class="weight" x="{x}" y="{y + 4}">{weight}</text>'
        )

    def _box(self, room: Room) -> str:
        x, y, hue = self.left[room.name], self.top[room.name], self.hue[room.name]
        count = "1 file" if room.files == 1 else f"{room.files} files"
        parts = [
            f'<rect class="room" x="{x}" y="{y}" width="{self.width}" height="{self.height}" rx="7" stroke="{hue}"/>',
            f'<rect x="{x}" y="{y + 7}" width="5" height="{self.height - 14}" rx="2.5" fill="{hue}"/>',
            f'<text class="name" x="{x + 16}" y="{y + 24}">{room.name}</text>',
            f'<text class="count" x="{x + self.width - 14}" y="{y + 23}" text-anchor="end">{count}</text>',
        ]
        for number, line in enumerate(_wrapped(room.contents, columns=36, lines=2)):
            parts.append(f'<text class="folders" x="{x + 16}" y="{y + 43 + 16 * number}">{line}</text>')
        return "".join(parts)

    def _leaves(self) -> str:
        x, y, width = self.margin, self.floor, self.total_width - 2 * self.margin
        parts = [f'<rect class="room" x="{x}" y="{y}" width="{width}" height="42" rx="7" stroke="{HUES[-1]}"/>']
        each = width / max(1, len(self.found.leaves))
        for number, (leaf, importers) in enumerate(self.found.leaves.items()):
            parts.append(
                f'<text class="leaf" x="{x + each * (number + 0.5):.0f}" y="{y + 26}" text-anchor="middle">'
                f'<tspan class="name">{leaf}</tspan><tspan dx="9">imported by {importers}</tspan></text>'
            )
        return "".join(parts)

    def _key(self) -> str:
        lines = [
            "An arrow leaves a room to the right and",
            "falls on the room that it imports.",
            "Circles count imports of one file by another.",
            "Bands are layers: no arrow runs up,",
            "and none between rooms of one band.",
        ]
        top, bottom = max(self.bands, key=lambda band: (band[1] - band[0], band[1]))
        x, y = self.margin + 16, (top + bottom) // 2 - 10 * (len(lines) - 1)
        return "".join(f'<text class="key" x="{x}" y="{y + 20 * n}">{line}</text>' for n, line in enumerate(lines))


def _wrapped(words: Sequence[str], columns: int, lines: int) -> list[str]:
    wrapped = [""]
    for word in words:
        joined = f"{wrapped[-1]} · {word}" if wrapped[-1] else word
        if len(joined) <= columns:
            wrapped[-1] = joined
        elif len(wrapped) < lines:
            wrapped.append(word)
        else:
            wrapped[-1] += " …"
            break
    return wrapped


if __name__ == "__main__":
    sys.exit(main())
