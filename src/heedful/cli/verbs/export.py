"""`heedful export MODEL --to FORMAT -o FOLDER`: write a model in the format of another library."""

from pathlib import Path
from typing import Annotated

from heedful.cli import messages
from heedful.cli.options import ModelArgument, json_option, option, out_option
from heedful.cli.output import write_result
from heedful.interop.exports.formats import FORMATS


def command(
    model: ModelArgument,
    to: Annotated[str, option(f"Format: {', '.join(FORMATS)}.", "--to", metavar="FORMAT")],
    out: Annotated[str, out_option("")],
    weights: Annotated[
        str | None,
        option("Precision of the weights, for CTranslate2: float32 (default), bfloat16 or int8.", "--weights"),
    ] = None,
    lines: Annotated[
        Path | None,
        option("Lines to compare both models on (default: validation data).", "--compare-on", metavar="FILE"),
    ] = None,
    as_json: Annotated[bool, json_option("the folder, the format and the comparison")] = False,
) -> None:
    """Write a model in the format of another library, open it there, and compare its answers with the original's.

    Nothing is written if they differ, or if the format cannot hold the model. `heedful doctor RECIPE` says so before
    training.
    """
    from heedful.interop.exports.exporting import export_model, facts_of  # importing torch takes seconds

    with messages.busy(f"exporting {model}"):
        found = export_model(model, to, out, weights, lines)
    if as_json:
        write_result(facts_of(found))
        return
    print(f"{model} is written for {found.format.library} in {found.folder}")
    compared = found.comparison
    if compared is None:
        messages.note(
            f"It was not compared with the original, as {found.format.library} is not installed: "
            f"`pip install {found.format.package}`, and export it again."
        )
    elif compared.lost is not None:
        print(f"Compared on {compared.of}: BLEU changes by {-compared.lost:+.2f}")
    else:
        of = f"{compared.unequal:,} of {compared.count:,} answers differ" if compared.unequal else "equal answers"
        print(f"Compared on {compared.of}: {of}, scores within {compared.difference:.1g}")
