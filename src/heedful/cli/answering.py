"""Inputs in, answers out: the options that all verbs share whose model answers what it is given, and their way through.

A verb opens its inputs, loads its model, and says how an answer is laid out: as columns, or as a JSON object.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TypeVar

from heedful.cli import messages
from heedful.cli.input import InputLines, open_inputs
from heedful.cli.options import DeviceOption, InputsArgument, ModelArgument, OutputOption, PrecisionOption, TextOption
from heedful.cli.output import Line, check_output, line_progress, line_writer

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Answering:
    """A model that answers, and the file of its answers, which is checked before anything long begins."""

    model: ModelArgument
    _: KW_ONLY
    output: OutputOption = None
    device: DeviceOption = "auto"
    precision: PrecisionOption = "auto"

    def __post_init__(self) -> None:
        check_output(self.output)

    @contextmanager
    def loading(self) -> Iterator[tuple[str, str, str]]:
        """Say that the model is loaded; give what its class needs for that: folder, device and precision."""
        with messages.busy(f"loading {self.model}"):
            yield self.model, self.device, self.precision

    def write(
        self,
        doing: str,
        entries: Sequence[InputLines],
        stream: Callable[..., Iterable[Answer]],
        line: Callable[[Answer], Line],
        *,
        paired: bool | None = None,
        counts: bool = False,
    ) -> None:
        """Write what a stream answers to the lines of inputs, as it comes, an answer per line.

        `paired` says of models that read texts or pairs which they read; `counts`, whether the stream reports progress.
        """
        with line_writer(self.output) as write, line_progress(doing, entries, self.output) as progress:
            told = {"progress": progress} if counts else {}
            for entry in entries:
                read = entry.lines() if paired is None else entry.texts(paired)
                for found in stream(read, ready=entry.ready, name=entry.name, **told):
                    write(line(found))
                    progress(not counts)

    def write_images(
        self,
        doing: str,
        images: Sequence[Path],
        stream: Callable[..., Iterable[Answer]],
        line: Callable[[Answer, str], Line],
        *,
        as_json: bool,
        counts: bool = False,
    ) -> list[str]:
        """Write what a stream answers to images; return why some could not be read: their lines are blank, or errors.

        `line` gets an answer and the path of its image; `counts` says whether the stream reports progress.
        """
        unread: list[str] = []
        with line_writer(self.output) as write, line_progress(doing, images, self.output) as progress:
            told = {"progress": progress} if counts else {}
            answers = stream(images, refused=lambda error: unread.append(str(error)), **told)
            known = 0
            for path, found in zip(images, answers, strict=True):
                if len(unread) == known:
                    write(line(found, str(path)))
                else:
                    known += 1
                    unread[-1] = unread[-1] if str(path) in unread[-1] else f"{path}: {unread[-1]}"
                    write({"image": str(path), "error": unread[-1]} if as_json else "")
                progress(not counts)
        return unread


@dataclass(frozen=True)
class AnsweringTexts(Answering):
    """A model that answers texts, or images."""

    inputs: InputsArgument = None
    text: TextOption = None

    def open(self, on_each_line: str = "one text per line") -> list[InputLines]:
        """Open the texts that the command line names; `on_each_line` tells who types what to type."""
        return open_inputs(self.inputs, self.text, on_each_line)
