"""Options that verbs share: declared once, the same in every verb and in Python."""

import inspect
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Annotated, Any, Literal, Optional, TypedDict, get_args, get_type_hints

import annotated_types
import pytest
import typer
import typer.main
from tests.shared.refusals import refuses

from heedful.base.options import Option, options_of
from heedful.cli.options import Group, flag, option, with_option_groups
from heedful.config.decode import OF_LOADING, Decode, DecodeOptions
from heedful.config.section import written_meaning
from heedful.tasks.generate.generation import GenerateOptions

SEARCHING = ("translate", "parse", "caption", "evaluate", "compare")
SAMPLING = {"sample", "temperature", "top_k", "top_p", "min_p", "seed"}
OF_CALLS = [key for key in Decode.model_fields if key not in OF_LOADING]  # --precision is an option of every model


def shown_by(verb: str) -> dict[str, tuple[Any, Any, Any]]:
    """The parameters that Typer makes the options of a verb from: type with bounds and help, and default."""
    command = import_module(f"heedful.cli.verbs.{verb}").command
    found = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        kind, option = get_args(parameter.annotation)
        found[name] = kind, vars(option), parameter.default
    return found


@pytest.mark.parametrize("verb", SEARCHING)
def test_every_verb_that_searches_has_all_decoding_options_with_the_same_bounds_and_help(verb: str) -> None:
    shown, first = shown_by(verb), shown_by(SEARCHING[0])
    assert set(Decode.model_fields) <= set(shown)
    assert all(shown[name] == first[name] for name in Decode.model_fields)


@pytest.mark.parametrize("verb", ["translate", "parse", "caption"])
def test_every_verb_that_samples_has_all_options_of_sampling(verb: str) -> None:
    shown, first = shown_by(verb), shown_by("translate")
    assert set(shown) >= SAMPLING
    assert all(shown[name] == first[name] for name in SAMPLING)
    assert SAMPLING - {"sample"} <= set(shown_by("generate"))


def test_every_option_of_generate_in_python_is_one_of_the_command_line() -> None:
    assert set(options_of(GenerateOptions)) - {"samples"} <= set(shown_by("generate"))  # which --n-best sets


def test_the_options_are_the_keys_of_a_recipes_decode_table_and_of_a_call_in_python() -> None:
    assert list(options_of(DecodeOptions)) == OF_CALLS
    for name, kind in get_type_hints(DecodeOptions).items():
        assert kind == Optional[Decode.model_fields[name].annotation]  # noqa: UP045 - known at run time only


@pytest.mark.parametrize("name", OF_CALLS)
def test_an_option_has_the_bounds_of_the_recipes_key(name: str) -> None:
    key = Decode.model_fields[name]
    kind, option, default = shown_by("translate")[name]
    least: set[Any] = {rule.ge for rule in key.metadata if isinstance(rule, annotated_types.Ge)}
    most: set[Any] = {rule.le for rule in key.metadata if isinstance(rule, annotated_types.Le)}
    assert {option["min"]} == (least or {None})
    assert {options_of(DecodeOptions)[name].most} == (most or {None})
    assert kind == Optional[key.annotation]  # noqa: UP045 - of a type that is known at run time only
    assert option["default"] == flag(name)  # where Typer keeps the flag of an annotation
    assert option["help"] == written_meaning(Decode, name)
    assert default is None


# --- tables -----------------------------------------------------------------------------------------------------------


class Paint(TypedDict, total=False):
    coats: Annotated[int | None, Option("Number of coats.\nAlso of a list.", 2, least=1, most=9)]
    gloss: Annotated[Literal["matt", "silk"] | None, Option("Gloss.")]
    dry: Annotated[bool | None, Option("Whether it dries.", True)]
    words: Annotated[str | list[str] | None, Option("Words on it.", reader=lambda name, value: value)]


def painted(arguments: list[str]) -> Any:
    """What a command with these options gets, and its options as Typer has them."""
    seen: list[Paint] = []

    @with_option_groups
    def command(paint: Annotated[Paint, Group(Paint, "Paint")]) -> None:
        seen.append(paint)

    app = typer.Typer(add_completion=False)
    app.command()(command)
    painting: Any = typer.main.get_command(app)
    painting.main(arguments, standalone_mode=False)
    return seen[0], {option.name: option for option in painting.params}


def test_the_options_of_a_table_become_those_of_a_command() -> None:
    given, options = painted(["--coats", "3", "--gloss", "silk", "--no-dry", "--words", "a", "--words", "b"])
    assert given == {"coats": 3, "gloss": "silk", "dry": False, "words": ["a", "b"]}
    assert [option.help for option in options.values()] == [
        "Number of coats (default: 2).",
        "Gloss.",
        "Whether it dries (default: --dry).",
        "Words on it; repeatable.",
    ]
    assert options["coats"].opts == ["--coats"]
    assert {option.rich_help_panel for option in options.values()} == {"Paint"}


def test_only_what_the_user_gave_goes_to_the_command() -> None:
    assert painted([])[0] == {}
    assert painted(["--dry"])[0] == {"dry": True}


def test_values_are_checked_before_the_command_runs() -> None:
    with refuses("`coats` is 10, but must be at most 9."):
        painted(["--coats", "10"])


# --- groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option("--width", min=1, help="Width.")] = 3
    tall: Annotated[bool, typer.Option("--tall", help="Height.")] = False


def test_a_group_stands_for_its_options_and_comes_as_one_value() -> None:
    seen: list[tuple[str, Size]] = []

    @with_option_groups
    def command(name: str, colour: str = "red", *, size: Size) -> None:
        """Paint."""
        seen.append((f"{name} {colour}", size))

    app = typer.Typer(add_completion=False)
    app.command()(command)
    painting: Any = typer.main.get_command(app)
    assert painting.help == "Paint."
    assert [option.name for option in painting.params] == ["name", "colour", "width", "tall"]
    for arguments in (["wall"], ["wall", "--colour", "blue", "--width", "7", "--tall"]):
        painting.main(arguments, standalone_mode=False)
    assert seen == [("wall red", Size()), ("wall blue", Size(7, True))]


@dataclass(frozen=True)
class Tin:
    colour: str
    _: KW_ONLY
    lid: Annotated[bool, typer.Option("--lid", help="Whether it has a lid.")] = True


@dataclass(frozen=True, kw_only=True)
class Work:
    size: Size
    paint: Annotated[Paint, Group(Paint, "Paint", only=("coats",))]


def test_keyword_only_fields_come_after_the_options_of_the_command_and_groups_hold_groups() -> None:
    seen: list[tuple[Tin, int, Work]] = []

    @with_option_groups
    def command(tin: Tin, weight: Annotated[int, option("Weight.", min=1)] = 2, *, work: Work) -> None:
        seen.append((tin, weight, work))

    app = typer.Typer(add_completion=False)
    app.command()(command)
    painting: Any = typer.main.get_command(app)
    assert [shown.name for shown in painting.params] == ["colour", "weight", "lid", "width", "tall", "coats"]
    painting.main(["red", "--weight", "4", "--tall", "--coats", "3"], standalone_mode=False)
    assert seen == [(Tin("red"), 4, Work(size=Size(tall=True), paint={"coats": 3}))]
