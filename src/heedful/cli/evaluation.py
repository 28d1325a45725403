"""What `heedful evaluate` asks for: the models, their test corpora, and what is refused before anything long begins."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.base.errors import UserError
from heedful.cli.messages import note
from heedful.cli.options import flag
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.pairs import TextCorpus
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.config.tasks import refuse_evaluation_option
from heedful.data.corpora.files import check_files, content_key
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.recorded_results import record
from heedful.models.bundle import read_description
from heedful.tasks.translate.rules import TRANSLATE

Test = tuple[tuple[AnyCorpus, ...], str]  # corpora, and the folder that their files are in


@dataclass(frozen=True)
class EvaluationRequest:
    """What the command line asks for."""

    models: Sequence[str]
    given: tuple[TextCorpus, ...]  # the files of --source and --target, instead of the recipe's corpora
    split: str
    output: Path | None
    options: Mapping[str, object]  # of searches and of tasks, by the names of their flags; None where one is not given


def find_tests(request: EvaluationRequest) -> tuple[TaskRules, list[Test]]:
    """What all models do, and the test corpora of each; refuses what has no scores, or scores without a mean."""
    described = {model: read_description(Path(model)) for model in request.models}
    recipes = {model: recipe for model, (recipe, _) in described.items()}
    rules = _common_rules(recipes)
    _refuse_what_the_task_lacks(request, rules)
    tests = [_tests_of(model, recipes[model], request) for model in request.models]
    for corpora, folder in tests:
        for corpus in corpora:
            check_files(corpus, folder)
    _refuse_other_corpora(request.models, tests, rules.test_files or "score them one by one")
    _refuse_twice(request.models)
    _refuse_other_vocabularies({model: vocabularies for model, (_, vocabularies) in described.items()}, rules)
    _refuse_other_settings(recipes, rules.same_keys)
    return rules, tests


def _common_rules(recipes: Mapping[str, Recipe]) -> TaskRules:
    (first, recipe), *others = recipes.items()
    for model, other in others:
        if other.rules != recipe.rules:
            raise UserError(
                f"{model} is a model that {other.rules.does}, but {first} is one that {recipe.rules.does}: their "
                "scores cannot be averaged."
            )
    return recipe.rules


def _refuse_what_the_task_lacks(request: EvaluationRequest, rules: TaskRules) -> None:
    for name, value in request.options.items():
        if value is not None:
            refuse_evaluation_option(name, flag(name), rules, request.models[0])
    if request.given and rules.test_files is None:
        raise UserError(
            f"--source and --target are for texts with labels or translations, but {request.models[0]} is a model that "
            f"{rules.does}: leave them out."
        )
    if any(corpus.references for corpus in request.given) and rules.name != TRANSLATE.name:
        raise UserError(
            f"--target is given several times, but {request.models[0]} is a model that {rules.does}: name one."
        )
    if request.output and not rules.outputs:
        raise UserError(
            f"--output is for what a model says of whole texts, but {request.models[0]} is a model that {rules.does}: "
            "leave it out."
        )


def _tests_of(model: str, recipe: Recipe, request: EvaluationRequest) -> Test:
    """The corpora that a model is evaluated on."""
    if request.given:
        return request.given, ""
    corpora: tuple[AnyCorpus, ...] = getattr(recipe.data, request.split)
    if not corpora:
        way_out = recipe.rules.test_files or _other_split(recipe, request.split)
        raise UserError(f"{model}: its recipe has no `data.{request.split}`: {way_out}.")
    return corpora, recipe.data.folder


def _other_split(recipe: Recipe, split: str) -> str:
    """The way out where a recipe lacks the corpora of a split."""
    other = "valid" if split == "test" else "test"
    if getattr(recipe.data, other):
        return f"add --split {other}"
    return "there is nothing to evaluate it on, but a recipe with one can start from it (`train.start_from`)"


def _refuse_other_corpora(models: Sequence[str], tests: Sequence[Test], way_out: str) -> None:
    """Only scores on the same test sets have a mean: the same names and sentences, wherever the files are."""
    if len(models) == 1:
        return
    contents = [[(corpus.name, content_key(corpus, folder)) for corpus in corpora] for corpora, folder in tests]
    for model, content in zip(models, contents, strict=True):
        if content != contents[0]:
            raise UserError(f"{model} has other test corpora than {models[0]}: {way_out}.")


def _refuse_twice(models: Sequence[str]) -> None:
    """The mean of a model and itself says no more than the model."""
    twice = next((model for index, model in enumerate(models) if model in models[:index]), None)
    if twice:
        raise UserError(f"{twice} is given twice: the mean of a model and itself says nothing.")


def _refuse_other_vocabularies(described: Mapping[str, Vocabularies], rules: TaskRules) -> None:
    (first, vocabularies), *others = described.items()
    for model, other in others:
        if rules.labels and other.labels != vocabularies.labels:
            raise UserError(f"{model} has other classes than {first}: their scores cannot be averaged.")
        if rules.same_vocabulary and other.first_difference(vocabularies):
            raise UserError(f"{model} has another vocabulary than {first}: their scores cannot be averaged.")


def _refuse_other_settings(recipes: Mapping[str, Recipe], keys: Sequence[str]) -> None:
    """Refuse models whose scores are of different kinds: these keys of their recipes must be equal."""
    (model, first), *others = recipes.items()
    for other, recipe in others:
        for path in keys:
            section, key = path.split(".")
            was, here = (getattr(getattr(one, section), key) for one in (first, recipe))
            if here != was:
                raise UserError(
                    f"{other} has `{path}` = {here!r}, but {model} has {was!r}: their scores cannot be averaged."
                )


def output_files(output: Path, models: Sequence[str], corpora: Sequence[str]) -> Iterator[Path]:
    """One file per model and corpus, in order; where there are several, their names or numbers precede the suffix."""
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
    path = record(name, figures, command=shlex.join(["heedful", *sys.argv[1:]]), seeds=seeds)
    note(f"recorded in {path}.")
