"""`heedful parse MODEL [FILE|TEXT...]`: the constituency tree of every sentence."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.base.errors import UserError
from heedful.base.trees import UNTAGGED, Leaf, Tree, read_tree
from heedful.cli import messages
from heedful.cli.input import InputLines, open_inputs
from heedful.cli.options import (
    DecodingOptions,
    DeviceOption,
    InputsArgument,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    SampleOption,
    SamplingOptions,
    TextOption,
    WithOption,
    declared,
    sampling_of,
    with_option_groups,
)
from heedful.cli.output import check_output, line_progress, line_writer
from heedful.data.corpora.trees import tree_of_line
from heedful.tasks.parse.parse import ParseOptions

if TYPE_CHECKING:
    from heedful.tasks.parse.model import Parse


@with_option_groups
def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    others: WithOption = None,
    nbest: Annotated[
        int | None,
        typer.Option(
            "--n-best",
            "-n",
            metavar="N",
            min=1,
            help="Write N trees of each sentence, best first, one per line: line number, score, tree.",
        ),
    ] = None,
    trees: Annotated[
        bool, typer.Option("--trees", help="Read trees, one per line, and parse their words, without traces.")
    ] = False,
    unconstrained: Annotated[bool, declared(ParseOptions, "unconstrained")] = False,
    pretty: Annotated[bool, typer.Option("--pretty", help="Draw the trees.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per sentence: words, tree, log probability, score.")
    ] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    *,
    decoding: DecodingOptions,
    sample: SampleOption = False,
    sampling: SamplingOptions,
) -> None:
    """Parse sentences into constituency trees, one sentence per line, words separated by spaces.

    Every tree is over exactly the words of its sentence. Words have the tag XX, unless the model writes tags
    (`leaves = "tag"` in its recipe); round brackets are written -LRB- and -RRB-. A blank line stays blank. With --trees
    the lines are trees already, whose words are parsed.
    """
    check_output(output)
    if pretty and as_json:
        raise UserError("--pretty draws trees and --json writes objects: choose one.")
    samples, decoding = sampling_of(sample, sampling, decoding, nbest)
    on_each_line = "one tree per line" if trees else "one sentence per line, words separated by spaces"
    read = _words_of_trees if trees else _with_warning
    entries = [read(entry) for entry in open_inputs(inputs, text, on_each_line)]
    with messages.busy(f"loading {model}"):
        from heedful.tasks.parse.model import Parser  # after the quick checks: importing torch takes seconds

        parser = Parser.load(model, device, precision, others or ())
    number = 0
    with line_writer(output) as write, line_progress("parsing", entries, output) as progress:
        for entry in entries:
            for parses in parser.stream_detailed(
                entry.lines(),
                nbest=1 if samples else nbest or 1,
                ready=entry.ready,
                name=entry.name,
                sampling=samples,
                unconstrained=unconstrained,
                **decoding,
            ):
                number += 1
                if as_json:
                    write(_object(parses, nbest))
                else:
                    for parse in parses:
                        columns = f"{number}\t{parse.score:.4f}" if nbest else ""
                        write(_drawn(parse, columns) if pretty else _line(parse, columns))
                progress(1)


def _words_of_trees(entry: InputLines) -> InputLines:
    """Return the words of trees as sentences; a blank line stays blank."""

    def lines() -> Iterator[str]:
        for number, line in enumerate(entry.lines(), start=1):
            tree = tree_of_line(line, f"{entry.name}, line {number:,}")
            yield "" if tree is None else " ".join(tree.words)

    return replace(entry, lines=lines)


def _with_warning(entry: InputLines) -> InputLines:
    """Return the same lines; the first that is a tree is mentioned, as its brackets are taken for words."""

    def lines() -> Iterator[str]:
        warned = False
        for number, line in enumerate(entry.lines(), start=1):
            if not warned and _is_tree(line):
                warned = True
                messages.warn(
                    f"{entry.name}, line {number:,} is a tree, whose brackets are taken for words: add --trees to "
                    "parse the words of trees."
                )
            yield line

    return replace(entry, lines=lines)


def _is_tree(line: str) -> bool:
    if not line.lstrip().startswith("("):
        return False
    try:
        read_tree(line, "")
    except UserError:
        return False
    return True


def _line(parse: "Parse", columns: str) -> str:
    """Write a tree, after the columns of an n-best list."""
    tree = "" if parse.tree is None else str(parse.tree)
    return f"{columns}\t{tree}" if columns else tree


def _drawn(parse: "Parse", columns: str) -> str:
    """Draw a tree, below the columns of an n-best list."""
    tree = "" if parse.tree is None else f"{draw(parse.tree)}\n"
    return f"{columns}\n{tree}" if columns else tree


def _object(parses: "Sequence[Parse]", nbest: int | None) -> str:
    more = {"nbest": [_fields(parse) for parse in parses]} if nbest else {}
    return json.dumps({"words": parses[0].words, **_fields(parses[0]), **more}, ensure_ascii=False)


def _fields(parse: "Parse") -> dict[str, object]:
    tree = None if parse.tree is None else str(parse.tree)
    return {"tree": tree, "log_probability": parse.log_probability, "score": parse.score}


# --- drawings ---------------------------------------------------------------------------------------------------------


def draw(tree: Tree) -> str:
    """Return the drawing of a tree: one line per constituent and word."""
    return "\n".join(_lines(tree, "", ""))


def _lines(node: Tree | Leaf, first: str, rest: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"{first}{node.word}" if node.tag == UNTAGGED else f"{first}{node.tag} {node.word}"
        return
    yield f"{first}{node.label}"
    for child in node.children[:-1]:
        yield from _lines(child, f"{rest}├─ ", f"{rest}│  ")
    yield from _lines(node.children[-1], f"{rest}└─ ", f"{rest}   ")
