"""Inputs in, answers out: the options that all verbs share whose model answers what it is given, and their way through.

A verb says how its model answers (`Answers`); its inputs are lines, images, or the rows of a file given by --data.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

from heedful.base.errors import UserError, UserErrors, counted
from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.answer_formats import RowWriter, row_writer
from heedful.cli.answers import Answers, Given, Outcome
from heedful.cli.given_rows import Format, GivenRows, open_rows
from heedful.cli.input import InputLines, image_inputs, open_inputs
from heedful.cli.options import (
    DeviceOption,
    InputsArgument,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    TextOption,
    option,
)
from heedful.cli.output import Line, check_output, line_progress, line_writer
from heedful.config.recipe import Recipe

Found = TypeVar("Found")
Split = Callable[[str, str], Mapping[str, Any]]  # from a line and its place to values by role
_ERRORS_SHOWN: Final = 10
_FORMATS: Final[Mapping[str, Format]] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}

DataOption = Annotated[
    str | None,
    option(
        "A table, JSON lines, CoNLL, SQuAD, trees or a folder of images, with the columns of the recipe.",
        "--data",
        metavar="FILE",
        rich_help_panel="Whole files",
    ),
]
DataSetOption = Annotated[
    list[str] | None,
    option(
        "Set a key of the recipe, of how --data is read: data.text=review; repeatable.",
        "--set",
        metavar="A.B=C",
        rich_help_panel="Whole files",
    ),
]
FormatOption = Annotated[
    Format | None,
    option(
        "With --data: format of rows and answers (default: by the name of --output, or that of the file).",
        "--format",
        rich_help_panel="Whole files",
    ),
]


class Run(Generic[Found]):
    """The way of inputs through a model, in order.

    With `tolerant`, an input that cannot be read or answered has an error instead of an answer; otherwise the first
    error ends the run, after the answers to all inputs before it.
    """

    def __init__(self, answers: Answers[Found], inputs: Iterable[Given], name: str, *, tolerant: bool) -> None:
        self._answers, self._inputs, self._name, self._tolerant = answers, iter(inputs), name, tolerant
        self._again = deque[Given]()  # inputs that were read before a refused one, and not answered
        self._waiting = deque[Given]()  # inputs whose answers are yet to come
        self._unreadable: UserError | None = None  # what ended the inputs themselves
        self._refused: UserError | None = None

    def outcomes(self, **options: Any) -> Iterator[Outcome[Found]]:
        """Yield each input with its answer; `options` are keyword arguments of the stream, as far as it takes them."""
        taken = {name: value for name, value in options.items() if name in self._answers.takes}
        if self._tolerant and "refused" in self._answers.takes:
            taken["refused"] = self._refuse
        ended = False
        while not ended:
            answered = 0
            try:
                for found in self._answers.stream(self._contents(), **taken):
                    yield from self._skipped()
                    given, error = self._waiting.popleft(), self._refused
                    self._refused, answered = None, answered + 1
                    located = error and self._located(error, given, answered)
                    yield Outcome(given, found, located, answered=error is None)
                ended = True
            except UserError as error:
                yield from self._skipped()
                if not self._tolerant or error is self._unreadable or not self._waiting:
                    raise
                given = self._waiting.popleft()
                yield Outcome(given, error=self._located(error, given, answered + 1))
                self._again.extendleft(reversed(self._waiting))
                self._waiting.clear()
        yield from self._skipped()

    def _contents(self) -> Iterator[Any]:
        """Yield what the model reads of each input that it is asked about."""
        while True:
            given = self._again.popleft() if self._again else self._next()
            if given is None:
                return
            if not (given.skip or given.error):
                try:
                    content = self._answers.read(given.values, given.where)
                except UserError as error:
                    if not self._tolerant:
                        self._unreadable = error
                        raise
                    given = replace(given, error=error)
                else:
                    self._waiting.append(given)
                    yield content
                    continue
            self._waiting.append(given)

    def _next(self) -> Given | None:
        try:
            return next(self._inputs, None)
        except UserError as error:
            self._unreadable = error
            raise

    def _skipped(self) -> Iterator[Outcome[Found]]:
        """Yield the inputs that the model is not asked about, up to the next one that it is."""
        while self._waiting and (self._waiting[0].skip or self._waiting[0].error):
            given = self._waiting.popleft()
            yield Outcome(given, error=given.error)

    def _refuse(self, error: UserError) -> None:
        self._refused = error

    def _located(self, error: UserError, given: Given, number: int) -> UserError:
        """Return an error with the place of its input: a stream counts the items of one call."""
        text = str(error).replace(f"{self._name}, line {number:,}", given.where)
        return UserError(text if not given.where or given.where in text else f"{given.where}: {text}")


@dataclass(frozen=True)
class Source:
    """Inputs from one place, and how their answers are written."""

    name: str
    inputs: Callable[[], Iterable[Given]]
    ready: Callable[[], bool] = lambda: True
    count: Callable[[], int | None] = lambda: None  # of its inputs, if it can be known before they are read
    tolerant: bool = False  # whether an input that cannot be answered is left out, and the others are answered
    rows: GivenRows | None = None


@dataclass(frozen=True)
class Answering:
    """A model that answers, and the file of its answers, which is checked before anything long begins."""

    model: ModelArgument
    _: KW_ONLY
    output: OutputOption = None
    data: DataOption = None
    settings: DataSetOption = None
    format: FormatOption = None
    device: DeviceOption = "auto"
    precision: PrecisionOption = "auto"

    def __post_init__(self) -> None:
        check_output(self.output)
        check_needs_data(self.data, {"--set": self.settings, "--format": self.format})

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the model, read without torch."""
        from heedful.config.reading.bundle_config import read_recipe

        return read_recipe(expand_user(self.model))

    @property
    def row_format(self) -> Format | None:
        """The format of rows and answers: that of --format, or of the name of --output; None for that of the file."""
        suffix = "" if self.output is None else self.output.suffix.lower()
        return self.format or _FORMATS.get(suffix)

    def check_task(self, *verbs: str) -> None:
        """Refuse a model that other verbs use, before its inputs are read."""
        if self.recipe.rules.verb not in verbs:
            from heedful.config.reading.bundle_config import other_task

            raise other_task(Path(self.model), self.recipe)

    @contextmanager
    def loading(self) -> Iterator[tuple[str, str, str]]:
        """Say that the model is loaded; give what its class needs for that: folder, device and precision."""
        with messages.busy(f"loading {self.model}"):
            yield self.model, self.device, self.precision

    # --- sources ------------------------------------------------------------------------------------------------------

    def data_source(
        self, roles: Sequence[str], as_json: bool, others: Mapping[str, object], several: bool = False
    ) -> Source | None:
        """Open the file of --data for a model that answers these roles; `others` are options that exclude it.

        `several` says whether --n-best asks for several answers, which only JSON lines have a place for.
        """
        if self.data is None:
            return None
        given = next((name for name, value in others.items() if value), None)
        if given is not None:
            raise UserError(f"--data {self.data} has what is to be answered: leave out {given}.")
        if self.data == "-":
            raise UserError("--data is read more than once, which standard input cannot be: name a file.")
        if as_json and self.format not in (None, "jsonl"):
            raise UserError(f"--json and --format {self.format} contradict each other: leave one out.")
        from heedful.data.corpora.given_file import given_corpus

        rules = self.recipe.rules
        roles = [role for role in roles if role != "second" or self.recipe.data.paired]
        rows = open_rows(given_corpus(self.recipe, self.data, self.settings or (), answered=roles), roles, rules.words)
        if several and not as_json and (self.row_format or rows.format) != "jsonl":
            raise UserError(
                "--n-best gives several answers to a row, which a table has no place for: add --format jsonl, whose "
                "field `nbest` has them."
            )
        return Source(rows.name, rows.rows, count=lambda: sum(1 for _ in rows.rows()), tolerant=True, rows=rows)

    def lines(self, entries: Sequence[InputLines], split: Split, *, tolerant: bool = False) -> list[Source]:
        """Return lines as inputs; JSON results have the number of the line, and its file if there are several."""

        def inputs(entry: InputLines) -> Iterator[Given]:
            file = {"file": entry.name} if len(entries) > 1 else {}
            for number, line in enumerate(entry.lines(), start=1):
                where = f"{entry.name}, line {number:,}"
                values = split(line, where)
                yield Given(values, where, {**file, "line": number}, skip=not values)

        return [Source(entry.name, partial(inputs, entry), entry.ready, entry.count, tolerant) for entry in entries]

    def images(self, paths: Sequence[Path]) -> list[Source]:
        """Return images as inputs."""

        def inputs() -> Iterator[Given]:
            return (Given({"image": path}, str(path)) for path in paths)

        return [Source("images", inputs, count=lambda: len(paths), tolerant=True)]

    # --- answers ------------------------------------------------------------------------------------------------------

    def write(
        self,
        doing: str,
        sources: Sequence[Source],
        answers: Answers[Found],
        *,
        as_json: bool = False,
    ) -> None:
        """Write the answers to inputs, as they come; fail at the end if some had none, with one line for each."""
        failed: list[str] = []
        with line_writer(self.output) as write:
            layouts = {id(source): self._layout(source, answers, as_json, write) for source in sources}
            for source, outcome in self.each(doing, sources, answers, failed):
                laid_out = layouts[id(source)](outcome)
                if laid_out is not None:
                    write(laid_out)
        refuse_failed(failed)

    def each(
        self, doing: str, sources: Sequence[Source], answers: Answers[Found], failed: list[str]
    ) -> Iterator[tuple[Source, Outcome[Found]]]:
        """Yield the answers to inputs, as they come; add why some had none to `failed`."""
        with line_progress(doing, [source.count for source in sources], self.output) as progress:
            for source in sources:
                run = Run(answers, source.inputs(), source.name, tolerant=source.tolerant)
                for outcome in run.outcomes(ready=source.ready, name=source.name, progress=progress):
                    if outcome.error is not None:
                        failed.append(str(outcome.error))
                    yield source, outcome
                    if "progress" not in answers.takes or not outcome.answered:
                        progress(1)

    def _layout(
        self, source: Source, answers: Answers[Found], as_json: bool, write: Callable[[Line], None]
    ) -> Callable[[Outcome[Found]], Line | None]:
        """Return how an answer is written, and write what comes before all of them."""
        if source.rows is not None:
            writer: RowWriter = row_writer(source.rows, answers, "jsonl" if as_json else self.row_format)
            header = writer.header()
            if header is not None:
                write(header)
            return writer.row

        def line(outcome: Outcome[Found]) -> Line:
            if not outcome.answered:
                if outcome.error is None or not as_json:
                    return ""
                return {**answers.input_fields(outcome.given), "error": str(outcome.error)}
            found: Any = outcome.found
            return answers.object(outcome.given, found) if as_json else answers.line(found, outcome.given)

        return line


