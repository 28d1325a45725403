"""What a command line gives a model to answer: lines, images, or the rows of a file given by --data."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Final

from heedful.base.errors import UserError
from heedful.base.files import expand_user, output_folder
from heedful.cli.answering.given_rows import Format, GivenRows, open_rows
from heedful.cli.answering.parts_folder import Shard
from heedful.cli.input import InputLines
from heedful.cli.options import AdapterOption, DeviceOption, ModelArgument, OutputOption, PrecisionOption, option
from heedful.cli.output import STANDARD_OUTPUT, check_output
from heedful.config.recipe import Recipe
from heedful.data.corpora.formats.lines import Passed, locate
from heedful.tasks.shared.answering.answers import Given

Split = Callable[[str, str], Mapping[str, Any]]  # from a line and its place to values by role
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
ShardOption = Annotated[
    str | None,
    option(
        "Worker I of N does its share, into a folder, --output; the same command again does what is missing.",
        "--shard",
        metavar="I/N",
        rich_help_panel="Batch jobs",
    ),
]
RayOption = Annotated[
    str | None,
    option(
        "Do the whole job on a Ray cluster, into a folder, --output; by default RAY_ADDRESS, or this machine.",
        "--ray",
        metavar="[ADDRESS]",
        rich_help_panel="Batch jobs",
    ),
]


@dataclass(frozen=True)
class Source:
    """Inputs from one place, and how their answers are written."""

    name: str
    inputs: Callable[[Passed], Iterable[Given]]  # but for those that are passed over
    ready: Callable[[], bool] = lambda: True
    count: Callable[[], int | None] = lambda: None  # of its inputs, if it can be known before they are read
    tolerant: bool = False  # whether an input that cannot be answered is left out, and the others are answered
    rows: GivenRows | None = None
    files: Sequence[Path] = ()  # that it is read from, if it can be read again
    images: bool = False  # whether the files are images


@dataclass(frozen=True)
class Inputs:
    """What a command line gives a model to answer, and the file of the answers, checked before anything long begins."""

    model: ModelArgument
    _: KW_ONLY
    output: OutputOption = None
    data: DataOption = None
    settings: DataSetOption = None
    format: FormatOption = None
    adapter: AdapterOption = None
    device: DeviceOption = "auto"
    precision: PrecisionOption = "auto"
    shard: ShardOption = None
    ray: RayOption = None

    def __post_init__(self) -> None:
        if self.in_parts is None:
            check_output(self.output)
        else:
            self._check_parts(self.in_parts)
        check_needs_data(self.data, {"--set": self.settings, "--format": self.format})

    @property
    def in_parts(self) -> str | None:
        """The option that asks for answers in parts, in a folder."""
        return "--ray" if self.ray is not None else None if self.shard is None else "--shard"

    def _check_parts(self, flag: str) -> None:
        """Refuse what does not go with parts."""
        if self.shard is not None:
            Shard.parse(self.shard)
            if self.ray is not None:
                raise UserError("--ray has workers of its own, which share all parts: leave out --shard.")
        if self.output is None or self.output == STANDARD_OUTPUT:
            raise UserError(f"{flag} writes its parts into a folder: name it by --output FOLDER.")
        output_folder(self.output, "--output")

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the model, or of its adapter, read without torch."""
        from heedful.config.reading.bundle_config import read_config, read_recipe

        model = expand_user(self.model)
        if self.adapter is None:
            return read_recipe(model)
        read_config(model)
        return read_recipe(expand_user(self.adapter))

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
        corpus = given_corpus(self.recipe, self.data, self.settings or (), answered=roles)
        rows = open_rows(corpus, roles, rules.words)
        if several and not as_json and (self.row_format or rows.format) != "jsonl":
            raise UserError(
                "--n-best gives several answers to a row, which a table has no place for: add --format jsonl, whose "
                "field `nbest` has them."
            )
        files = [locate(name).path for name in corpus.files()] or [given.values["image"] for given in rows.rows()]
        return Source(
            rows.name,
            lambda passed: passed.over(rows.rows()),
            count=lambda: sum(1 for _ in rows.rows()),
            tolerant=True,
            rows=rows,
            files=files,
            images=not corpus.files(),
        )

    def lines(self, entries: Sequence[InputLines], split: Split, *, tolerant: bool = False) -> list[Source]:
        """Return lines as inputs; JSON results have the number of the line, and its file if there are several."""

        def inputs(entry: InputLines, passed: Passed) -> Iterator[Given]:
            file = {"file": entry.name} if len(entries) > 1 else {}
            for number, line in entry.numbered(passed):
                where = f"{entry.name}, line {number:,}"
                values = split(line, where)
                yield Given(values, where, {**file, "line": number}, skip=not values)

        return [
            Source(
                entry.name,
                partial(inputs, entry),
                entry.ready,
                entry.count,
                tolerant,
                files=[*filter(None, [entry.file])],
            )
            for entry in entries
        ]

    def images(self, paths: Sequence[Path]) -> list[Source]:
        """Return images as inputs."""

        def inputs(passed: Passed) -> Iterator[Given]:
            return passed.over(Given({"image": path}, str(path)) for path in paths)

        return [Source("images", inputs, count=lambda: len(paths), tolerant=True, files=paths, images=True)]


def check_needs_data(data: str | None, options: Mapping[str, object]) -> None:
    """Refuse options that say how --data is read or written, where it is not given."""
    idle = next((flag for flag, value in options.items() if value and data is None), None)
    if idle is not None:
        raise UserError(f"{idle} applies to the rows of a file: name it by --data, or leave {idle} out.")
