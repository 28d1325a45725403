"""`heedful VERB`: find the module of the verb, run it, and turn errors into one line and an exit code.

Exit codes: 0 done; 2 the user's mistake; 3 the machine's failure; 130 interrupted; 129 and 143 hung up or terminated
after saving; 141 the reader of the output went away; 1 a bug, with its traceback. Results go to standard output,
everything else to standard error.
"""

import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main

import heedful
from heedful.base.columns import printable_line
from heedful.base.errors import (
    HeedfulError,
    Stopped,
    UserError,
    UserErrors,
    impossible_name,
    machine_error,
    memory_error,
    on_command_line,
    suggestion,
)
from heedful.base.notes import listening
from heedful.cli import messages
from heedful.cli.command import running
from heedful.cli.help import help_text
from heedful.cli.output import open_streams
from heedful.training.signals import end_process, heed_interrupts, restore_signals

_Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show results, warnings and errors only: no notes, no progress.")
]
_Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also show times, memory, what computes int8, and the traceback of an error."),
]
# Old names of options, by verb, or of every verb: they still work, and say what the option is called now.
OLD_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "": {"--picture": "--image", "--pictures": "--images"},
    "answer": {"--text": "--context", "-t": "--context", "-p": "--image"},
    "evaluate": {"--output": "--outputs", "-o": "--outputs"},
    "explain": {"--target": "--target-text"},
    "generate": {"--samples": "--n-best"},
    "gradients": {"--steps": "--length"},
    "plot alignment": {"--target": "--target-text"},
    "plot distribution": {"--scores": "--values"},
    "plot gradients": {"--steps": "--length"},
    "plot layer-cost": {"--device": "--machine", "--tokens": "--batch-tokens"},
    "plot unrolled": {"--target": "--target-text"},
    "trace": {"--target": "--target-text"},
}

