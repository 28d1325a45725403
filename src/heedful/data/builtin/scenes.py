"""A built-in corpus: scenes of simple shapes, each with an image, a sentence, and questions with answers.

A scene has three to five things on a grid of three by three cells. A thing has one of six shapes, eight colours and
three sizes; no two things of a scene have both shape and colour in common. The sentence names all things in reading
order, and says how each relates to the next, so that an image has exactly one right sentence. Questions ask for a
colour, a shape, a size or a number, or are answered by yes or no.

The parts are split by combination. Five of the 48 pairs of shape and colour are held out: they never occur in "train"
or "valid", and every scene of "test" has at least one. Every shape and every colour is trained on; these pairs are not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Final
from zlib import crc32

from heedful.data.builtin.choices import Choices, check_part

SHAPES: Final = ("circle", "square", "triangle", "diamond", "star", "cross")
COLOURS: Final = ("red", "green", "blue", "yellow", "purple", "orange", "cyan", "white")
SIZES: Final = ("small", "medium", "large")
NUMBERS: Final = ("zero", "one", "two", "three", "four", "five")
HELD_OUT: Final = frozenset(
    {("circle", "purple"), ("square", "cyan"), ("triangle", "red"), ("star", "green"), ("cross", "yellow")}
)
CELLS: Final = 3  # on each side of the grid
_LEAST, _MOST = 3, 5  # things in a scene
_VALID_ONE_IN: Final = 10  # scenes without a held-out pair
_QUESTIONS: Final = 4  # about each scene
_JITTER: Final = 0.06  # greatest distance of a thing from the middle of its cell in each direction, in cells


@dataclass(frozen=True)
class Thing:
    """A shape with a colour and a size in a cell of the grid."""

    shape: str
    colour: str
    size: str
    row: int
    column: int
    down: float = 0.0  # distance of its centre from the middle of its cell, in cells
    right: float = 0.0

    @property
    def pair(self) -> tuple[str, str]:
        """Shape and colour."""
        return self.shape, self.colour

    @property
    def held_out(self) -> bool:
        """Whether no thing in training has this shape with this colour."""
        return self.pair in HELD_OUT

    @property
    def words(self) -> str:
        """Size, colour and shape."""
        return f"{self.size} {self.colour} {self.shape}"


@dataclass(frozen=True)
class Question:
    """A question about a scene and its answer, one word."""

    question: str
    answer: str
    kind: str = ""  # what is asked for

    @property
    def held_out(self) -> bool:
        """Whether it names a pair of shape and colour that is held out."""
        return any(f"{colour} {shape} " in self.question for shape, colour in HELD_OUT)


@dataclass(frozen=True)
class Scene:
    """Things in reading order: row by row, from left to right."""

    things: tuple[Thing, ...]
    questions: tuple[Question, ...] = ()

    @cached_property
    def sentence(self) -> str:
        """All things and how each relates to the next: "a small red star left of a large blue circle above ..."."""
        parts = [f"a {self.things[0].words}"]
        for one, other in pairwise(self.things):
            parts.append(f"{relation(one, other)} a {other.words}")
        return " ".join(parts)

    def named(self) -> list[int | None]:
        """Return, for each word of the sentence, the number of the thing that it describes; None for other words."""
        found: list[int | None] = [None, 0, 0, 0]
        for number, (one, other) in enumerate(pairwise(self.things), start=1):
            found += [None] * (len(relation(one, other).split()) + 1) + [number] * 3
        return found


def relation(one: Thing, other: Thing) -> str:
    """Return how a thing relates to one that comes later in reading order."""
    return "left of" if one.row == other.row else "above"


def scenes(part: str, count: int, seed: int = 0) -> Iterator[Scene]:
    """Yield `count` scenes of one part: the same for the same arguments, everywhere.

    A longer draw begins with the shorter one.
    """
    check_part("scenes", part)
    return islice(_scenes(part, seed), count)


def _scenes(part: str, seed: int) -> Iterator[Scene]:
    draw = _Draw(f"scenes {part} {seed}")
    while True:
        things = draw.things(part == "test")
        scene = Scene(things)
        if part != "test" and (crc32(scene.sentence.encode()) % _VALID_ONE_IN == 0) != (part == "valid"):
            continue
        yield Scene(things, draw.questions(things))


class _Draw(Choices):
    """Draws things and questions of scenes."""

    def things(self, held_out: bool) -> tuple[Thing, ...]:
        """Draw the things of a scene: with `held_out` at least one held-out pair, otherwise none."""
        while True:
            count = _LEAST + self.below(_MOST - _LEAST + 1)
            cells = sorted(self.several(range(CELLS**2), count))
            found = tuple(self._thing(*divmod(cell, CELLS)) for cell in cells)
            different = len({thing.pair for thing in found}) == count
            if different and any(thing.held_out for thing in found) == held_out:
                return found

    def _thing(self, row: int, column: int) -> Thing:
        down, right = ((2 * self.share() - 1) * _JITTER for _ in range(2))
        return Thing(self.one(SHAPES), self.one(COLOURS), self.one(SIZES), row, column, down, right)

    # --- questions ----------------------------------------------------------------------------------------------------

    def questions(self, things: Sequence[Thing]) -> tuple[Question, ...]:
        """Draw different questions of different kinds."""
        asking = (self._colour, self._shape, self._size, self._number, self._presence, self._place, self._neighbour)
        found: list[Question] = []
        while len(found) < _QUESTIONS:
            asked = self.one(asking)(things)
            if asked is not None and asked not in found:
                found.append(asked)
        return tuple(found)

    def _colour(self, things: Sequence[Thing]) -> Question | None:
        thing = self.one(things)
        if sum(other.shape == thing.shape for other in things) > 1:
            return None
        return Question(f"what colour is the {thing.shape} ?", thing.colour, "colour")

    def _shape(self, things: Sequence[Thing]) -> Question | None:
        thing = self.one(things)
        if sum(other.colour == thing.colour for other in things) > 1:
            return None
        return Question(f"what shape is the {thing.colour} thing ?", thing.shape, "shape")

    def _size(self, things: Sequence[Thing]) -> Question:
        thing = self.one(things)
        return Question(f"what size is the {thing.colour} {thing.shape} ?", thing.size, "size")

    def _number(self, things: Sequence[Thing]) -> Question:
        if self.below(3) == 0:
            return Question("how many things are there ?", NUMBERS[len(things)], "number")
        key, values = self.one((("shape", SHAPES), ("colour", COLOURS), ("size", SIZES)))
        present = self.below(4) > 0  # "zero" would be the answer to most questions about a random value
        value = getattr(self.one(things), key) if present else self.one(values)
        what = f"{value}s" if key == "shape" else f"{value} things"
        what = "crosses" if what == "crosss" else what
        count = sum(getattr(thing, key) == value for thing in things)
        return Question(f"how many {what} are there ?", NUMBERS[count], "number")

    def _presence(self, things: Sequence[Thing]) -> Question:
        """Ask for a thing that is there, or for the colour of one thing with the shape of another."""
        one, other = self.one(things), self.one(things)
        shape, colour = one.shape, one.colour if self.below(2) else other.colour
        there = any(thing.pair == (shape, colour) for thing in things)
        asked = f"is there {'an' if colour == 'orange' else 'a'} {colour} {shape} ?"
        return Question(asked, "yes" if there else "no", "presence")

    def _place(self, things: Sequence[Thing]) -> Question | None:
        one, other = self.several(things, 2)
        if one.row != other.row:
            where, true = self.one((("above", one.row < other.row), ("below", one.row > other.row)))
        else:
            where, true = self.one((("left of", one.column < other.column), ("right of", one.column > other.column)))
        asked = f"is the {one.colour} {one.shape} {where} the {other.colour} {other.shape} ?"
        return Question(asked, "yes" if true else "no", "place")

    def _neighbour(self, things: Sequence[Thing]) -> Question | None:
        """Ask for the colour or shape of the only thing on one side of another."""
        thing, key = self.one(things), self.one(("colour", "shape"))
        where, there = self.one(
            (
                ("left of", [other for other in things if other.row == thing.row and other.column < thing.column]),
                ("right of", [other for other in things if other.row == thing.row and other.column > thing.column]),
            )
        )
        if len(there) != 1:
            return None
        asked = f"what {key} is the thing {where} the {thing.colour} {thing.shape} ?"
        return Question(asked, getattr(there[0], key), "neighbour")
