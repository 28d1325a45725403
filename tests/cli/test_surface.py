"""The command line as one surface: an option means one thing in all verbs, and every result can be had as JSON.

What an option means is its kind of value, the name of that value, and the head of its help: the words before the first
punctuation mark. What follows may say what that is for this verb.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.shared.refusals import like

from heedful.cli.help import LEFT, choices_of, kind_of, value_name
from heedful.cli.main import OLD_OPTIONS, VERBS, command_of, run

# A short flag that is short for two: where a verb writes to, a file for results and a folder for models.
TWO_NAMES: Final = {"-o", "--to"}  # the second: the language of a translation, the format of an export
# Verbs that print no result that a program could use better as JSON, with the reason.
WITHOUT_RESULT: Final = {
    "completion": "prints a script for a shell",
    "join": "writes what other verbs have answered, as JSON too",
    "config schema": "prints JSON without being asked",
    "serve": "answers requests in JSON",
    **dict.fromkeys(
        (f"plot {name}" for name in command_of("plot").commands if name != "layer-cost"),
        "writes an image; the numbers of most are elsewhere",
    ),
}
NARROWEST: Final = 36  # columns of descriptions on a screen of 80


def walk() -> Iterator[tuple[str, Any]]:
    for verb in VERBS:
        command = command_of(verb)
        for name, one in getattr(command, "commands", {"": command}).items():
            yield f"{verb} {name}".strip(), one


COMMANDS: Final = dict(walk())


def options(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and not one.hidden]


def meaning(option: Any) -> tuple[object, ...]:
    head = re.split(r"[.:;,(]", option.help)[0].strip()
    return bool(option.is_flag), kind_of(option), value_name(option), head


def test_an_option_means_one_thing_in_all_verbs() -> None:
    seen: dict[str, dict[tuple[object, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for verb, command in COMMANDS.items():
        for option in options(command):
            for flag in (*option.opts, *option.secondary_opts):
                if flag not in TWO_NAMES:
                    seen[flag][meaning(option)].append(verb)
    several = {flag: dict(meanings) for flag, meanings in seen.items() if len(meanings) > 1}
    assert not several


def test_a_short_flag_is_short_for_one_option() -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for command in COMMANDS.values():
        for option in options(command):
            long = next(flag for flag in option.opts if flag.startswith("--"))
            for flag in option.opts:
                if not flag.startswith("--"):
                    seen[flag].add("--text" if "--text" in option.opts else long)  # `generate` calls it --prompt too
    assert {flag: names for flag, names in seen.items() if len(names) > 1} == {"-o": {"--out", "--output"}}


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_with_a_result_writes_it_as_json(verb: str) -> None:
    has_json = any("--json" in option.opts for option in options(COMMANDS[verb]))
    assert has_json != (verb in WITHOUT_RESULT)


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_option_and_argument_has_a_help_that_is_a_sentence(verb: str) -> None:
    for one in COMMANDS[verb].params:
        assert re.fullmatch(r"\S.*[.)]", one.help), (one.name, one.help)


# --- help -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [*VERBS, *COMMANDS])
def test_help_at_80_columns_leaves_room_for_descriptions(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*verb.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: heedful {verb} [OPTIONS]")
    assert max(map(len, lines)) <= 80
    rows = [re.match(r"  \S.*?  +(?=\S)", line) for line in lines if line.startswith("  -")]
    for row in filter(None, rows):
        assert row.end() <= 80 - NARROWEST
    assert LEFT + 4 <= 80 - NARROWEST


def test_help_shows_flags_values_choices_and_defaults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["embed", "-h"]) == 0
    shown = capsys.readouterr().out
    assert "\n  -t, --text TEXT    A text, even" in shown
    assert "\n  --pool mean|first|max|last|context\n                     How the vectors" in shown
    assert "a Transformer (default: -1).\n" in shown
    assert run(["explain", "-h"]) == 0
    shown = capsys.readouterr().out
    assert "\n  --gradients/--no-gradients  Also show" in shown
    assert "(default: --gradients)." in " ".join(shown.split())
    assert run(["average", "-h"]) == 0
    assert "as a model of its own. Required." in capsys.readouterr().out


def test_a_long_option_has_its_description_on_the_next_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["compare", "-h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("  --bleu-tokenize 13a|none|intl|char|zh|ja-mecab|ko-mecab")
    assert lines[place + 1].strip().startswith("Tokenizer of BLEU")


def test_what_benchmarks_need_is_not_shown_to_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "-h"]) == 0
    assert "--record" not in capsys.readouterr().out
    assert "--record" in {flag for one in COMMANDS["evaluate"].params for flag in one.opts}


def test_choices_and_kinds_are_read_from_any_click() -> None:
    class Kind:
        name = "integer range"
        choices = ("a", "b")

    class Parameter:
        type = Kind()

    assert choices_of(Parameter()) == ("a", "b")
    assert kind_of(Parameter()) is int
    Kind.name = "float"
    assert kind_of(Parameter()) is float
    Kind.name = "text"
    assert kind_of(Parameter()) is str


# --- old names and missing words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        (["answer", "nowhere", "--question", "What?", "--picture=photo.png"], "--picture", "--image"),
        (["answer", "nowhere", "-t", "a text"], "-t", "--context"),
        (["-q", "answer", "nowhere", "-tx"], "-t", "--context"),
        (["plot", "layer-cost", "--tokens", "0"], "--tokens", "--batch-tokens"),
    ],
)
def test_an_old_option_is_the_new_one_and_says_so(
    capsys: pytest.CaptureFixture[str], arguments: list[str], old: str, new: str
) -> None:
    assert run(arguments) == 2
    note, error = capsys.readouterr().err.splitlines()
    assert note == f"heedful: {old} is called {new} now."
    assert "No such option" not in error


@pytest.mark.parametrize("verb", OLD_OPTIONS)
def test_every_old_option_has_a_new_one_and_no_other_meaning(verb: str) -> None:
    command = command_of(verb.split()[0]) if verb else command_of("answer")
    command = getattr(command, "commands", {}).get(verb.split()[-1] if verb else "", command)
    flags = {flag for one in command.params for flag in one.opts}
    demo = {flag for one in command_of("demo").params for flag in one.opts}
    for old, new in OLD_OPTIONS[verb].items():
        assert old not in flags
        assert new in flags | demo


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["recipes"], "demo-en-es "),
        (["recipes", "--json"], '{"name": "'),
        (["recipes", "-q"], "demo-en-es "),
        (["cache", "--json"], ""),
        (["config"], "Usage: heedful config [OPTIONS] COMMAND"),
        (["plot"], "Usage: heedful plot [OPTIONS] COMMAND"),
        (["recipes", "-h"], "Usage: heedful recipes [OPTIONS] COMMAND"),
    ],
)
def test_a_verb_without_its_second_word_lists_what_there_is_or_shows_its_help(
    capsys: pytest.CaptureFixture[str], arguments: list[str], shown: str
) -> None:
    assert run(arguments) == 0
    assert shown in capsys.readouterr().out


def test_recipes_and_keys_are_shown_as_objects_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "demo-en-es", "--json", "--set", "train.steps=7"]) == 0
    assert json.loads(capsys.readouterr().out)["train"]["steps"] == 7
    assert run(["config", "explain", "train.seed", "--json"]) == 0
    (key,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (key["path"], key["value"], key["default"]) == ("train.seed", "a whole number", "1")
    assert run(["config", "explain", "train.validation", "--json"]) == 0
    paths = [json.loads(line)["path"] for line in capsys.readouterr().out.splitlines()]
    assert paths[0] == "train.validation"
    assert "train.validation.every" in paths
    assert run(["config", "explain", "extends", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == "extends"


def test_recipes_are_shown_and_copied_as_objects_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipes", "show", "demo-en-es", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["text"]) == ("demo-en-es", Path(shown["path"]).read_text(encoding="utf-8"))
    assert run(["recipes", "copy", "demo-en-es", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "demo-en-es", "copy": str(tmp_path / "demo-en-es.toml")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["completion"], "Missing argument 'SHELL'. Choose from: bash, zsh, fish. See `heedful completion --help`."),
        (["evaluate"], "Missing argument 'MODEL'. See `heedful evaluate --help`."),
        (["demo", "x"], "There is one argument too many (x). See `heedful demo --help`."),
        (["explain", "nowhere"], "nowhere is not a folder: a model is..."),
        (["trace", "nowhere", "x.png"], "nowhere is not a folder: a model is..."),
    ],
)
def test_a_mistake_is_one_line_that_names_its_cause(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err == like(f"heedful: error: {message}\n")
