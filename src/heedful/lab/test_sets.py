"""The test sets that models are evaluated or compared on: corpora that their recipes share, or given files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from heedful.base.errors import UserError, by_caller, suggestion
from heedful.config.corpora.containers import AlignedFiles, AnyCorpus
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.files import check_files, content_key
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import read_description

Described = Mapping[str, tuple[Recipe, Vocabularies]]  # models by their folders
Test = tuple[tuple[AnyCorpus, ...], str]  # corpora, and the folder that their files are in


def describe(models: Sequence[str]) -> Described:
    """Read what models are, without their weights."""
    return {model: read_description(Path(model)) for model in models}


def common_rules(described: Described, way_out: str) -> TaskRules:
    """Return what all models do; refuse models of different tasks."""
    (first, (recipe, _)), *others = described.items()
    for model, (other, _) in others:
        if other.rules.name != recipe.rules.name:
            raise UserError(
                f"{model} is a model that {other.rules.does}, but {first} is one that {recipe.rules.does}: {way_out}."
            )
    return recipe.rules


def recipe_corpora(model: str, recipe: Recipe, split: str) -> tuple[AnyCorpus, ...]:
    """Return the corpora of a split, of which there is one at least."""
    corpora: tuple[AnyCorpus, ...] = getattr(recipe.data, split)
    if corpora:
        return corpora
    other = "valid" if split == "test" else "test"
    way_out = by_caller("name a file that it is evaluated on, by --data", "give `data`")
    if getattr(recipe.data, other):
        way_out = by_caller(f"add --split {other}", f"choose `split={other!r}`")
    if recipe.rules.test_files:
        way_out = by_caller(recipe.rules.test_files, "give `sources` and `references`")
    raise UserError(f"{model}: its recipe has no `data.{split}`: {way_out}.")


def recipe_corpus(model: str, recipe: Recipe, split: str | None, wanted: str | None) -> AnyCorpus:
    """Return the first corpus of a split (`data.test` without one), or the one with this name or number."""
    split = split or "test"
    corpora = recipe_corpora(model, recipe, split)
    known = {corpus.name or str(number): corpus for number, corpus in enumerate(corpora, start=1)}
    if wanted is not None and wanted not in known:
        raise UserError(
            f"{model}: its recipe has no corpus `{wanted}` in `data.{split}`.{suggestion(wanted, list(known))}"
        )
    return corpora[0] if wanted is None else known[wanted]


def check_given(given: AlignedFiles, rules: TaskRules, model: str) -> None:
    """Refuse files that the models' task cannot be evaluated on, or that cannot be opened."""
    if rules.test_files is None:
        raise UserError(
            f"--source and --target are for texts with labels or translations, but {model} is a model that "
            f"{rules.does}: leave them out."
        )
    if given.references and rules.scored != "pairs":
        raise UserError(f"--target is given several times, but {model} is a model that {rules.does}: name one.")
    check_files(given)


def averaged_tests(models: Sequence[str], described: Described, given: AnyCorpus | None, split: str) -> list[Test]:
    """Return the test corpora of each of several models of one task; refuse models whose scores have no mean."""
    rules = described[models[0]][0].rules
    if isinstance(given, AlignedFiles):
        check_given(given, rules, models[0])
    tests: list[Test] = [
        ((given,), "") if given else (recipe_corpora(model, recipe, split), recipe.data.folder)
        for model, (recipe, _) in ((model, described[model]) for model in models)
    ]
    for corpora, folder in tests:
        for corpus in corpora:
            check_files(corpus, folder)
    if len(models) > 1:
        contents = [[(corpus.name, content_key(corpus, folder)) for corpus in corpora] for corpora, folder in tests]
        for model, content in zip(models, contents, strict=True):
            if content != contents[0]:
                way_out = rules.test_files or "score them one by one"
                raise UserError(f"{model} has other test corpora than {models[0]}: {way_out}.")
    twice = next((model for index, model in enumerate(models) if model in models[:index]), None)
    if twice:
        raise UserError(f"{twice} is given twice: the mean of a model and itself says nothing.")
    (first, (recipe, vocabularies)), *others = described.items()
    way_out = "their scores cannot be averaged"
    for model, (other, known) in others:
        if rules.labels and known.labels != vocabularies.labels:
            raise UserError(f"{model} has other classes than {first}: {way_out}.")
        if rules.same_vocabulary and known.first_difference(vocabularies):
            raise UserError(f"{model} has another vocabulary than {first}: {way_out}.")
        for path in rules.same_keys:
            section, key = path.split(".")
            was, here = (getattr(getattr(one, section), key) for one in (recipe, other))
            if here != was:
                raise UserError(f"{model} has `{path}` = {here!r}, but {first} has {was!r}: {way_out}.")
    return tests
