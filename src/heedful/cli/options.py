"""Options that several verbs share, and groups of options that a verb takes as one value."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial, wraps
from operator import methodcaller
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_origin, get_type_hints

import typer
import typer.models

from heedful.base.errors import UserError
from heedful.base.options import options_of
from heedful.cli.command import running
from heedful.config.decode import DecodeOptions, Sampling, SearchOptions, WordOptions

_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_Take = Callable[[dict[str, Any]], Any]  # takes its options from the values of a command


def option(meaning: str, *flags: str, **rules: Any) -> Any:
    """Declare an option: its help, its flags where they are not the parameter's name, and what else Typer takes."""
    return typer.Option(*flags, help=meaning, **rules)


def json_option(written: str, panel: str | None = None) -> Any:
    """Declare --json, by what it writes: every verb with a result has it."""
    return option(f"Write JSON: {written}.", "--json", rich_help_panel=panel)


def n_best_option(written: str, panel: str | None = None) -> Any:
    """Declare --n-best, by what N results look like."""
    return option(f"Write the N best: {written}.", "--n-best", "-n", metavar="N", min=1, rich_help_panel=panel)


def out_option(place: str) -> Any:
    """Declare --out, the folder that a verb writes, by its place or its default."""
    return option(f"Write to this folder{place}.", "--out", "-o", metavar="FOLDER")


def page_option(default: str) -> Any:
    """Declare --output of a page or an image, by its default."""
    return option(f"Write to this file ({default}); `-`: standard output.", "--output", "-o", metavar="FILE")


# --- single options -----------------------------------------------------------------------------------------------

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Folder of a model: written by train, average or import.")
]
RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="Recipe file, or the name of a recipe that ships with Heedful.")
]
RecipeOrModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE|MODEL", help="Recipe file, the name of a recipe that ships with Heedful, or a model's folder."
    ),
]
InputsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE|TEXT",
        help="Files (plain, .gz, .xz, members of a .zip), or texts of several words; `-` or nothing: standard input.",
    ),
]
TextOption = Annotated[
    list[str] | None,
    option("A text, even one that could be a file's name; repeatable.", "--text", "-t", metavar="TEXT"),
]
OutputOption = Annotated[
    Path | None,
    option("Write to this file, once everything is done, not to standard output.", "--output", "-o", metavar="FILE"),
]
SetOption = Annotated[
    list[str] | None, option("Set a key of the recipe, such as model.layers=3; repeatable.", "--set", metavar="A.B=C")
]
WithOption = Annotated[
    list[str] | None,
    option("Another model with the same vocabulary, to decode as one ensemble; repeatable.", "--with", metavar="MODEL"),
]
AdapterOption = Annotated[
    str | None,
    option("Folder of an adapter of this model (`train.adapter`), which it then has.", "--adapter", metavar="FOLDER"),
]
_DEVICE: Final = option("auto, cpu, cuda or cuda:1; auto uses a GPU if there is one.", "--device", metavar="NAME")
_PRECISION: Final = option("auto, float32 or bfloat16; auto uses bfloat16 on a GPU.", "--precision", metavar="NAME")
_MODEL_PRECISION: Final = option(
    "auto, float32, bfloat16 or, on a CPU, int8; auto is the model's `decode.precision`, or bfloat16 on a GPU.",
    "--precision",
    metavar="NAME",
)
DeviceOption = Annotated[str, _DEVICE]
PrecisionOption = Annotated[str, _MODEL_PRECISION]
TrainingDeviceOption = Annotated[str | None, _DEVICE]  # None: the recipe's
TrainingPrecisionOption = Annotated[str | None, _PRECISION]
SplitOption = Annotated[Literal["valid", "test"] | None, option("Corpora of the recipe to use (default: test).")]
THRESHOLD: Final = option(
    "Of a reader: give no answer where log P(no answer) is greater than the best answer's by more than this (default: "
    "0).",
    "--threshold",
)
LONGEST_ANSWER: Final = option(
    "Of a reader: maximum tokens of an answer (default: 30).", "--max-answer", metavar="N", min=1
)


