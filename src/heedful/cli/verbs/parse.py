"""`heedful parse MODEL [FILE|TEXT...]`: the constituency tree of every sentence."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from heedful.base.errors import UserError
from heedful.base.trees import read_tree
from heedful.cli import messages
from heedful.cli.answering.asked import AnsweringTexts
from heedful.cli.input import InputLines
from heedful.cli.options import Searching, WithOption, declared, json_option, n_best_option, option, with_option_groups
from heedful.data.corpora.formats.lines import Passed
from heedful.data.corpora.trees import trees_of_lines
from heedful.tasks.parse.answers import answers_of
from heedful.tasks.parse.parse import ParseOptions

if TYPE_CHECKING:
    pass


@with_option_groups
def command(
    asked: AnsweringTexts,
    others: WithOption = None,
    nbest: Annotated[
        int | None, n_best_option("trees of each sentence, on lines with line number, score, tree")
    ] = None,
    trees: Annotated[bool, option("Read bracketed trees, and parse their words, without traces.", "--trees")] = False,
    unconstrained: Annotated[bool, declared(ParseOptions, "unconstrained")] = False,
    pretty: Annotated[bool, option("Draw the trees.", "--pretty")] = False,
    as_json: Annotated[bool, json_option("one object per sentence, with words, tree, log probability, score")] = False,
    *,
    search: Searching,
) -> None:
    """Parse sentences into constituency trees, one sentence per line, words separated by spaces.

    Every tree is over exactly the words of its sentence. Words have the tag XX, unless the model writes tags
    (`leaves = "tag"` in its recipe); round brackets are written -LRB- and -RRB-. A blank line stays blank. With --trees
    the input is trees already, each on one line or on several, whose words are parsed.
    """
    if pretty and as_json:
        raise UserError("--pretty draws trees and --json writes objects: choose one.")
    options = search.options(nbest)
    on_each_line = "one tree per line" if trees else "one sentence per line, words separated by spaces"
    asked.check_task("parse")
    sources = asked.sources(
        as_json,
        on_each_line=on_each_line,
        change=partial(_change, trees),
        plain=("trees",) if trees else (),
        others={"--trees": trees, "--pretty": pretty},
        several=bool(nbest),
    )
    with asked.loading(sources) as place:
        from heedful.tasks.parse.model import Parser  # after the quick checks: importing torch takes seconds

        parser = Parser.load(*place, others or (), adapter=asked.adapter)
    answers = answers_of(parser, n_best=nbest, pretty=pretty, unconstrained=unconstrained, **options)
    asked.write("parsing", sources, answers, as_json=as_json)


def _change(trees: bool, entry: InputLines) -> InputLines:
    """Return an input whose lines are sentences."""
    sentences = replace(entry, lines=partial(_sentences, entry, trees))
    return replace(sentences, count=lambda: None) if trees else sentences  # a tree may extend over several lines


def _sentences(entry: InputLines, trees: bool, passed: Passed | None = None, /) -> Iterator[str]:
    """Yield the lines of an input, or with `trees` the words of its trees; a blank line stays blank.

    Without it, the first line that is a tree is mentioned, as its brackets are taken for words.
    """
    if trees:
        for _, tree in (passed or Passed()).over(trees_of_lines(entry.lines(), entry.name)):
            yield "" if tree is None else " ".join(tree.words)
        return
    warned = False
    for line, where in entry.located(passed):
        if not warned and _is_tree(line):
            warned = True
            messages.warn(
                f"{where} is a tree, whose brackets are taken for words: add --trees to parse the words of trees."
            )
        yield line


def _is_tree(line: str) -> bool:
    if not line.lstrip().startswith("("):
        return False
    try:
        read_tree(line, "")
    except UserError:
        return False
    return True
