"""`heedful translate MODEL [FILES...]`: one line out for every line in."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from heedful.base.columns import one_column, one_line
from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.answering.asked import AnsweringTexts
from heedful.cli.options import (
    RawOption,
    Searching,
    ShortlistOption,
    ToOption,
    WithOption,
    Wording,
    declared,
    json_option,
    n_best_option,
    option,
    with_option_groups,
)
from heedful.config.decode import SearchOptions
from heedful.tasks.shared.answering.answers import Answers

if TYPE_CHECKING:
    from heedful.tasks.translate.model import Translation, Translator

    Found = tuple[str, Sequence[Translation]]

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

    def fields(self, found: "Sequence[Translation]") -> dict[str, object]:
        """Return the translations of a text as fields of a JSON object."""
        objects = [asdict(translation) for translation in found]
        for each in objects:
            if each["alignment"] is None:
                del each["alignment"]
        best = objects[0]
        return {"translation": best["text"], **best, **({"nbest": objects} if self.n_best else {})}

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields that tables have."""
        more = {"score": self.scores, "alignment": self.alignments}
        return ("translation", *(name for name, asked in more.items() if asked))

    def line(self, number: int, found: "Sequence[Translation]") -> str:
        """Lay out the translations of line `number`."""
        return "\n".join(self._columns(number, translation) for translation in found[: self.n_best or 1])

    def _columns(self, number: int, translation: "Translation") -> str:
        text = one_column if self.n_best or self.scores or self.alignments else one_line
        columns = [str(number)] if self.n_best else []
        columns += [f"{translation.score:.4f}"] if self.scores or self.n_best else []
        columns += [text(translation.text)]
        if self.alignments:
            columns += [_pairs(translation)]
        return "\t".join(columns)


@with_option_groups
def command(
    asked: AnsweringTexts,
    others: WithOption = None,
    to: ToOption = None,
    raw: RawOption = False,
    prefix: Annotated[str | None, declared(SearchOptions, "prefix", metavar="TEXT")] = None,
    shortlist: ShortlistOption = False,
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
    asked.check_task("translate")
    sources = asked.sources(results.as_json, several=bool(results.n_best))
    with asked.loading(sources) as place:
        from heedful.tasks.translate.model import Translator  # after the quick checks: importing torch takes seconds

        translator = Translator.load(*place, others or (), adapter=asked.adapter)
    how = {"to": to, "raw": raw, "prefix": prefix, "shortlist": shortlist, "aligned": results.alignments, **options}
    answers = _Translating(translator, results, how)
    asked.write("translating", sources, answers.answers(), as_json=results.as_json)
    if answers.cut:
        messages.warn(
            f"{answers.cut:,} of {answers.total:,} translations were cut at the maximum length: raise --max-extra to "
            "see more of them."
        )


class _Translating:
    """Translates as one command asks: `total` counts translations, and `cut` those that are too long."""

    def __init__(self, translator: "Translator", results: ResultOptions, options: Mapping[str, Any]) -> None:
        self._translator, self._results, self._options = translator, results, options
        self.total, self.cut = 0, 0

    def answers(self) -> "Answers[Found]":
        """Return how the translator answers."""
        return Answers(
            ("source",),
            lambda values, where: values["source"],
            self._stream,
            self._fields,
            self._results.columns,
            lambda found, given: self._results.line(given.number, found[1]),
            takes=("ready", "name", "progress"),
            shown=lambda found: {"alignment": _pairs(found[1][0])},
            formerly={"text": "translation"},
        )

    def _stream(self, sources: Iterable[str], **told: Any) -> "Iterator[Found]":
        """Yield each source with its translations."""
        read = deque[str]()  # sources whose translations are yet to come

        def remembered() -> Iterator[str]:
            for source in sources:
                read.append(source)
                yield source

        for found in self._translator.stream_detailed(remembered(), **told, **self._options):
            self.total += 1
            self.cut += not found[0].complete
            yield read.popleft(), found

    def _fields(self, found: "Found") -> dict[str, object]:
        source, translations = found
        fields = self._results.fields(translations)
        if not self._results.attention:
            return fields
        to, raw = self._options["to"], self._options["raw"]
        explained = self._translator.explain_found(source, translations[0], to=to, raw=raw) if source.strip() else None
        return {**fields, "explanation": explained and explained.to_json()}


def _pairs(translation: "Translation") -> str:
    return translation.alignment.pharaoh() if translation.alignment else ""
