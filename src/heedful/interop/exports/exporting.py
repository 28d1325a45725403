"""Writes a model in the format of another library, opens it there, and compares what both answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, Final

from torch import nn

from heedful.base.arguments import check_path
from heedful.base.errors import UserError, by_caller, suggestion
from heedful.base.files import new_folder, output_folder
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.formats import FORMATS, Format
from heedful.interop.exports.samples import Samples, read_samples
from heedful.models.bundle import Bundle, read_bundle, read_recipe, refuse_used_folder

CLOSE: Final = 1e-4  # greatest difference of log probabilities, of a score for each token or label
CLOSE_BLEU: Final = 0.2  # of translations in less precise weights


@dataclass(frozen=True)
class ExportedModel:
    """Where a model was written, and how its answers compare; None where the library that opens it is missing."""

    folder: Path
    format: Format
    comparison: Comparison | None


def export_model(
    model: str | Path, to: str, out: str | Path, precision: str | None = None, samples: str | Path | None = None
) -> ExportedModel:
    """Write a model in the format `to`, and compare it with the original on validation data, or on lines of a file."""
    if to not in FORMATS:
        raise UserError(f"`{to}` is not a format: use one of {', '.join(FORMATS)}.{suggestion(to, [*FORMATS])}")
    form, folder, target = FORMATS[to], check_path("model", model), output_folder(out)
    chosen = precision or form.precisions[0]
    if chosen not in form.precisions:
        raise UserError(f"{form.library} cannot hold weights in {chosen}: use {' or '.join(form.precisions)}.")
    refuse_used_folder(target)
    for refusal in form.refusals(read_recipe(folder)):  # before the weights are read
        raise UserError(
            f"{folder} cannot be exported to {form.library}, because of `{refusal.key}`: {refusal.why}. "
            f"{_way_out(form, folder)}"
        )
    bundle: Bundle[nn.Module] = read_bundle(folder, nn.Module)
    exact = chosen == form.precisions[0]
    given = read_samples(bundle, folder, None if samples is None else Path(samples), references=not exact)
    with new_folder(target) as staged:
        import_module(f"{form.home}.writing").write(bundle, staged, chosen)
        comparison = _compare(form, bundle, staged, given) if form.can_compare else None
        if comparison is not None:
            _refuse_differences(comparison, form, folder, exact)
    return ExportedModel(target, form, comparison)


def _way_out(form: Format, folder: Path) -> str:
    others = [each.name for each in FORMATS.values() if each is not form and not each.refusals(read_recipe(folder))]
    if not others:
        return "Train a model without it to export."
    return f"Export it with {by_caller('--to', 'the format')} {' or '.join(others)} instead."


def _compare(form: Format, bundle: Bundle[nn.Module], folder: Path, samples: Samples) -> Comparison:
    found: Comparison = import_module(f"{form.home}.comparing").compare(bundle, folder, samples)
    return found


def _refuse_differences(found: Comparison, form: Format, folder: Path, exact: bool) -> None:
    """Refuse an export that does not answer as the original: nothing is written then."""
    if exact and (found.unequal or not isfinite(found.difference) or found.difference > CLOSE):
        raise UserError(
            f"{folder} answers differently in {form.library}: {found.unequal:,} of {found.count:,} answers are not "
            f"equal, and scores differ by up to {found.difference:.1g}. Nothing was written; please report this."
        )
    if not exact and found.lost is not None and found.lost > CLOSE_BLEU:
        raise UserError(
            f"{folder} loses {found.lost:.2f} BLEU in {form.library} with less precise weights. Nothing was written: "
            "export it in float32."
        )


def facts_of(found: ExportedModel) -> Mapping[str, Any]:
    """Return what `--json` shows of an export."""
    return {
        "model": str(found.folder),
        "format": found.format.name,
        "compared": None if found.comparison is None else found.comparison.to_json(),
    }
