"""A sweep over what models can be, for every format that they are exported to: is an export right, or refused?

    python -m benchmarks.interop.export [--formats ctranslate2,onnx] [--models FOLDER ...] [--merge]

combinations    of values of keys and a format. Those that a format holds are chosen so that pairs of values occur
                together; each value that it does not hold is in one more.
exported        models of random weights that the foreign library answered with as we do: the same tokens or labels, and
                log probabilities within 1e-4. They are 16 wide, and inputs are random.
refused         combinations that were refused before anything was written, by a key that they have
wrong           all others: other answers, other errors, files that were left behind. There must be none.

`--models` are trained models, which are exported to all formats that hold them: `trained` in the record. The library
of every format must be installed: ctranslate2, transformers, onnx with onnxscript and onnxruntime.
"""

import argparse
import random
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from benchmarks.interop.models import KINDS, Kind, Options, recipe_of
from benchmarks.interop.random_models import write_random_model
from benchmarks.shared.gpu_work import Results, choose_names

from heedful.base.errors import UserError
from heedful.interop.exports.exporting import export_model
from heedful.interop.exports.formats import FORMATS, Format
from heedful.metrics.recorded_results import RESULTS

MOST: Final[Mapping[str, Mapping[str, int]]] = {  # held combinations of a kind: translators as programs take seconds
    "transformers": {"translate": 16, "generate": 16, "": 8},
    "ctranslate2": {"translate": 30, "generate": 30, "": 8},
    "torch": {"translate": 5, "generate": 5, "": 3},
    "onnx": {"translate": 3, "generate": 3, "": 2},
}
DRAWN: Final = 3000  # combinations of which those of a format are chosen


@dataclass(frozen=True)
class Combination:
    """A model of a kind, and a format."""

    form: Format
    kind: Kind
    options: Options

    def to_json(self) -> dict[str, Any]:
        """What the record says of it."""
        return {"format": self.form.name, "kind": self.kind.name, **self.options}


def combinations_of(form: Format, kind: Kind, most: int) -> Iterator[Combination]:
    """Choose models that a format holds, with many pairs of values, and one for each value that it does not hold."""
    chance = random.Random(f"{form.name} {kind.name}")
    drawn = [kind.draw(chance, changed) for changed in (0.1, 0.2, 0.5, 0.8) * (DRAWN // 4)]
    unique = {repr(options): options for options in drawn if recipe_of(kind, options) is not None}
    held, others = list[Options](), list[Options]()
    for options in unique.values():
        recipe = recipe_of(kind, options)
        assert recipe is not None
        (others if form.refusals(recipe) else held).append(options)
    chosen = _covering(held, most)
    seen = {each for options in held for each in options.items()}
    for options in [*chosen, *_with_others(others, seen)]:
        yield Combination(form, kind, options)


def _covering(held: list[Options], most: int) -> list[Options]:
    """Choose greedily, each time what has the most pairs of values that are not together yet."""
    chosen: list[Options] = []
    missing = {pair for options in held for pair in combinations(options.items(), 2)}
    left = [(options, set(combinations(options.items(), 2))) for options in held]
    while missing and len(chosen) < most:
        options, pairs = max(left, key=lambda each: len(each[1] & missing))
        chosen.append(options)
        missing -= pairs
    return chosen


def _with_others(others: list[Options], seen: set[tuple[str, Any]]) -> Iterator[Options]:
    """Yield one model for each value that no model has which the format holds: that with the fewest such values."""
    if not seen:  # it holds nothing of this kind
        yield from others[:1]
        return
    wanted = dict.fromkeys(each for options in others for each in options.items() if each not in seen)
    for each in wanted:
        having = [options for options in others if each in options.items()]
        yield min(having, key=lambda options: len(options.items() - seen))


# --- what becomes of them ---------------------------------------------------------------------------------------------


def try_out(made: Combination, place: Path) -> dict[str, Any]:
    """Export a model of random weights: say what became of it."""
    recipe = recipe_of(made.kind, made.options)
    assert recipe is not None
    refused = {refusal.key for refusal in made.form.refusals(recipe)}
    tables = made.kind.tables(made.options)
    model = write_random_model(place / "model", made.kind.task, **tables)
    try:
        found = export_model(model, made.form.name, place / "out").comparison
    except UserError as error:
        named = next((key for key in refused if f"because of `{key}`:" in str(error)), None)
        if named is None or (place / "out").exists():
            return {"outcome": "wrong", "why": str(error)}
        return {"outcome": "refused", "key": named}
    except Exception as error:
        return {"outcome": "wrong", "why": f"{type(error).__name__}: {str(error)[:500]}"}
    if refused or found is None or found.unequal or not found.difference <= 1e-4:
        return {"outcome": "wrong", "why": f"refused {sorted(refused)}, compared {found}"}
    return {"outcome": "exported", "difference": found.difference}


def sweep(results: Results, formats: list[str], tiny: bool) -> None:
    """Try all combinations of some formats."""
    counts, rows = dict.fromkeys(("exported", "refused", "wrong"), 0), list[dict[str, Any]]()
    for name in formats:
        for kind in KINDS:
            most = MOST[name].get(kind.task, MOST[name][""])
            for made in combinations_of(FORMATS[name], kind, 1 if tiny else most):
                with tempfile.TemporaryDirectory() as folder:
                    row = made.to_json() | try_out(made, Path(folder))
                rows.append(row)
                counts[row["outcome"]] += 1
                if row["outcome"] == "wrong":
                    results.say(f"wrong: {row}")
            results.say(f"{name:13} {kind.name:20} {counts}")
    results.details["rows"] = {str(number): row for number, row in enumerate(rows)}
    differences = [row["difference"] for row in rows if "difference" in row]
    results.add(combinations=len(rows), **counts, greatest_difference=max(differences, default=0.0))


def export_trained(results: Results, models: list[Path], formats: list[str]) -> None:
    """Export trained models to all formats that hold them."""
    found: dict[str, Any] = {}
    for model in models:
        found[model.name] = {}
        for name in formats:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    compared = export_model(model, name, Path(folder) / "out").comparison
                    said: Any = compared and compared.to_json()
                except UserError as error:
                    said = str(error).replace(str(model), model.name)
            found[model.name][name] = said
            results.say(f"{model.name} to {name}: {said}")
    results.details["trained"] = found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default=",".join(FORMATS), help=f"some of {', '.join(FORMATS)}")
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="trained models")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded and not measured again")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", "--quick", action="store_true", help="one of each kind; records nothing")
    options = parser.parse_args()
    formats = choose_names(parser, "--formats", options.formats, tuple(FORMATS))
    missing = [name for name in formats if not FORMATS[name].can_compare]
    if missing:
        parser.error(f"without their libraries nothing is compared: install {', '.join(missing)}")
    warnings.simplefilter("ignore")
    results = Results("export", None if options.tiny else options.results, options.merge)
    with results.part("sweep"):
        sweep(results, formats, options.tiny)
        if results.figures["wrong"]:
            raise ValueError(f"{results.figures['wrong']:.0f} combinations are wrong")
    if options.models:
        with results.part("trained"):
            export_trained(results, options.models, formats)
    results.exit()


if __name__ == "__main__":
    main()
