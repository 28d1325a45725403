"""Options that verbs share: declared once, the same in every verb and in Python."""

import inspect
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Annotated, Any, Optional, cast, get_args, get_type_hints

import annotated_types
import pytest
import typer
import typer.main

from heedful.base.errors import UserError
from heedful.cli.options import DecodingOptions, flag, with_option_groups
from heedful.config.decode import Decode
from heedful.tasks.shared.sequences.search_options import DecodeOptions

SEARCHING = ("translate", "evaluate", "compare")


def options_of(verb: str) -> dict[str, tuple[Any, Any, Any]]:
    """The parameters that Typer makes the options of a verb from: type with bounds and help, and default."""
    command = import_module(f"heedful.cli.verbs.{verb}").command
    found = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        kind, option = get_args(parameter.annotation)
        found[name] = kind, vars(option), parameter.default
    return found


@pytest.mark.parametrize("verb", SEARCHING)
def test_every_verb_that_searches_has_all_decoding_options_with_the_same_bounds_and_help(verb: str) -> None:
    names = {field.name for field in fields(DecodingOptions)}
    shown, first = options_of(verb), options_of(SEARCHING[0])
    assert names <= set(shown)
    assert {name: shown[name] for name in names} == {name: first[name] for name in names}


def test_the_options_are_the_keys_of_a_recipes_decode_table_and_of_a_call_in_python() -> None:
    names = [field.name for field in fields(DecodingOptions)]
    assert names == list(Decode.model_fields)
    assert set(names) == set(get_type_hints(DecodeOptions))


@pytest.mark.parametrize("name", Decode.model_fields)
def test_an_option_has_the_bounds_of_the_recipes_key(name: str) -> None:
    key = Decode.model_fields[name]
    kind, option, default = options_of("translate")[name]
    least: set[Any] = {rule.ge for rule in key.metadata if isinstance(rule, annotated_types.Ge)}
    least |= {
        cast("int", rule.gt) + 1 for rule in key.metadata if isinstance(rule, annotated_types.Gt)
    }  # of whole numbers
    assert {option["min"]} == (least or {None})
    assert kind == Optional[key.annotation]  # noqa: UP045 - of a type that is known at run time only
    assert option["default"] == flag(name)  # where Typer keeps the flag of an annotation
    assert option["help"]
    assert default is None


def test_only_what_the_user_gave_goes_to_the_search() -> None:
    assert DecodingOptions().given() == {}
    assert DecodingOptions(beam=2, coverage=0.0).given() == {"beam": 2, "coverage": 0.0}


def test_a_shift_needs_the_shifted_penalty() -> None:
    DecodingOptions(length_shift=1.0).check_length_shift("shifted")
    DecodingOptions(length_shift=1.0, length_penalty_kind="shifted").check_length_shift("wu")
    DecodingOptions().check_length_shift("wu")
    for options, kind in (({}, "wu"), ({"length_penalty_kind": "wu"}, "shifted")):
        with pytest.raises(UserError) as caught:
            DecodingOptions(length_shift=0.0, **options).check_length_shift(kind)  # type: ignore[arg-type]
        assert str(caught.value) == (
            "--length-shift applies to the shifted length penalty, but the kind is wu: "
            "add --length-penalty-kind shifted."
        )


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
