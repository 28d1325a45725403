"""What the evaluation of every kind of model shares: test corpora, what is refused, files to write, and the record."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.config.corpora import AnyCorpus, TextCorpus
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.config.recipe import Recipe

Test = tuple[tuple[AnyCorpus, ...], str]  # corpora, and the folder that their files are in


def given_files(source: str | None, target: str | None, split: str | None, to: str | None) -> tuple[TextCorpus, ...]:
    """The corpus of the command line, or nothing."""
    if source is None and target is None:
        if to:
            raise UserError("--to is for --source and --target: the recipe's corpora have their own `to`.")
        return ()
    if source is None or target is None:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: --source and --target go together, line by line.")
    if split:
        raise UserError("--split chooses among the recipe's corpora: leave it out beside --source and --target.")
    return (TextCorpus(source=str(Path(source).absolute()), target=str(Path(target).absolute()), to=to or ""),)


def corpora_of_recipe(model: str, recipe: "Recipe", split: str, way_out: str = "give --source and --target") -> Test:
    """The corpora that a model's recipe judges by."""
    corpora: tuple[AnyCorpus, ...] = getattr(recipe.data, split)
    if not corpora:
        raise UserError(f"{model}: its recipe has no `data.{split}`: {way_out}.")
    return corpora, recipe.data.folder


def refuse_other_corpora(
    models: Sequence[str], tests: Sequence[Test], way_out: str = "give --source and --target"
) -> None:
    """Only scores of the same test sets have a mean: the same names and sentences, wherever the files are."""
    from heedful.data.corpora.files import content_key

    if len(models) == 1:
        return
    contents = [[(corpus.name, content_key(corpus, folder)) for corpus in corpora] for corpora, folder in tests]
    for model, content in zip(models, contents, strict=True):
        if content != contents[0]:
            raise UserError(f"{model} has other test corpora than {models[0]}: {way_out}.")


def refuse_twice(models: Sequence[str]) -> None:
    """A model and itself have no mean that says more than the model."""
    twice = next((model for place, model in enumerate(models) if model in models[:place]), None)
    if twice:
        raise UserError(f"{twice} is given twice: the mean of a model and itself says nothing.")


def refuse_other_settings(recipes: Mapping[str, "Recipe"], keys: Sequence[tuple[str, str]]) -> None:
    """Refuse models whose scores are of other kinds: these (section, key) of their recipes must be the same."""
    (model, first), *others = recipes.items()
    for other, recipe in others:
        for section, key in keys:
            was, here = (getattr(getattr(one, section), key) for one in (first, recipe))
            if here != was:
                raise UserError(
                    f"{other} has `{section}.{key}` = {here!r}, but {model} has {was!r}: such scores have no mean."
                )


def output_files(output: Path, models: Sequence[str], corpora: Sequence[str]) -> Iterator[Path]:
    """One file a model and corpus, in order; where there are several, their names, or numbers, before the suffix."""
    names = [Path(model).name for model in models]
    if len(set(names)) < len(names):  # as of seed-1/single and seed-2/single
        names = [str(number) for number in range(1, len(names) + 1)]
    for name in names:
        for corpus in corpora:
            parts = [name] if len(models) > 1 else []
            parts += [corpus] if len(corpora) > 1 else []
            yield output.with_name(".".join([output.stem, *parts]) + output.suffix)


def record_figures(name: str, figures: Mapping[str, float], seeds: Sequence[int]) -> None:
    """Write benchmarks/results/NAME.json, and say so."""
    from heedful.metrics.recorded_results import record

    path = record(name, figures, command=shlex.join(["heedful", *sys.argv[1:]]), seeds=seeds)
    print(f"heedful: recorded in {path}.", file=sys.stderr)
