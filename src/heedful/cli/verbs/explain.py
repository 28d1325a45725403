"""`heedful explain MODEL TEXT...`: a page that shows what a model attended to."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from heedful.cli import messages
from heedful.cli.input import open_inputs
from heedful.cli.options import DeviceOption, InputsArgument, ModelArgument, TextOption, ToOption
from heedful.cli.output import check_output, line_writer, write_result
from heedful.data.corpora.texts import text_of_line
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.tasks.shared.explaining.explanation import Explanation

PAGE: Final = Path("explain.html")
KINDS: Final = ("encoder", "decoder", "cross")
_MOST: Final = 100  # texts of a page


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TEXT", help="Explain this translation instead of the model's own."),
    ] = None,
    to: ToOption = None,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=0, help="Number of runners-up of each predicted token.")
    ] = 5,
    gradients: Annotated[
        bool,
        typer.Option("--gradients/--no-gradients", help="Also show how much each token would change a prediction."),
    ] = True,
    silence: Annotated[
        list[str] | None,
        typer.Option(
            "--silence",
            metavar="KIND:LAYER:HEAD",
            help="What if: also explain each text without a head, such as cross:1:2, counted from 1; repeatable.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per text instead of a page: all weights, exactly.")
    ] = False,
    as_svg: Annotated[
        bool, typer.Option("--svg", help="Write one picture of a single text instead of a page: every layer and head.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File of the page (default: explain.html); `-`: standard output."
        ),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Show how a model read a text: the weights of every layer and head, token probabilities, the alignment.

    The page is one file that needs no network: open it in a browser. Translators, classifiers, masked language models
    and language models are explained; a classifier of pairs reads two texts per line, separated by a tab.
    """
    if as_json and as_svg:
        raise UserError("--json and --svg are two forms of the same: leave out one of them.")
    page = not (as_json or as_svg)
    if page and output is None:
        output = PAGE
    check_output(output)
    heads = [_head(one) for one in silence or ()]
    lines = _lines(inputs, text)
    if as_svg and heads:
        raise UserError("--svg draws one explanation, and --silence adds another: leave out one of them.")
    if as_svg and len(lines) > 1:
        raise UserError(f"--svg draws one text, but there are {len(lines):,}: give one, or leave out --svg.")
    if target is not None and len(lines) > 1:
        raise UserError(f"--target is the translation of one text, but there are {len(lines):,}: give one.")
    with messages.busy(f"loading {model}"):
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        loaded = load(model, "cpu" if heads else device)
    with messages.busy("explaining"):
        found = [_explain(loaded, line, where, target, to, top, gradients) for line, where in lines]
    if heads:
        change = "without " + ", ".join(f"{kind} layer {layer + 1} head {head + 1}" for kind, layer, head in heads)
        with loaded.silenced(*heads):
            changed = [_explain(loaded, line, where, target, to, top, gradients) for line, where in lines]
        pairs = zip(found, changed, strict=True)
        found = [one for before, after in pairs for one in (before, replace(after, change=change))]
    if as_json:
        with line_writer(output) as write:
            for one in found:
                write(json.dumps(one.to_json(), ensure_ascii=False))
        return
    from heedful.explain.page import explorer_page
    from heedful.explain.pictures import attention_svg

    write_result(
        (explorer_page(found, Path(model).resolve().name) if page else attention_svg(found[0])).rstrip(), output
    )
    if output is not None and output != Path("-"):
        size = output.stat().st_size
        messages.note(f"{output} ({size / 1000:,.0f} kB): open it in a browser.")


def _head(given: str) -> Any:
    """Return the kind, layer and head of an option, counted from 0."""
    kind, *numbers = given.split(":")
    if kind not in KINDS or len(numbers) != 2 or not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise UserError(
            f"--silence {given}: give a kind ({', '.join(KINDS)}), a layer and a head, counted from 1, such as "
            "cross:1:2."
        )
    return kind, int(numbers[0]) - 1, int(numbers[1]) - 1


def _lines(inputs: list[str] | None, text: list[str] | None) -> list[tuple[str, str]]:
    """Return the texts, each with its name in messages; blank lines are left out."""
    found = [
        (line, f"{entry.name}, line {number:,}")
        for entry in open_inputs(inputs, text)
        for number, line in enumerate(entry.lines(), start=1)
        if line.strip()
    ]
    if not found:
        raise UserError('There is no text: give one, as in `heedful explain MODEL "some text"`.')
    if len(found) > _MOST:
        raise UserError(f"There are {len(found):,} texts, but a page holds at most {_MOST}: give fewer.")
    return found


def _explain(
    model: Any, line: str, where: str, target: str | None, to: str | None, top: int, gradients: bool
) -> "Explanation":
    """Explain one text by a model of any task."""
    task = model.recipe.rules.name
    if not hasattr(model, "explain"):
        raise UserError(
            f"Models of the task `{task}` are not explained: use one that translates, classifies texts, fills masks "
            "or generates text."
        )
    if task != "translate" and (target is not None or to is not None):
        name = "--to" if target is None else "--target"
        raise UserError(f"{name} is for translators, but the task of this model is `{task}`: leave it out.")
    found: Explanation
    match task:
        case "translate":
            found = model.explain(line, target, top=top, to=to, gradients=gradients)
        case "classify":
            read = text_of_line(line, model.paired, where)
            found = model.explain(read.text, read.second, gradients=gradients)
        case _:
            found = model.explain(line, top=top, gradients=gradients)
    return found
