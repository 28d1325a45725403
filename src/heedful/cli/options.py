"""Options that several verbs share, and groups of options that a verb takes as one value."""

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast, get_type_hints

import typer

from heedful.base.errors import UserError
from heedful.cli import messages

if TYPE_CHECKING:
    from heedful.decode.settings import Sampling
    from heedful.tasks.shared.sequences.search_options import DecodeOptions
    from heedful.tasks.shared.sequences.search_options import WordOptions as GivenWords

# --- single options -----------------------------------------------------------------------------------------------

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Folder of a model: written by train, average or import.")
]
RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="Recipe file, or the name of a recipe that ships with Heedful.")
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
    typer.Option("--text", "-t", metavar="TEXT", help="A text, even one that could be a file's name; repeatable."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to this file, once everything is done, not to standard output."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Set a key of the recipe, such as model.layers=3; repeatable."),
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="LANGUAGE", help="Target language, for a model that has several.")
]
RawOption = Annotated[
    bool, typer.Option("--raw", help="Read and write ordinary text with a model of tokenized text (Moses rules).")
]
WithOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with", metavar="MODEL", help="Another model with the same vocabulary, to decode as one ensemble; repeatable."
    ),
]
DeviceOption = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda or cuda:1; auto uses a GPU if there is one.")
]
PrecisionOption = Annotated[
    str, typer.Option("--precision", help="auto, float32 or bfloat16; auto uses bfloat16 on a GPU.")
]

QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show results, warnings and errors only: no notes, no progress.")
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show times, memory, and the traceback of an error.")
]

# --- decoding: the keys of a recipe's [decode] --------------------------------------------------------------------

_DECODING: Final = "Decoding (defaults: those of the recipe)"

BeamOption = Annotated[
    int | None, typer.Option("--beam", min=1, help="Beam size; 1 is greedy search.", rich_help_panel=_DECODING)
]
LengthPenaltyOption = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        min=0,
        help="Strength alpha of the length penalty; higher values favour longer translations.",
        rich_help_panel=_DECODING,
    ),
]
LengthPenaltyKindOption = Annotated[
    Literal["wu", "shifted"] | None,
    typer.Option(
        "--length-penalty-kind",
        help="Penalty of n tokens: ((5 + n) / 6)^alpha for wu, ((1 + n) / (1 + shift))^alpha for shifted.",
        rich_help_panel=_DECODING,
    ),
]
LengthShiftOption = Annotated[
    float | None,
    typer.Option("--length-shift", min=0, help="Shift of the shifted length penalty.", rich_help_panel=_DECODING),
]
CoverageOption = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        min=0,
        help="Weight of the coverage penalty, which discourages leaving out source words; 0 turns it off.",
        rich_help_panel=_DECODING,
    ),
]
NoRepeatOption = Annotated[
    int | None,
    typer.Option(
        "--no-repeat",
        min=0,
        help="Never repeat an n-gram of this length; 0 allows repetition.",
        rich_help_panel=_DECODING,
    ),
]
MinLengthOption = Annotated[
    int | None,
    typer.Option("--min-length", min=0, help="Minimum output length in tokens.", rich_help_panel=_DECODING),
]
MaxExtraOption = Annotated[
    int | None,
    typer.Option(
        "--max-extra", metavar="N", min=1, help="Maximum output length: source length + N.", rich_help_panel=_DECODING
    ),
]
MaxSourceOption = Annotated[
    int | None,
    typer.Option(
        "--max-source", metavar="N", min=1, help="Refuse lines of more than N tokens.", rich_help_panel=_DECODING
    ),
]
BatchTokensOption = Annotated[
    int | None,
    typer.Option("--batch-tokens", min=1, help="Batch size: source tokens times beam size.", rich_help_panel=_DECODING),
]
MbrOption = Annotated[
    int | None,
    typer.Option(
        "--mbr",
        metavar="N",
        min=0,
        help="Minimum Bayes risk: draw N samples and choose the one closest to all others; 0 searches.",
        rich_help_panel=_DECODING,
    ),
]
MbrUtilityOption = Annotated[
    Literal["chrf", "bleu"] | None,
    typer.Option("--mbr-utility", help="How close two samples are.", rich_help_panel=_DECODING),
]
MbrTemperatureOption = Annotated[
    float | None,
    typer.Option("--mbr-temperature", min=0.01, help="Temperature of these samples.", rich_help_panel=_DECODING),
]
MbrMinPOption = Annotated[
    float | None,
    typer.Option(
        "--mbr-min-p",
        min=0,
        help="Sample tokens with at least this fraction of the greatest probability.",
        rich_help_panel=_DECODING,
    ),
]
MbrSeedOption = Annotated[
    int | None,
    typer.Option("--mbr-seed", min=0, help="The same seed draws the same samples.", rich_help_panel=_DECODING),
]