def with_device(overrides: Sequence[str] | None, device: str | None, precision: str | None) -> list[str]:
    """Return the overrides of a recipe, with --device and --precision as keys of [train]."""
    given = {"train.device": device, "train.precision": precision}
    return [*(overrides or ()), *(f"{key}={value}" for key, value in given.items() if value is not None)]


# --- options that a table declares --------------------------------------------------------------------------------


def flag(name: str) -> str:
    """Return an option as a user types it: `--max-extra` for max_extra."""
    return f"--{name.replace('_', '-')}"


def declared(
    table: type,
    name: str,
    *,
    panel: str | None = None,
    metavar: str | None = None,
    several: bool = False,
) -> Any:
    """Return an option of a table as an option of a command: with its meaning, its default and its least value."""
    known = options_of(table)[name]
    meaning, default = known.meaning.partition("\n")[0].removesuffix("."), known.default
    if several:
        meaning = f"{meaning}; repeatable"
    if default is not None and default is not False:
        meaning = f"{meaning} (default: {flag(name) if default is True else default})"
    return option(
        f"{meaning}.",
        f"{flag(name)}/{flag(f'no_{name}')}" if default is True else flag(name),
        min=None if known.must_be else known.least,  # the option's own words say more than the parser's
        metavar=metavar,
        rich_help_panel=panel,
        show_default=False,
    )


@dataclass(frozen=True)
class Group:
    """Options of a table that a command takes as one dictionary, of those that the user gave."""

    table: type
    panel: str
    only: Sequence[str] = ()  # their names; none for all of the table

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield the parameters that Typer makes the options of; texts may be given several times."""
        for name in self.only or options_of(self.table):
            kind = options_of(self.table)[name].kind
            plain = kind in (int, float, bool) or get_origin(kind) is Literal
            option = declared(self.table, name, panel=self.panel, metavar=None if plain else "TEXT", several=not plain)
            kind = kind if plain else list[str]
            yield inspect.Parameter(name, _KEYWORD, default=None, annotation=Annotated[kind | None, option])

    def take(self, values: dict[str, Any]) -> dict[str, Any]:
        """Take the options from the values of a command, and check them before any long work starts."""
        known = options_of(self.table)
        taken = {name: values.pop(name) for name in self.only or known}
        return {name: known[name].check(name, value) for name, value in taken.items() if value not in (None, [])}


TestSourceOption = Annotated[
    str | None,
    option("File of sources: sentences to translate, tag or parse, or texts to classify.", "--source", metavar="FILE"),
]
TestTargetOption = Annotated[
    list[str] | None,
    option(
        "File of targets: references, labels or trees; repeatable for several references of each sentence.",
        "--target",
        metavar="FILE",
    ),
]
StrideOption = Annotated[
    int | None,
    option("Tokens by which the window of a language model moves (default: its length).", "--stride", metavar="N"),
]
RawOption = Annotated[bool, declared(SearchOptions, "raw")]
ShortlistOption = Annotated[bool, declared(SearchOptions, "shortlist")]
ToOption = Annotated[str | None, declared(SearchOptions, "to", metavar="LANGUAGE")]
DecodingOptions = Annotated[DecodeOptions, Group(DecodeOptions, "Decoding (defaults: those of the recipe)")]


@dataclass(frozen=True, kw_only=True)
class Searching:
    """How outputs are searched for, or sampled."""

    decoding: DecodingOptions
    sample: Annotated[
        bool,
        option(
            "Sample at random instead of searching; --n-best is the number of samples per input.",
            "--sample",
            rich_help_panel="Sampling",
        ),
    ] = False
    sampling: Annotated[
        dict[str, Any], Group(Sampling, "Sampling", only=("temperature", "top_k", "top_p", "min_p", "seed"))
    ]

    def options(self, n_best: int | None) -> dict[str, Any]:
        """Return the keywords of a search for the n best; refuse options that would do nothing.

        Next to --mbr, --seed is the seed of its samples.
        """
        chosen, decoding = self.sampling, self.decoding
        by_risk = bool(decoding.get("mbr"))
        idle = next((name for name in chosen if not (by_risk and name == "seed")), None)
        if self.sample and by_risk:
            raise UserError("--mbr draws samples of its own and chooses one: leave out --sample.")
        if idle and not self.sample:
            own = ", or --mbr-temperature for those of --mbr" if by_risk and idle == "temperature" else ""
            raise UserError(f"{flag(idle)} applies to sampling: add --sample{own}.")
        if self.sample and (decoding.get("beam") or 1) > 1:
            raise UserError("--sample does not use a beam: leave out --beam; --n-best is the number of samples.")
        if self.sample:
            return {"sampling": Sampling(**chosen, samples=n_best or 1), **decoding}
        seed = {"mbr_seed": chosen["seed"]} if "seed" in chosen else {}
        return {"nbest": n_best or 1, **seed, **decoding}


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What outputs must contain, or must not."""

    terms: Annotated[
        str | None,
        option(
            "Fixed translations: a source term, a tab and what its translation must contain, on each line.",
            metavar="FILE",
            rich_help_panel="Words",
        ),
    ] = None
    words: Annotated[WordOptions, Group(WordOptions, "Words", only=("require", "forbid"))]

    def options(self) -> WordOptions:
        """Return the options of words, with the terms of a file."""
        if self.terms is None:
            return self.words
        from heedful.tasks.translate.word_rules import read_terms

        return {**self.words, "terms": read_terms(self.terms)}


