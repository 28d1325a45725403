"""Advises a recipe with little data to start from another model, and names one that is there."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from heedful.base.errors import HeedfulError
from heedful.config.corpora.containers import Builtin
from heedful.config.reading.bundle_config import CONFIG, read_config
from heedful.config.reading.places import put_places_back
from heedful.config.recipe import Recipe
from heedful.data.corpora.files import files_of
from heedful.doctor.corpora.corpus_lint import LintedCorpus
from heedful.doctor.findings import Finding

_LOOKED_AT: Final = 500  # folders next to a recipe
_UNPACKED: Final = 3  # times the size of packed text
_KINDS: Final = {"bert": "a masked language model (BERT)", "language": "a language model (GPT)"}


def advise_start(recipe: Recipe, linted: Sequence[LintedCorpus], near: Path | None = None) -> Iterator[Finding]:
    """Yield the advice to start from a model that has read more, where a task's training data are few.

    Models are looked for in `runs`, and in the folder `near` the recipe.
    """
    rules, train = recipe.rules, recipe.train
    if not rules.few or train.start_from or train.distill is not None:
        return
    if all(isinstance(corpus, Builtin) for corpus in recipe.data.train):  # there is no text like what is generated
        return
    running = rules.on_encoder_of is None
    size = _bytes(recipe) if running else _rows(recipe, linted)
    if size is None or size >= rules.few:
        return
    families = rules.families if running else rules.other_starts
    unit = next((one.form.unit for one in linted), "rows")
    what = f"{size:,} {unit} are few"
    if running:
        shown = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"
        what = f"{shown} of text is little to learn a language from"
    found = next(_models(recipe, families, near), None)
    if found is None:
        advice = (
            f"A start from {_KINDS[families[0]]} that has read much text, and some like this, is better: train one "
            f'(`model.family = "{families[0]}"`) or import one (`heedful import`), and name it in `train.start_from`.'
        )
    else:
        folder, family = found
        advice = f'{folder} is {_KINDS[family]}, which may be a better start: set `train.start_from = "{folder}"`.'
    yield Finding("note", "start", "run", what, advice)


def _rows(recipe: Recipe, linted: Sequence[LintedCorpus]) -> int | None:
    """Return the number of training rows; None where only the first ones were read."""
    known = {id(one.corpus): len(one) for one in linted if one.whole}
    counts = [getattr(corpus, "sample", None) or known.get(id(corpus)) for corpus in recipe.data.train]
    return sum(count for count in counts if count) if all(counts) else None


def _bytes(recipe: Recipe) -> int | None:
    """Return the size of the training files, about where they are packed; None where one is not there."""
    with suppress(OSError):
        files = [file.path for corpus in recipe.data.train for file in files_of(corpus, recipe.data.folder)]
        packed = (".gz", ".xz", ".zip")
        return sum(path.stat().st_size * (_UNPACKED if path.suffix.lower() in packed else 1) for path in files)
    return None


def _models(recipe: Recipe, families: Sequence[str], near: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the models of some families that were not trained on the recipe's own data."""
    own = recipe.model_dump(mode="json")["data"]["train"]
    places = [Path("runs"), *((near, near / "runs") if near is not None else ())]
    for place in dict.fromkeys(places):
        with suppress(OSError):
            for config in sorted(islice(place.glob(f"*/{CONFIG}"), _LOOKED_AT)):
                with suppress(HeedfulError, OSError, ValueError, LookupError, TypeError):
                    said = read_config(config.parent)["recipe"]
                    put_places_back(config.parent, said)
                    if said["model"]["family"] in families and said["data"]["train"] != own:
                        yield config.parent, said["model"]["family"]
