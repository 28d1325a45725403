"""What every verb that searches with a model shares: options and what is asked of them, progress, and lines."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Literal

import typer

from heedful.cli.output import progress_bar
from heedful.errors import UserError

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A folder that `heedful train` wrote.")]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="LANGUAGE", help="The target language, for a model of several.")
]
RawOption = Annotated[
    bool, typer.Option("--raw", help="Ordinary text in and out of a model of tokenized text (Moses' rules).")
]
BeamOption = Annotated[
    int | None, typer.Option("--beam", min=1, help="Hypotheses side by side; 1 is greedy. (default: the recipe's)")
]
WithOption = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="MODEL", help="A further model of the same vocabulary: they decode as one."),
]
LengthPenaltyOption = Annotated[
    float | None,
    typer.Option("--length-penalty", min=0, help="alpha of the length penalty. (default: the recipe's)"),
]
LengthPenaltyKindOption = Annotated[
    Literal["wu", "shifted"] | None,
    typer.Option("--length-penalty-kind", help="((5 + n) / 6)^alpha, or ((1 + n) / (1 + shift))^alpha."),
]
LengthShiftOption = Annotated[float | None, typer.Option("--length-shift", min=0, help="shift of the shifted kind.")]
CoverageOption = Annotated[
    float | None,
    typer.Option("--coverage", min=0, help="Weight of the coverage penalty: source words left out cost something."),
]
NoRepeatOption = Annotated[
    int | None, typer.Option("--no-repeat", min=0, help="No so many pieces in a row twice in a translation.")
]
MinLengthOption = Annotated[int | None, typer.Option("--min-length", min=0, help="The fewest pieces of a translation.")]
MaxExtraOption = Annotated[
    int | None,
    typer.Option("--max-extra", min=1, help="The most tokens more than the source has. (default: the recipe's)"),
]
BatchTokensOption = Annotated[
    int | None,
    typer.Option("--batch-tokens", min=1, help="Source tokens times beams of a batch. (default: the recipe's)"),
]
DeviceOption = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda or cuda:1; auto is a GPU where there is one.")
]
PrecisionOption = Annotated[
    str, typer.Option("--precision", help="auto, float32 or bfloat16; auto is bfloat16 on a GPU.")
]


def refuse_idle_length_shift(shift: float | None, kind: str) -> None:
    """Refuse a shift that the kind of length penalty, given or the recipe's, does not have."""
    if shift is not None and kind != "shifted":
        raise UserError(
            f"--length-shift is of the shifted length penalty, but the kind is {kind}: "
            "add --length-penalty-kind shifted."
        )


def sentence_progress(total: int, shown: bool = True) -> AbstractContextManager[Callable[[int], None]]:
    """Give a function that counts translated sentences: see `cli.output`."""
    return progress_bar("translating", total, shown)


def one_line(text: str) -> str:
    """Keep a text on its line: a model can write a line's end too."""
    return re.sub(r"[\r\n]+", " ", text)


def one_column(text: str) -> str:
    """Keep a text on its line and in its column, where tabs stand between columns."""
    return one_line(text).replace("\t", " ")


RecipeArgument = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's file, or a shipped recipe's name.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Set one key of the recipe, such as model.layers=3; repeatable."),
]
