"""`heedful trace MODEL TEXT`: what a head or a recurrent cell computes, step by step."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.input import image_inputs, sees_images
from heedful.cli.options import ModelArgument, json_option, option, page_option
from heedful.cli.output import check_output, write_page, write_result
from heedful.cli.verbs.explain import KINDS, QuestionOption, check_options, explain_line
from heedful.config.reading.bundle_config import read_config


def command(
    model: ModelArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text that the model reads, or the file of an image.")],
    question: QuestionOption = None,
    layer: Annotated[int, option("Layer, counted from 1.", metavar="N", min=1)] = 1,
    head: Annotated[int, option("Head, counted from 1.", metavar="N", min=1)] = 1,
    kind: Annotated[
        Literal["encoder", "question", "decoder", "cross", "cell"] | None,
        option("Kind of attention, or a recurrent cell (default: the first that the model has)."),
    ] = None,
    query: Annotated[
        int | None,
        option(
            "Token that attends, counted from 1 (default: the class token of an image, or the last).",
            metavar="N",
            min=1,
        ),
    ] = None,
    direction: Annotated[Literal["forward", "backward"], option("Direction in which a cell reads.")] = "forward",
    target: Annotated[
        str | None, option("Target text: trace this, not the model's own.", "--target-text", metavar="TEXT")
    ] = None,
    components: Annotated[
        int, option("Number of components to show of each vector.", metavar="N", min=1, max=10_000)
    ] = 6,
    as_json: Annotated[bool, json_option("one object with all numbers")] = False,
    output: Annotated[Path | None, page_option("a page, ending in .html; with --json, the object")] = None,
) -> None:
    """Work through what a head of attention computes for a text or an image, with the model's own numbers.

    It shows the products of query and keys, the scaling, the mask, the softmax and the weighted sum; for a recurrent
    cell, each gate. The numbers are printed, or with -o page.html written to a page of their own. A model that answers
    needs --question.
    """
    check_output(output)
    if output is not None and not as_json and output.suffix != ".html":
        raise UserError(f"{output}: a page is a file that ends in .html: choose another name, or add --json.")
    read_config(expand_user(model))  # so that a model that is not there is named before an image that is not
    if sees_images(model):
        found = image_inputs([text])
        if len(found) > 1:
            raise UserError(f"{text} has {len(found):,} images, but one is traced: name its file.")
        text = str(found[0])
    with messages.busy(f"loading {model}"):
        from heedful.explain.explanation import CLASS
        from heedful.explain.trace.attention import AttentionTrace, trace_attention
        from heedful.explain.trace.cells import CellTrace, trace_cell
        from heedful.explain.trace.display import attention_page, cell_page, show_attention, show_cell
        from heedful.tasks.loading import load

        loaded: Any = load(model, "cpu")
    check_options(loaded, question, target)
    explain = partial(explain_line, loaded, text, "the text", question=question, target=target)
    chosen = kind or _first_kind(loaded.network)
    name = Path(model).resolve().name
    traced: CellTrace | AttentionTrace
    if chosen == "cell":
        traced = cell = trace_cell(loaded.network, explain, layer - 1, direction)
        lines = partial(show_cell, cell, components)
        page = partial(cell_page, cell, name, text, components)
    else:
        traced = trace = trace_attention(loaded.network, explain, chosen, layer - 1, head - 1)
        count = len(trace.queries)
        if query is not None and query > count:
            raise UserError(
                f"There is no token {query}: `{trace.kind}` has {count} that attend here: choose --query from 1 to "
                f"{count}."
            )
        row = query - 1 if query is not None else 0 if trace.queries[0] == CLASS else count - 1
        lines = partial(show_attention, trace, row, components)
        page = partial(attention_page, trace, name, text, row, components)
    if as_json:
        write_result(traced.to_json(), output)
    elif output is not None:
        write_page(page(), output)
    else:
        write_result("\n".join(lines()))


def _first_kind(network: Any) -> Any:
    """Return the first kind of attention with heads that a network has; without any, its cell or its only attention."""
    from heedful.explain.capture import kind_of
    from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
    from heedful.nn.recurrent.attention import RecurrentAttention
    from heedful.nn.recurrent.stack import RecurrentStack

    found = [
        kind_of(name, one) for name, one in network.named_modules() if isinstance(one, SelfAttention | CrossAttention)
    ]
    first = next((kind for kind in KINDS if kind in found), None)
    if first is not None:
        return first
    cells = [name for name, one in network.named_modules() if isinstance(one, RecurrentStack)]
    attends = any(isinstance(one, RecurrentAttention) for one in network.modules())
    if attends and all(name.startswith("decoder.") for name in cells):
        return "cross"
    if not cells:
        raise UserError("This model has neither heads of attention nor recurrent cells: there is nothing to trace.")
    return "cell"
