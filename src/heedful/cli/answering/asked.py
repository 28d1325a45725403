"""Inputs in, answers out: the options that all verbs share whose model answers what it is given, and their way through.

A verb says how its model answers (`Answers`); its inputs are lines, images, or the rows of a file given by --data.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import typer

from heedful.base.errors import UserError, UserErrors, counted
from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.answering.batch_job import Answered, BatchJob, check_files, tell_parts
from heedful.cli.answering.formats import RowWriter, row_writer
from heedful.cli.answering.inputs import Inputs, Source, Split
from heedful.cli.answering.parts import Parts, Section, in_parts
from heedful.cli.answering.parts_folder import Shard
from heedful.cli.input import InputLines, image_inputs, open_inputs
from heedful.cli.options import InputsArgument, TextOption
from heedful.cli.output import line_progress, line_writer
from heedful.tasks.shared.answering.answers import Answers, Given, Outcome

Found = TypeVar("Found")
_ERRORS_SHOWN: Final = 10


class Run(Generic[Found]):
    """The way of inputs through a model, in order.

    With `tolerant`, an input that cannot be read or answered has an error instead of an answer; otherwise the first
    error ends the run, after the answers to all inputs before it.
    """

    def __init__(
        self, answers: Answers[Found], inputs: Iterable[Given], name: str, *, tolerant: bool, before: int = 0
    ) -> None:
        self._answers, self._inputs, self._name, self._tolerant = answers, iter(inputs), name, tolerant
        self._number = before  # of the last input that was read, among all of the command
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
                if error is self._unreadable or not self._waiting:
                    raise
                if not self._tolerant:
                    raise self._renumbered(error, self._waiting[0], answered + 1) from error
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
            given = next(self._inputs, None)
        except UserError as error:
            self._unreadable = error
            raise
        if given is not None:
            self._number += 1
            given.number = self._number
        return given

    def _skipped(self) -> Iterator[Outcome[Found]]:
        """Yield the inputs that the model is not asked about, up to the next one that it is."""
        while self._waiting and (self._waiting[0].skip or self._waiting[0].error):
            given = self._waiting.popleft()
            yield Outcome(given, error=given.error)

    def _refuse(self, error: UserError) -> None:
        self._refused = error

    def _located(self, error: UserError, given: Given, number: int) -> UserError:
        """Return an error with the place of its input."""
        text = str(self._renumbered(error, given, number))
        return UserError(text if not given.where or given.where in text else f"{given.where}: {text}")

    def _renumbered(self, error: UserError, given: Given, number: int) -> UserError:
        """Return an error with the place of its input where it names a line: a stream counts the items of one call."""
        told, text = f"{self._name}, line {number:,}", str(error)
        return UserError(text.replace(told, given.where)) if given.where and told in text else error


@dataclass(frozen=True)
class Answering(Inputs):
    """A model that answers inputs."""

    @cached_property
    def job(self) -> BatchJob | None:
        """The batch job of which this command is a worker."""
        if self.shard is None or self.output is None:
            return None
        return BatchJob(expand_user(self.output), Shard.parse(self.shard))

    @contextmanager
    def loading(self, sources: Sequence[Source] = ()) -> Iterator[tuple[str, str, str]]:
        """Say that the model is loaded; give what its class needs for that: folder, device and precision.

        A worker of a batch job of whose parts none is missing ends here, before torch is imported.
        """
        if self.ray is not None and self.output is not None:
            from heedful.cli.answering.on_ray import run_on_ray

            check_files(sources)
            refuse_failed(run_on_ray(self.ray, expand_user(self.output), self.device != "cpu"))
            raise typer.Exit
        if self.job is not None:
            form = None if self.data is None else self.row_format
            if not self.job.open(self.model, sources, form, self._find_place):
                tell_parts(self.job.folder, 0)
                refuse_failed(self.job.failed)
                raise typer.Exit
        with messages.busy(f"loading {self.model}"):
            yield self.model, self.device, self.precision

    def _find_place(self) -> dict[str, str]:
        """Return the device and the precision that the model gets."""
        from heedful.tasks.shared.loaded_model import Placement  # imports torch

        placement = Placement.of(self.device, self.precision)
        return {"device": placement.device.type, "precision": placement.resolve(self.recipe.decode.precision)}

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
        if self.job is not None:
            self._write_parts(self.job, doing, sources, answers, as_json)
            refuse_failed(self.job.failed)
            return
        with line_writer(self.output) as write:
            layouts = {id(source): self._layout(source, answers, as_json) for source in sources}
            for layout in layouts.values():
                if layout.header is not None:
                    write(layout.header)
            for source, outcome in self.each(doing, sources, answers, failed):
                laid_out = layouts[id(source)].row(outcome)
                if laid_out is not None:
                    write(laid_out)
        refuse_failed(failed)

    def each(
        self, doing: str, sources: Sequence[Source], answers: Answers[Found], failed: list[str]
    ) -> Iterator[tuple[Source, Outcome[Found]]]:
        """Yield the answers to inputs, as they come; add why some had none to `failed`."""
        with line_progress(doing, [source.count for source in sources], self.output) as progress:
            for section in in_parts(sources):
                for outcome in self._answer(section, answers, failed, progress):
                    yield section.source, outcome

    def _write_parts(
        self, job: BatchJob, doing: str, sources: Sequence[Source], answers: Answers[Found], as_json: bool
    ) -> None:
        """Write the parts of a batch job that are this worker's."""
        manifest = job.folder.manifest
        layouts = {id(source): self._layout(source, answers, as_json) for source in sources}
        headers = [layout.header for layout in layouts.values() if layout.header is not None]
        parts = Parts(sources, manifest.counts, manifest.size)

        def answer(part: int) -> Answered:
            lines, failed = [] if part else headers.copy(), list[str]()
            for section in parts.sections(part):
                row = layouts[id(section.source)].row
                found = map(row, self._answer(section, answers, failed, progress))
                lines += [line for line in found if line is not None]
            return Answered("".join(f"{line}\n" for line in lines).encode(), failed)

        with line_progress(doing, [lambda: sum(map(parts.count, job.missing))], self.output) as progress:
            job.work(answer)

    def _answer(
        self, section: Section, answers: Answers[Found], failed: list[str], progress: Callable[[int], None]
    ) -> Iterator[Outcome[Found]]:
        """Yield the answers to inputs that are answered together; add why some had none to `failed`."""
        source = section.source
        run = Run(answers, section.inputs, source.name, tolerant=source.tolerant, before=section.before)
        for outcome in run.outcomes(ready=source.ready, name=source.name, progress=progress):
            if outcome.error is not None:
                failed.append(str(outcome.error))
            yield outcome
            if "progress" not in answers.takes or not outcome.answered:
                progress(1)

    def _layout(self, source: Source, answers: Answers[Found], as_json: bool) -> "Layout[Found]":
        """Return how the answers to inputs are written."""
        if source.rows is not None:
            writer: RowWriter = row_writer(source.rows, answers, "jsonl" if as_json else self.row_format)
            return Layout(writer.header(), writer.row)

        def row(outcome: Outcome[Found]) -> str | None:
            given, found = outcome.given, cast("Found", outcome.found)
            if not outcome.answered:
                failed = as_json and outcome.error is not None and answers.blank is not None
                return _json({**answers.input_fields(given), "error": str(outcome.error)}) if failed else answers.blank
            if not as_json:
                return answers.line(found, given) or answers.blank
            return "\n".join(_json(answers.object(given, each)) for each in answers.each(found)) or answers.blank

        return Layout(None, row)


class Layout(NamedTuple, Generic[Found]):
    """How answers are written: what comes before all of them, and each; None where there is nothing to write."""

    header: str | None
    row: Callable[[Outcome[Found]], str | None]


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False)


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
