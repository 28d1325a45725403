"""Tables of options: what is declared once is checked, completed and shown."""

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, Unpack

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import on_command_line
from heedful.base.options import Option, complete, options_of, show_options


class Paint(TypedDict, total=False):
    coats: Annotated[int | None, Option("Number of coats.", 2, least=1, most=9)]
    share: Annotated[float | None, Option("Share of white.\nOf each wall.", 0.5, above=0, most=1, must_be="a share")]
    speed: Annotated[float | None, Option("Strokes per second.", least=0, of_recipe=True)]
    gloss: Annotated[Literal["matt", "silk"] | None, Option("Gloss.")]
    dry: Annotated[bool, Option("Whether it dries.", False)]


@dataclass(frozen=True)
class Wall:
    width: Annotated[int, Option("Width.", least=1)] = 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coats": 0}, "`coats` is 0, but must be at least 1."),
        ({"coats": 10_000}, "`coats` is 10,000, but must be at most 9."),
        ({"coats": 2.5}, "`coats` is 2.5, but must be a whole number."),
        ({"share": 0}, "`share` is 0.0, but must be a share."),
        ({"share": float("nan")}, "`share` is nan, but must be a number."),
        ({"speed": -1}, "`speed` is -1.0, but must be at least 0."),
        ({"speed": float("inf")}, "`speed` is inf, but must be finite."),
        ({"gloss": "wet"}, "`gloss` is `wet`, but must be one of matt, silk."),
        ({"dry": 1}, "`dry` is 1, but must be True or False."),
    ],
    ids=str,
)
def test_what_a_table_does_not_allow_is_refused(options: dict[str, Any], message: str) -> None:
    with refuses(message):
        complete(options, Paint)


def test_messages_name_options_as_the_caller_spells_them() -> None:
    with on_command_line(), refuses("--coats is 0, but must be at least 1."):
        complete({"coats": 0}, Paint)


def test_a_call_comes_before_the_recipe_and_the_recipe_before_defaults() -> None:
    recipe = {"speed": 3.0, "coats": 4}
    assert complete({}, Paint) == {"coats": 2, "share": 0.5, "speed": None, "gloss": None, "dry": False}
    assert complete({"coats": 5, "speed": None}, Paint, recipe)["coats"] == 5
    assert complete({"coats": 5, "speed": None}, Paint, recipe)["speed"] == 3.0


def test_an_unknown_option_is_a_mistake_of_the_program() -> None:
    with refuses("`coat` is not an option. Did you mean `coats`?", TypeError):
        complete({"coat": 1}, Paint)


def test_the_fields_of_a_dataclass_have_their_own_defaults() -> None:
    assert (options_of(Wall)["width"].default, options_of(Wall)["width"].kind) == (3, int)


def test_help_names_each_option_with_its_meaning() -> None:
    @show_options(Paint)
    def paint(wall: Wall, **options: Unpack[Paint]) -> None:
        """Paint a wall."""

    parameters = inspect.signature(paint).parameters
    assert [each.default for each in parameters.values()][1:] == [2, 0.5, None, None, False]
    assert inspect.getdoc(paint) == (
        "Paint a wall.\n\nOptions:\n    coats: Number of coats.\n    share: Share of white. Of each wall.\n"
        "    speed: Strokes per second (default: the recipe's).\n    gloss: Gloss.\n    dry: Whether it dries."
    )