def check_needs_data(data: str | None, options: Mapping[str, object]) -> None:
    """Refuse options that say how --data is read or written, where it is not given."""
    idle = next((flag for flag, value in options.items() if value and data is None), None)
    if idle is not None:
        raise UserError(f"{idle} applies to the rows of a file: name it by --data, or leave {idle} out.")


def refuse_failed(failed: Sequence[str]) -> None:
    """Fail with one line for each input that could not be answered, after all others have been."""
    if failed:
        more = len(failed) - _ERRORS_SHOWN
        others = [f"... and {counted(more, 'more input')} without an answer."] if more > 0 else []
        raise UserErrors([*failed[:_ERRORS_SHOWN], *others])


@dataclass(frozen=True)
class AnsweringTexts(Answering):
    """A model that answers texts, or images."""

    inputs: InputsArgument = None
    text: TextOption = None

    def sources(
        self,
        as_json: bool,
        *,
        roles: Sequence[str] = (),
        others: Mapping[str, object] | None = None,
        several: bool = False,
        split: Split | None = None,
        on_each_line: str = "one text per line",
        plain: Sequence[str] = (),
        change: Callable[[InputLines], InputLines] = lambda entry: entry,
    ) -> list[Source]:
        """Open what the command line names: the rows of --data, images for a model of images, or lines of text.

        `roles` are those of an input, by default of the model's task. `split` makes values of a line, `on_each_line`
        tells who types what to type, and `plain` are kinds of files that are lines of text here. `others` and `several`
        are those of `data_source`.
        """
        rules, paired = self.recipe.rules, self.recipe.data.paired
        roles = roles or rules.inputs
        texts = {"other files and texts": (self.inputs or []) + (self.text or [])}
        data = self.data_source(roles, as_json, {**texts, **(others or {})}, several)
        if data is not None:
            return [data]
        if tuple(roles) == ("image",):
            return self.images(image_inputs(self.inputs, self.text))
        both = paired and "second" in roles
        tables = ("tsv", *plain) if both else plain
        entries = [change(entry) for entry in open_inputs(self.inputs, self.text, on_each_line, tables)]
        return self.lines(entries, split or partial(_values_of_line, roles[0], both))


def _values_of_line(role: str, paired: bool, line: str, where: str) -> dict[str, Any]:
    """Return the text of a line, or both texts of a pair, which a tab separates."""
    if not paired:
        return {role: line}
    from heedful.data.corpora.texts import text_of_line  # which takes a moment to import

    text = text_of_line(line, paired, where)
    return {"text": text.text} if text.second is None else {"text": text.text, "second": text.second}
