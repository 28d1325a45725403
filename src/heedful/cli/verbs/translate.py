"""`heedful translate MODEL [FILES...]`: one line out for every line in."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from heedful.base.columns import one_column, one_line
from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.input import open_inputs
from heedful.cli.options import (
    DecodingOptions,
    DeviceOption,
    InputsArgument,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    RawOption,
    SampleOption,
    SamplingOptions,
    TermsOption,
    TextOption,
    ToOption,
    WithOption,
    WordOptions,
    declared,
    sampling_of,
    with_option_groups,
    words_of,
)
from heedful.cli.output import check_output, line_progress, line_writer
from heedful.config.decode import SearchOptions

if TYPE_CHECKING:
    from heedful.explain.explanation import Explanation
    from heedful.tasks.translate.model import Translation

_RESULTS: Final = "Results"


@dataclass(frozen=True)
class ResultOptions:
    """What to write for each line: columns separated by tabs, or a JSON object."""

    n_best: Annotated[
        int | None,
        typer.Option(
            "--n-best",
            metavar="N",
            min=1,
            help="Write N translations of each line, one per line: line number, score, text.",
            rich_help_panel=_RESULTS,
        ),
    ] = None
    alignments: Annotated[
        bool,
        typer.Option(
            "--alignments",
            help="Add a column with the source word that each word attended to most: 0-0 1-2 ...",
            rich_help_panel=_RESULTS,
        ),
    ] = False
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Write the score and a tab before each translation.", rich_help_panel=_RESULTS),
    ] = False
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Write one JSON object per line: text, score, token ids and more.",
            rich_help_panel=_RESULTS,
        ),
    ] = False

    attention: Annotated[
        bool,
        typer.Option(
            "--attention",
            help="With --json: add the weights of every layer and head, and the probability of every token.",
            rich_help_panel=_RESULTS,
        ),
    ] = False

    def check(self) -> None:
        """Refuse options that would do nothing."""
        if self.as_json and self.scores:
            raise UserError("--json has the score in every object: leave out --scores.")
        if self.attention and not self.as_json:
            raise UserError("--attention adds to the objects of --json: add --json.")

    def lines(self, number: int, found: "Sequence[Translation]", explained: "Explanation | None" = None) -> str:
        """Lay out the translations of line `number`; the best one may be explained."""
        if self.as_json:
            return self._object(found, explained)
        return "\n".join(self._columns(number, translation) for translation in found[: self.n_best or 1])

    def _columns(self, number: int, translation: "Translation") -> str:
        text = one_column if self.n_best or self.scores or self.alignments else one_line
        columns = [str(number)] if self.n_best else []
        columns += [f"{translation.score:.4f}"] if self.scores or self.n_best else []
        columns += [text(translation.text)]
        if self.alignments:
            columns += [translation.alignment.pharaoh() if translation.alignment else ""]
        return "\t".join(columns)

    def _object(self, found: "Sequence[Translation]", explained: "Explanation | None") -> str:
        best = _fields(found[0])
        if self.n_best:
            best["nbest"] = [_fields(translation) for translation in found]
        if self.attention:
            best["explanation"] = None if explained is None else explained.to_json()
        return json.dumps(best, ensure_ascii=False)


def _fields(translation: "Translation") -> dict[str, object]:
    fields = asdict(translation)
    if fields["alignment"] is None:
        del fields["alignment"]
    return fields


def _remember(lines: Iterable[str], read: deque[str]) -> Iterator[str]:
    for line in lines:
        read.append(line)
        yield line


@with_option_groups
def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    others: WithOption = None,
    to: ToOption = None,
    raw: RawOption = False,
    prefix: Annotated[str | None, declared(SearchOptions, "prefix", metavar="TEXT")] = None,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    *,
    results: ResultOptions,
    decoding: DecodingOptions,
    sample: SampleOption = False,
    sampling: SamplingOptions,
    terms: TermsOption = None,
    words: WordOptions,
) -> None:
    """Translate files, texts or standard input, line by line and in order. A blank line stays blank.

    Results are written as they become available: a line that is typed is answered before the next one is read.
    """
    check_output(output)
    samples, decoding = sampling_of(sample, sampling, decoding, results.n_best)
    results.check()
    words = words_of(terms, words)
    entries = open_inputs(inputs, text)
    with messages.busy(f"loading {model}"):
        from heedful.tasks.translate.explaining import explain_found
        from heedful.tasks.translate.model import Translator  # after the quick checks: importing torch takes seconds

        translator = Translator.load(model, device, precision, others or ())
    total, cut = 0, 0
    with line_writer(output) as write, line_progress("translating", entries, output) as progress:
        for entry in entries:
            read: deque[str] = deque()  # lines whose translations are yet to come
            lines = _remember(entry.lines(), read) if results.attention else entry.lines()
            for translations in translator.stream_detailed(
                lines,
                nbest=1 if samples else results.n_best or 1,
                ready=entry.ready,
                name=entry.name,
                progress=progress,
                to=to,
                raw=raw,
                prefix=prefix,
                sampling=samples,
                aligned=results.alignments,
                **words,
                **decoding,
            ):
                total += 1
                cut += not translations[0].complete
                best, line = translations[0], read.popleft() if results.attention else ""
                explained = explain_found(translator, line, best, to=to, raw=raw) if line.strip() else None
                write(results.lines(total, translations, explained))
    if cut:
        messages.warn(
            f"{cut:,} of {total:,} translations were cut at the maximum length: raise --max-extra to see more of them."
        )