@dataclass(frozen=True)
class DecodingOptions:
    """How to search for translations; None leaves an option to the recipe's [decode], which has the same names."""

    beam: BeamOption = None
    length_penalty: LengthPenaltyOption = None
    length_penalty_kind: LengthPenaltyKindOption = None
    length_shift: LengthShiftOption = None
    coverage: CoverageOption = None
    no_repeat: NoRepeatOption = None
    min_length: MinLengthOption = None
    max_extra: MaxExtraOption = None
    max_source: MaxSourceOption = None
    batch_tokens: BatchTokensOption = None
    mbr: MbrOption = None
    mbr_utility: MbrUtilityOption = None
    mbr_temperature: MbrTemperatureOption = None
    mbr_min_p: MbrMinPOption = None
    mbr_seed: MbrSeedOption = None

    def given(self) -> "DecodeOptions":
        """Return the options that the user gave, as the keywords of `Translator.translate`."""
        chosen = {field.name: getattr(self, field.name) for field in fields(self)}
        return cast("DecodeOptions", {name: value for name, value in chosen.items() if value is not None})

    def check_length_shift(self, kind_in_recipe: str) -> None:
        """Refuse a shift if the kind of length penalty, given or the recipe's, does not have one."""
        kind = self.length_penalty_kind or kind_in_recipe
        if self.length_shift is not None and kind != "shifted":
            raise UserError(
                f"--length-shift applies to the shifted length penalty, but the kind is {kind}: "
                "add --length-penalty-kind shifted."
            )


# --- sampling -----------------------------------------------------------------------------------------------------

_SAMPLING: Final = "Sampling"


@dataclass(frozen=True)
class SamplingOptions:
    """How to sample translations or captions at random."""

    sample: Annotated[
        bool,
        typer.Option(
            "--sample",
            help="Sample at random instead of searching; --n-best is the number of samples per input.",
            rich_help_panel=_SAMPLING,
        ),
    ] = False
    temperature: Annotated[
        float,
        typer.Option(
            "--temperature",
            help="Below 1 favours likely tokens, above 1 unlikely ones.",
            rich_help_panel=_SAMPLING,
        ),
    ] = 1.0
    top_k: Annotated[
        int,
        typer.Option("--top-k", help="Sample from the k most likely tokens; 0 is all.", rich_help_panel=_SAMPLING),
    ] = 0
    top_p: Annotated[
        float,
        typer.Option(
            "--top-p",
            help="Nucleus sampling: the smallest set of tokens with this total probability.",
            rich_help_panel=_SAMPLING,
        ),
    ] = 1.0
    seed: Annotated[
        int,
        typer.Option("--seed", help="The same seed draws the same samples.", rich_help_panel=_SAMPLING),
    ] = 0

    def check(self, beam: int | None, mbr: int | None = None) -> None:
        """Refuse options that would do nothing."""
        chosen, defaults = asdict(self), asdict(SamplingOptions())
        of_both = ("seed",) if mbr else ()
        idle = next((name for name, value in chosen.items() if value != defaults[name] and name not in of_both), None)
        if self.sample and mbr:
            raise UserError("--mbr draws samples of its own and chooses one: leave out --sample.")
        if idle and not self.sample:
            own = ", or --mbr-temperature for those of --mbr" if mbr and idle == "temperature" else ""
            raise UserError(f"{flag(idle)} applies to sampling: add --sample{own}.")
        if self.sample and beam is not None and beam > 1:
            raise UserError("--sample does not use a beam: leave out --beam; --n-best is the number of samples.")

    def seeding(self, decoding: "DecodeOptions") -> "DecodeOptions":
        """Return the options of a search, with --seed as that of --mbr where both are given."""
        if self.sample or not self.seed or "mbr_seed" in decoding:
            return decoding
        return {**decoding, "mbr_seed": self.seed}

    def settings(self, samples: int) -> "Sampling | None":
        """Return the settings of the search; None without --sample."""
        if not self.sample:
            return None
        from heedful.decode.settings import Sampling

        return Sampling(self.temperature, self.top_k, self.top_p, samples, self.seed)


# --- words of translations ----------------------------------------------------------------------------------------

_WORDS: Final = "Words"


@dataclass(frozen=True)
class WordOptions:
    """Words that translations must contain, or must not."""

    terms: Annotated[
        str | None,
        typer.Option(
            "--terms",
            metavar="FILE",
            help="Fixed translations: a source term, a tab and what its translation must contain, on each line.",
            rich_help_panel=_WORDS,
        ),
    ] = None
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            metavar="WORDS",
            help="Words that every translation must contain; repeatable.",
            rich_help_panel=_WORDS,
        ),
    ] = None
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            "--forbid",
            metavar="WORDS",
            help="Words that no translation may contain; repeatable.",
            rich_help_panel=_WORDS,
        ),
    ] = None

    def given(self) -> "GivenWords":
        """Return the options that the user gave, as the keywords of `Translator.translate`; the file is read."""
        from heedful.tasks.translate.terms import read_terms

        terms = None if self.terms is None else read_terms(self.terms)
        chosen = {"terms": terms, "require": self.require, "forbid": self.forbid}
        return cast("GivenWords", {name: value for name, value in chosen.items() if value})


def flag(name: str) -> str:
    """Return an option as a user types it: `--max-extra` for max_extra."""
    return f"--{name.replace('_', '-')}"


# --- groups -------------------------------------------------------------------------------------------------------


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: a parameter that is a dataclass stands for its fields as options.

    Typer reads options from a signature, so the command gets one in which each group is replaced by its fields:

        @with_option_groups
        def command(model: ModelArgument, *, decoding: DecodingOptions) -> None: ...
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            single = parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            parameters.append(single)
            continue
        of_fields = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=of_fields[field.name]
            )
            for field in fields(group)
        ]

    @wraps(command)
    def spread(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spread


def with_verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --quiet and --verbose to a command, after its own options."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in (("quiet", QuietOption), ("verbose", VerboseOption))
    ]

    @wraps(command)
    def told(**values: Any) -> Any:
        messages.choose(values.pop("quiet"), values.pop("verbose"))
        return command(**values)

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    told.__signature__ = inspect.Signature([*keyword_only, *added])  # type: ignore[attr-defined]
    return told