# The module of a verb has a function `command`, or a typer.Typer `app` if the verb has verbs of its own. It is imported
# when the verb is used, so that `heedful --help` does not import torch.
VERBS: Mapping[str, tuple[str, str]] = {
    "init": ("heedful.cli.verbs.init", "Look at your files and write a first recipe for them."),
    "train": ("heedful.cli.verbs.train", "Train a model from a recipe."),
    "translate": ("heedful.cli.verbs.translate", "Translate files or standard input."),
    "classify": ("heedful.cli.verbs.classify", "Classify the lines of files or standard input, or images."),
    "regress": (
        "heedful.cli.verbs.regress",
        "Predict a number for each line of files or standard input, or image.",
    ),
    "caption": ("heedful.cli.verbs.caption", "Describe images in sentences."),
    "answer": ("heedful.cli.verbs.answer", "Answer questions from a text or about an image."),
    "tag": ("heedful.cli.verbs.tag", "Label the words of sentences."),
    "parse": ("heedful.cli.verbs.parse", "Parse sentences into constituency trees."),
    "generate": ("heedful.cli.verbs.generate", "Continue texts with a language model."),
    "fill": ("heedful.cli.verbs.fill", "Fill in the masked words of texts."),
    "augment": (
        "heedful.cli.verbs.augment",
        "Make training data with a model: back-translations, silver trees, pseudo-labels.",
    ),
    "join": ("heedful.cli.verbs.join", "Check and join the parts of a batch job, which `--shard` writes."),
    "serve": ("heedful.cli.verbs.serve", "Serve models over HTTP, with a page to try them."),
    "evaluate": ("heedful.cli.verbs.evaluate", "Evaluate a model on a test set: BLEU, chrF, perplexity; accuracy, F1."),
    "compare": ("heedful.cli.verbs.compare", "Compare two models, or files of translations: scores, significance."),
    "score": ("heedful.cli.verbs.score", "Score given translations or texts: their log probabilities."),
    "report": ("heedful.cli.verbs.report", "Show how runs went: curves, scores and recipes on one page."),
    "explain": ("heedful.cli.verbs.explain", "Show what a model attends to, on a page of its own."),
    "trace": ("heedful.cli.verbs.trace", "Work through what a head or a recurrent cell computes for a text."),
    "plot": ("heedful.cli.verbs.plot", "Draw positions, schedules, networks and cells as the papers do."),
    "shortlist": ("heedful.cli.verbs.shortlist", "Learn which target tokens translate which source tokens."),
    "average": ("heedful.cli.verbs.average", "Average checkpoints or models into one model."),
    "merge": ("heedful.cli.verbs.merge", "Merge a model and its adapter into one model."),
    "quantize": ("heedful.cli.verbs.quantize", "Write a model in int8: a quarter of the size, for a CPU."),
    "embed": ("heedful.cli.verbs.embed", "Write texts as vectors, for search, clustering and other models."),
    "tokens": ("heedful.cli.verbs.tokens", "Show the pieces and ids of texts, or a batch as the model sees it."),
    "import": (
        "heedful.cli.verbs.import_",
        "Import a model of transformers from a local Hugging Face folder.",
    ),
    "export": ("heedful.cli.verbs.export", "Export a model to transformers, CTranslate2, ONNX or torch.export."),
    "publish": ("heedful.cli.verbs.publish", "Prepare a model for a hub, and upload it where that is asked for."),
    "demo": ("heedful.cli.verbs.demo", "Train a small model in minutes and try it out."),
    "doctor": ("heedful.cli.verbs.doctor", "Check a recipe and its data before training."),
    "study": ("heedful.cli.verbs.study", "Train variations of a recipe side by side, and compare them on one page."),
    "gradients": ("heedful.cli.verbs.gradients", "Measure how far back the gradients of recurrent cells reach."),
    "texts": ("heedful.cli.verbs.texts", "Recompute the equations, figures and tables of five texts about attention."),
    "recipes": ("heedful.cli.verbs.recipes", "List, show and copy the recipes that ship with Heedful."),
    "config": ("heedful.cli.verbs.config", "Check a recipe and its files, show it with all keys, or explain a key."),
    "cache": ("heedful.cli.verbs.cache", "List or clear the cache of prepared data."),
    "completion": ("heedful.cli.verbs.completion", "Print a script that completes commands in your shell."),
}
# What to do about a full memory, by verb, where the work itself does not say it (`memory_faults`): while loading.
_MEMORY: Mapping[str, str] = {
    "train": "lower `data.batch_tokens` (and raise `train.accumulate` by the same factor), or make the model smaller",
    "doctor": "lower `data.batch_tokens` (and raise `train.accumulate` by the same factor), or make the model smaller",
    "translate": "lower --batch-tokens or --beam",
    "augment": "lower --batch-tokens or --beam, or split long texts",
    "generate": "lower --batch-tokens, --beam or --max-tokens",
    "evaluate": "lower --batch-tokens or --beam, or split long texts",
    "compare": "lower --batch-tokens or --beam",
}
_MEMORY_OF_OTHERS = "split long texts, or use a machine with more memory"
_SIGNALS = 128  # the exit code of a signal is its number after this one
_READER_GONE = 141
_HELP_NAMES = ("-h", "--help")
_HELP_OPTIONS = {"help_option_names": list(_HELP_NAMES)}
_OPTIONAL = {"--ray": "auto"}  # options whose value may be left out
_LIST = "list"  # what `heedful recipes` and `heedful cache` do without another word

# How the parser words what a value must be, and how our own messages do.
_PLAIN = {
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be greater than": "must be more than",
    "Input should be less than": "must be less than",
    "Input should be a valid integer, unable to parse string as an integer": "must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "must be a number",
    "Value error, ": "",
    "Got unexpected extra argument(s)": "There is one argument too many",
    "Got unexpected extra arguments": "There are arguments too many",
    "Got unexpected extra argument": "There is one argument too many",
}

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # from the click that this typer depends on