# --- groups -------------------------------------------------------------------------------------------------------


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: a dataclass stands for its fields, a `Group` for the options of a table.

    Typer reads options from a signature, so the command gets one in which each group is replaced by its options. Those
    of keyword-only fields come after the command's own, before its keyword-only ones:

        @with_option_groups
        def command(model: ModelArgument, *, decoding: DecodingOptions) -> None: ...
    """
    first, last, take = _spread(command)
    verb = command.__module__.rpartition(".")[2]
    if command.__name__ != "command":  # of a verb that has verbs of its own
        verb = f"{verb} {command.__name__}"

    @wraps(command)
    def spread(**values: Any) -> None:
        given = {_flag_of(one): values[one.name] for one in (*first, *last) if _is_given(one, values[one.name])}
        with running(verb=verb, options=given):
            command(**take(values))

    spread.__signature__ = inspect.Signature([*first, *last])  # type: ignore[attr-defined]
    return spread


def _flag_of(parameter: inspect.Parameter) -> str:
    """Return the name of an option on the command line; of an argument, its name in the program."""
    info = next(
        (one for one in getattr(parameter.annotation, "__metadata__", ()) if isinstance(one, typer.models.OptionInfo)),
        None,
    )
    if info is None:
        return parameter.name
    flags = (name for name in (info.default, *(info.param_decls or ())) if str(name).startswith("--"))
    return str(next(flags, flag(parameter.name))).partition("/")[0]


def _is_given(parameter: inspect.Parameter, value: object) -> bool:
    return value != parameter.default and value not in (None, [])


def _make(group: Callable[..., Any], take: _Take, values: dict[str, Any]) -> Any:
    return group(**take(values))


def _spread(owner: Callable[..., Any]) -> tuple[list[inspect.Parameter], list[inspect.Parameter], _Take]:
    """Return the options of a command or a dataclass, its keyword-only ones apart, and what makes its arguments."""
    hints = get_type_hints(owner, include_extras=True)
    first: list[inspect.Parameter] = []
    last: list[inspect.Parameter] = []
    makers: dict[str, _Take] = {}
    for name, parameter in inspect.signature(owner).parameters.items():
        hint, part = hints[name], last if parameter.kind is _KEYWORD else first
        group = hint.__metadata__[0] if get_origin(hint) is Annotated else None
        if isinstance(group, Group):
            part += group.parameters()
            makers[name] = group.take
        elif isinstance(hint, type) and is_dataclass(hint):
            of_fields, of_keywords, take = _spread(hint)
            part += of_fields
            last += of_keywords
            makers[name] = partial(_make, hint, take)
        else:
            part.append(parameter.replace(annotation=hint, kind=_KEYWORD))
            makers[name] = methodcaller("pop", name)
    return first, last, lambda values: {name: make(values) for name, make in makers.items()}
