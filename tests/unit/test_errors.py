"""The errors a user sees, and the words that help."""

import signal
import time

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import (
    HeedfulError,
    MachineError,
    Stopped,
    UserError,
    by_caller,
    nearest,
    on_command_line,
    suggestion,
)


def test_exit_codes_tell_the_user_the_machine_and_signals_apart() -> None:
    assert (UserError("x").exit_code, MachineError("x").exit_code) == (2, 3)
    assert Stopped("saved", signal.SIGTERM).exit_code == 143
    assert Stopped("saved", signal.SIGINT).exit_code == 130


@pytest.mark.parametrize("error", [UserError("a line"), MachineError("a line"), Stopped("a line", 2)])
def test_an_error_is_its_line(error: HeedfulError) -> None:
    assert isinstance(error, HeedfulError)
    assert str(error) == "a line"


def test_the_nearest_word_is_suggested() -> None:
    assert suggestion("layer", ["heads", "layers", "width"]) == " Did you mean `layers`?"


def test_all_words_are_listed_where_none_is_near() -> None:
    assert suggestion("colour", ["heads", "layers"]) == " Known: heads, layers."


def test_nothing_is_suggested_where_nothing_is_known() -> None:
    assert suggestion("layer", []) == ""
    assert nearest("layer", []) is None


def test_a_word_of_megabytes_is_near_to_none_within_no_time() -> None:
    began = time.process_time()
    assert nearest("layers" * 500_000, ["heads", "layers"]) is None
    assert time.process_time() - began < 0.1  # it took seconds for each known word
    assert nearest("layers_of_it", ["layers"]) == "layers"  # twice as long, and still near


def test_messages_name_flags_on_the_command_line_and_arguments_in_python() -> None:
    assert by_caller("--resume", "`resume=True`") == "`resume=True`"
    with refuses("...-...", ValueError), on_command_line():
        raise ValueError(by_caller("--resume", "`resume=True`"))
    assert by_caller("--resume", "`resume=True`") == "`resume=True`"
