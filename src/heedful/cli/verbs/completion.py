"""`heedful completion SHELL`: a script that completes verbs, options, their values and recipes."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import typer

from heedful.cli.help import choices_of
from heedful.cli.main import VERBS, command_of
from heedful.cli.options import OutputOption
from heedful.cli.output import check_output, write_result
from heedful.config.reading.shipped_recipes import shipped_recipes

# --- what can follow a verb -------------------------------------------------------------------------------------------
#
# The script holds all words itself, so that pressing Tab starts no Python. It is made anew for every version.


@dataclass(frozen=True)
class OptionWords:
    """An option: its spellings, whether a value follows, and the values if only some are possible."""

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerbWords:
    """What can follow a verb: options, verbs of its own, and words besides the names of files."""

    path: tuple[str, ...]  # ("config", "show")
    help: str
    options: tuple[OptionWords, ...] = ()
    verbs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def words_of(command: Any, path: tuple[str, ...], recipes: Sequence[str]) -> Iterator[VerbWords]:
    """Yield what can follow a command, and each of its subcommands; a RECIPE may be one of `recipes`."""
    below: Mapping[str, Any] = getattr(command, "commands", {})
    options = tuple(_options(command.params))
    help_option = OptionWords(("-h", "--help"), "Show this message and exit.", takes_value=False)
    words: list[str] = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            shown = str(parameter.metavar or "")
            words += recipes if "RECIPE" in shown or (path[0] == "recipes" and shown == "NAME") else []
            words += choices_of(parameter)
    help_line = (command.help or "").partition("\n")[0]
    yield VerbWords(path, help_line, (*options, help_option), tuple(below), tuple(words))
    for name, subcommand in below.items():
        yield from words_of(subcommand, (*path, name), recipes)


def _options(parameters: Sequence[Any]) -> Iterator[OptionWords]:
    for parameter in parameters:
        if parameter.param_type_name == "option" and not parameter.hidden:
            flags = tuple(sorted((*parameter.opts, *parameter.secondary_opts), key=len))
            yield OptionWords(flags, parameter.help or "", not parameter.is_flag, choices_of(parameter))


# --- scripts ----------------------------------------------------------------------------------------------------------


def bash(verbs: Sequence[VerbWords]) -> str:
    """Return a script for bash: a table of words by command, and a function that looks them up."""
    lines = [
        "# Completion of heedful for bash: add to ~/.bashrc",
        '#   eval "$(heedful completion bash)"',
        "_heedful_words() {",
        '    case "$1" in',
        *(f"        {shlex.quote(key)}) echo {shlex.quote(' '.join(words))} ;;" for key, words in _table(verbs)),
        "    esac",
        "}",
        "_heedful() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" path="" index candidate',
        "    for ((index = 1; index < COMP_CWORD; index++)); do",
        '        candidate="${path:+$path }${COMP_WORDS[index]}"',
        '        if [[ -n "$(_heedful_words "$candidate --")" ]]; then path="$candidate"; fi',
        "    done",
        '    local values="$(_heedful_words "$path $before")"',
        '    if [[ -n "$values" ]]; then',
        '        COMPREPLY=($(compgen -W "$values" -- "$word"))',
        '    elif [[ "$word" == -* ]]; then',
        '        COMPREPLY=($(compgen -W "$(_heedful_words "$path --")" -- "$word"))',
        "    else",
        '        COMPREPLY=($(compgen -W "$(_heedful_words "$path")" -- "$word"))',
        '        if [[ -n "$path" ]]; then COMPREPLY+=($(compgen -f -- "$word")); fi',
        "    fi",
        "}",
        "complete -o filenames -F _heedful heedful",
    ]
    return "\n".join(lines)


def _table(verbs: Sequence[VerbWords]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield words by key: the path of a verb, with ` --` for its options, and with an option for its values."""
    for verb in verbs:
        path = " ".join(verb.path)
        if verb.verbs or verb.words:
            yield path, [*verb.verbs, *verb.words]
        yield f"{path} --", [flag for option in verb.options for flag in option.flags]
        for option in verb.options:
            if option.choices:
                for flag in option.flags:
                    yield f"{path} {flag}", option.choices


def zsh(verbs: Sequence[VerbWords]) -> str:
    """Return a script for zsh, which can run what bash runs."""
    head = [
        "#compdef heedful",
        "# Completion of heedful for zsh: add to ~/.zshrc, after compinit",
        '#   eval "$(heedful completion zsh)"',
        "autoload -U +X bashcompinit && bashcompinit",
    ]
    return "\n".join([*head, *bash(verbs).splitlines()[2:]])


def fish(verbs: Sequence[VerbWords]) -> str:
    """Return a script for fish, with the help line of every verb and option."""
    lines = [
        "# Completion of heedful for fish: save as ~/.config/fish/completions/heedful.fish",
        "#   heedful completion fish > ~/.config/fish/completions/heedful.fish",
    ]
    for verb in verbs:
        condition = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in verb.path)
        below = [other for other in verbs if other.path[:-1] == verb.path and other.path]
        hide = " ".join(name for name in verb.verbs)
        for other in below:
            seen = f"{condition}; and not __fish_seen_subcommand_from {hide}" if condition else "__fish_use_subcommand"
            lines.append(_fish(seen, ["-f", "-a", other.path[-1], "-d", other.help]))
        if verb.words:
            lines.append(_fish(condition, ["-a", " ".join(verb.words)]))
        for option in verb.options:
            lines.append(_fish(condition or "__fish_use_subcommand", _fish_option(option)))
    return "\n".join(lines)


def _fish_option(option: OptionWords) -> list[str]:
    spelled = []
    for flag in option.flags:
        spelled += ["-l", flag[2:]] if flag.startswith("--") else ["-s", flag[1:]]
    values = ["-x", "-a", " ".join(option.choices)] if option.choices else ["-r"] if option.takes_value else []
    return [*spelled, *values, "-d", option.help]


def _fish(condition: str, words: Sequence[str]) -> str:
    return shlex.join(["complete", "-c", "heedful", *(["-n", condition] if condition else []), *words])


SHELLS: Final[Mapping[str, Callable[[Sequence[VerbWords]], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}


# --- `heedful completion SHELL`: a script that completes verbs, options, their values and recipes ---------------------


def command(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
    output: OutputOption = None,
) -> None:
    """Print a script that completes verbs, options, their values and the names of recipes.

    Its first lines say where to put it.
    """
    check_output(output)
    write_result(SHELLS[shell](completed_verbs()), output)


def completed_verbs() -> list[VerbWords]:
    """Return what can follow `heedful` and each of its verbs."""
    recipes = list(shipped_recipes())
    top = tuple(
        OptionWords(flags, line, takes_value=False)
        for flags, line in (
            (("--version",), "Show the version and exit."),
            (("-q", "--quiet"), "Show results, warnings and errors only."),
            (("-v", "--verbose"), "Also show times, memory, and the traceback of an error."),
            (("-h", "--help"), "Show this message and exit."),
        )
    )
    verbs = [VerbWords((), "", top, tuple(VERBS))]
    for verb in VERBS:
        verbs += words_of(command_of(verb), (verb,), recipes)
    return verbs
