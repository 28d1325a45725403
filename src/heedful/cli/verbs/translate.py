"""`heedful translate MODEL [FILES...]`: one line out for every line in."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from heedful.base.columns import one_column, one_line
from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.answering import AnsweringTexts
from heedful.cli.input import InputLines
from heedful.cli.options import (
    RawOption,
    Searching,
    ToOption,
    WithOption,
    Wording,
    declared,
    json_option,
    n_best_option,
    option,
    with_option_groups,
)
from heedful.cli.output import Line
from heedful.config.decode import SearchOptions

if TYPE_CHECKING:
    from heedful.explain.explanation import Explanation
    from heedful.tasks.translate.model import Translation

_result = partial(option, rich_help_panel="Results")


@dataclass(frozen=True)
class ResultOptions:
    """What to write for each line: columns separated by tabs, or a JSON object."""

    n_best: Annotated[
        int | None, n_best_option("translations of each line, on lines with line number, score, text", "Results")
    ] = None
    alignments: Annotated[
        bool, _result("Add a column with the source word that each word attended to most: 0-0 1-2 ...", "--alignments")
    ] = False
    scores: Annotated[bool, _result("Write the score and a tab before each translation.", "--scores")] = False
    as_json: Annotated[bool, json_option("one object per line, with text, score, token ids and more", "Results")] = (
        False
    )
    attention: Annotated[
        bool,
        _result(
            "With --json: add the weights of every layer and head, and the probability of every token.", "--attention"
        ),
    ] = False

    def check(self) -> None:
        """Refuse options that would do nothing."""
        if self.as_json and self.scores:
            raise UserError("--json has the score in every object: leave out --scores.")
        if self.attention and not self.as_json:
            raise UserError("--attention adds to the objects of --json: add --json.")

    def line(self, number: int, found: "Sequence[Translation]", explained: "Explanation | None" = None) -> Line:
        """Lay out the translations of line `number`; the best one may be explained."""
        if not self.as_json:
            return "\n".join(self._columns(number, translation) for translation in found[: self.n_best or 1])
        objects = [asdict(translation) for translation in found]
        for each in objects:
            if each["alignment"] is None:
                del each["alignment"]
        return {
            **objects[0],
            **({"nbest": objects} if self.n_best else {}),
            **({"explanation": explained and explained.to_json()} if self.attention else {}),
        }

    def _columns(self, number: int, translation: "Translation") -> str:
        text = one_column if self.n_best or self.scores or self.alignments else one_line
        columns = [str(number)] if self.n_best else []
        columns += [f"{translation.score:.4f}"] if self.scores or self.n_best else []
        columns += [text(translation.text)]
        if self.alignments:
            columns += [translation.alignment.pharaoh() if translation.alignment else ""]
        return "\t".join(columns)


@with_option_groups
def command(
    asked: AnsweringTexts,
    others: WithOption = None,
    to: ToOption = None,
    raw: RawOption = False,
    prefix: Annotated[str | None, declared(SearchOptions, "prefix", metavar="TEXT")] = None,
    *,
    results: ResultOptions,
    search: Searching,
    words: Wording,
) -> None:
    """Translate files, texts or standard input, line by line and in order. A blank line stays blank.

    Results are written as they become available: a line that is typed is answered before the next one is read.
    """
    options = search.options(results.n_best)
    results.check()
    options |= words.options()
    read = deque[str]()  # lines whose translations are yet to come

    def remembered(entry: InputLines) -> Iterator[str]:
        for line in entry.lines():
            read.append(line)
            yield line

    entries = [replace(entry, lines=partial(remembered, entry)) for entry in asked.open()]
    with asked.loading() as place:
        from heedful.tasks.translate.model import Translator  # after the quick checks: importing torch takes seconds

        translator = Translator.load(*place, others or ())
    total, cut = 0, 0

    def line(found: "Sequence[Translation]") -> Line:
        nonlocal total, cut
        total += 1
        cut += not found[0].complete
        source = read.popleft()
        if not (results.attention and source.strip()):
            return results.line(total, found)
        return results.line(total, found, translator.explain_found(source, found[0], to=to, raw=raw))

    stream = partial(
        translator.stream_detailed,
        to=to,
        raw=raw,
        prefix=prefix,
        aligned=results.alignments,
        **options,
    )
    asked.write("translating", entries, stream, line, counts=True)
    if cut:
        messages.warn(
            f"{cut:,} of {total:,} translations were cut at the maximum length: raise --max-extra to see more of them."
        )