def main() -> None:
    """Run the command line of this process."""
    os.environ["PYTHONSAFEPATH"] = "1"  # of all processes that libraries start: see `base/processes.py`
    open_streams()
    sys.excepthook = messages.write_traceback
    heed_interrupts()
    sys.setswitchinterval(0.001)  # threads that handle text keep the one that feeds a GPU waiting, by default for 5 ms
    code = run(sys.argv[1:])
    restore_signals()
    if code > _SIGNALS and code != _READER_GONE:
        sys.stdout.flush()
        end_process(code - _SIGNALS)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; only a bug raises."""
    messages.reset()
    with on_command_line(), listening(_note, _detail):
        return _run(arguments)


def _note(found: str) -> None:
    messages.note(f"{found}.")


def _detail(found: str) -> None:
    messages.detail(f"{found}.")


def _run(arguments: Sequence[str]) -> int:
    try:
        code = invoke([*_joined(_current_names(arguments))] or ["--help"])
        sys.stdout.flush()
        messages.show_cost()
    except HeedfulError as error:
        return _report(error)
    except _UsageError as error:
        return _report(UserError(_usage_message(error)))
    except (KeyboardInterrupt, typer.Abort):
        messages.warn("interrupted.")
        return _SIGNALS + signal.SIGINT
    except BrokenPipeError:  # the reader went away, as in `heedful translate ... | head`
        _forget_standard_output()
        return _READER_GONE
    except SystemExit as left:  # raised by rich, which prints the help, for the same reason
        if isinstance(left.__context__, BrokenPipeError):
            return _READER_GONE
        raise
    except (MemoryError, RuntimeError, OSError) as error:
        fault = _machine_fault(error, next((word for word in arguments if word in VERBS), ""))
        if fault is None:
            raise
        fault.__cause__ = error
        return _report(fault)
    return code


def _current_names(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command line with options by their names of this version; say where one is an old name."""
    words, old = iter(arguments), dict(OLD_OPTIONS[""])
    path = ""
    for word in words:
        if word == "--":  # what follows are no options
            yield word
            break
        if not word.startswith("-"):
            path = f"{path} {word}".strip()
            old |= OLD_OPTIONS.get(path, {})
        name, sign, value = (
            word.partition("=") if word.startswith("--") else (word[:2], "=" * (len(word) > 2), word[2:])
        )
        if name in old:
            messages.warn(f"{name} is called {old[name]} now.")
        yield f"{old[name]}{sign}{value}" if name in old else word
    yield from words


def _joined(words: Iterator[str]) -> Iterator[str]:
    """Yield the words of a command line, in which an option that may be without its value is one word with it."""
    for word in words:
        if word in _OPTIONAL:
            value = next(words, "--end")
            yield f"{word}={_OPTIONAL[word] if value.startswith('-') else value}"
            yield from [value] if value.startswith("-") and value != "--end" else []
        else:
            yield word


def invoke(arguments: Sequence[str]) -> int:
    """Run a command line in its current form, and return its exit code; whatever goes wrong is raised."""
    group: Any = typer.main.get_command(_app())
    try:
        with running(words=tuple(arguments)), group.make_context("heedful", list(arguments)) as context:
            code = group.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return code if isinstance(code, int) else 0


# --- verbs --------------------------------------------------------------------------------------------------------


class _Verb(typer.core.TyperCommand):
    """A command with help of our own."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


class _VerbGroup(typer.core.TyperGroup):
    """A verb that has verbs of its own; without one of them it lists what there is, or shows its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if _LIST in self.commands and not any(arg in _HELP_NAMES for arg in args[:1]):
            named = args and not args[0].startswith("-")
            args = args if named else [_LIST, *args]
        return super().parse_args(ctx, args or ["--help"])


class _Verbs(_VerbGroup):
    """The verbs of the table: placeholders for `--help`, and the real command of the verb that is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        verb = args[0]
        if verb not in VERBS:
            raise UserError(f"`{verb}` is not a verb of heedful.{suggestion(verb, list(VERBS))}")
        self.commands[verb] = command_of(verb)
        return super().resolve_command(ctx, args)


def _app() -> typer.Typer:
    app = typer.Typer(name="heedful", cls=_Verbs, add_completion=False, context_settings=_HELP_OPTIONS)
    app.callback(help=(heedful.__doc__ or "").partition("\n")[0])(_options)
    for verb, (_, line) in VERBS.items():
        app.command(verb, help=line)(_placeholder)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"heedful {heedful.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: _Quiet = False,
    verbose: _Verbose = False,
) -> None:
    """Take the options that come before a verb."""
    messages.choose(quiet, verbose)


def _placeholder() -> None:
    raise AssertionError("a verb ran without being loaded")


def command_of(verb: str) -> Any:
    """Import a verb's module and build its command."""
    module = import_module(VERBS[verb][0])
    holder = typer.Typer(add_completion=False)
    holder.callback()(_placeholder)
    if hasattr(module, "app"):
        group = typer.Typer(help=module.app.info.help)
        for registered in map(copy, module.app.registered_commands):
            registered.help, registered.cls = _flowing(registered.callback), _Verb
            registered.name = registered.name or registered.callback.__name__.replace("_", "-")
            registered.callback = _with_verbosity(registered.callback)
            group.registered_commands.append(registered)
        holder.add_typer(group, name=verb, cls=_VerbGroup)
    else:
        holder.command(verb, help=_flowing(module.command), cls=_Verb)(_with_verbosity(module.command))
    built: Any = typer.main.get_command(holder)
    return built.commands[verb]


def _with_verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --quiet and --verbose to a command, after its own options."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in (("quiet", _Quiet), ("verbose", _Verbose))
    ]

    @wraps(command)
    def spread(**values: Any) -> Any:
        messages.choose(values.pop("quiet"), values.pop("verbose"))
        return command(**values)

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    spread.__signature__ = inspect.Signature([*keyword_only, *added])  # type: ignore[attr-defined]
    return spread


def _flowing(command: Any) -> str:
    """Return the docstring of a command, a line per paragraph: Typer would keep its line breaks at any width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (inspect.getdoc(command) or "").split("\n\n"))


# --- errors -------------------------------------------------------------------------------------------------------


def _report(error: HeedfulError) -> int:
    """Print the message of an error; one of several lines is several errors."""
    messages.show_traceback(error)
    lines = [printable_line(line) for line in (error.lines if isinstance(error, UserErrors) else [str(error)])]
    if isinstance(error, Stopped):
        messages.warn(*lines)
    elif len(lines) == 1:
        messages.warn(f"error: {lines[0]}")
    else:
        messages.warn("\n  ".join([f"{len(lines)} errors:", *lines]))
    return error.exit_code


def _usage_message(error: Any) -> str:
    """Put a complaint of the parser on one line, with the way out."""
    message = " ".join(error.format_message().split()).replace("...'", "'")
    for words, plain in _PLAIN.items():
        message = message.replace(words, plain)
    stop = "" if message.endswith((".", "?")) else "."
    return f"{message}{stop} See `{error.ctx.command_path if error.ctx else 'heedful'} --help`."


def _machine_fault(error: Exception, verb: str) -> HeedfulError | None:
    """Return what the machine lacks, or a name that no file can have; None if the error is a bug of ours."""
    if isinstance(error, OSError) and error.filename is None:
        _forget_standard_output()
    if isinstance(error, OSError):
        return impossible_name(error) or machine_error(error, Path(error.filename or "standard output"))
    return memory_error(error, _MEMORY.get(verb, _MEMORY_OF_OTHERS))


def _forget_standard_output() -> None:
    """Discard what is left in the buffer, so that Python's last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
