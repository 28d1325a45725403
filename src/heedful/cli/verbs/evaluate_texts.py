"""`heedful evaluate` of classifiers and of masked language models."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from heedful.cli.evaluation import (
    Test,
    corpora_of_recipe,
    output_files,
    record_figures,
    refuse_other_corpora,
    refuse_other_settings,
    refuse_twice,
)
from heedful.cli.input import text_of
from heedful.cli.output import one_column, progress_bar
from heedful.cli.reports.scored import training_of
from heedful.cli.reports.text_scores import Evaluation, JudgedModel, TextScores, as_object, as_text, figures
from heedful.config.corpora import AnyCorpus, TextCorpus
from heedful.config.recipe import Recipe
from heedful.data.corpora.files import check_files
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.texts import Text, labels_of, read_texts
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.errors import UserError
from heedful.files import write_bytes
from heedful.models.bundle import read_bundle, read_description
from heedful.models.networks import MaskedModel
from heedful.tasks.classify.evaluation import ClassEvaluation, evaluate_classifier
from heedful.tasks.classify.model import TextClassifier, load_classifier
from heedful.tasks.fill.evaluation import evaluate_masked
from heedful.tasks.shared.placement import Placement


@dataclass(frozen=True)
class EvaluationRequest:
    """What the command line asks for."""

    given: tuple[TextCorpus, ...]  # texts and labels of files, instead of the recipe's corpora
    split: str
    as_json: bool
    record: str | None
    output: Path | None
    device: str
    precision: str


def evaluate_classifiers(models: Sequence[str], wish: EvaluationRequest) -> None:
    """Classify test sets and score what was said."""
    refuse_twice(models)
    recipes, vocabularies = _described(models)
    for model, of_model in zip(models, vocabularies, strict=True):
        if of_model.labels != vocabularies[0].labels:
            raise UserError(f"{model} has other classes than {models[0]}: such scores have no mean.")
    refuse_other_settings(recipes, [("model", "labels")])
    way_out = "give --source and --target, texts and their labels"
    tests = _tests(recipes, wish, [way_out] * len(models))
    refuse_other_corpora(models, tests, way_out)
    judged = []
    for (model, recipe), (corpora, folder) in zip(recipes.items(), tests, strict=True):
        classifier = load_classifier(model, wish.device, wish.precision)
        results = [_classify(classifier, corpus, folder) for corpus in corpora]
        judged.append(_judged(model, recipe, corpora, results))
    _show(judged, wish)


def evaluate_masked_models(models: Sequence[str], wish: EvaluationRequest) -> None:
    """Mask test sets and count what was foreseen."""
    if wish.given:
        raise UserError("--source and --target are for texts with labels or translations: leave them out.")
    if wish.output:
        raise UserError("--output is for what a model says of whole texts, but this one fills masks: leave it out.")
    refuse_twice(models)
    recipes, vocabularies = _described(models)
    for model, of_model in zip(models, vocabularies, strict=True):
        if of_model.first_difference(vocabularies[0]):
            raise UserError(f"{model} has another vocabulary than {models[0]}: such scores have no mean.")
    refuse_other_settings(recipes, [("train", "masking"), ("data", "max_length"), ("model", "next_sentence")])
    tests = _tests(recipes, wish, [_other_split(recipe, wish.split) for recipe in recipes.values()])
    refuse_other_corpora(models, tests, "score them one by one")
    placement, judged = Placement.of(wish.device, wish.precision), []
    for (model, recipe), (corpora, folder) in zip(recipes.items(), tests, strict=True):
        bundle = read_bundle(Path(model), MaskedModel)
        placement.put(bundle.model)
        results = [evaluate_masked(bundle, corpus, folder) for corpus in corpora]
        judged.append(_judged(model, recipe, corpora, results))
    _show(judged, wish)


def _described(models: Sequence[str]) -> tuple[dict[str, Recipe], list[Vocabularies]]:
    described = [read_description(Path(model)) for model in models]
    recipes = {model: recipe for model, (recipe, _) in zip(models, described, strict=True)}
    return recipes, [vocabularies for _, vocabularies in described]


def _tests(recipes: Mapping[str, Recipe], wish: EvaluationRequest, ways_out: Sequence[str]) -> list[Test]:
    """The test corpora of each model; all files are there."""
    tests: list[Test] = [
        (wish.given, "") if wish.given else corpora_of_recipe(model, recipe, wish.split, way_out)
        for (model, recipe), way_out in zip(recipes.items(), ways_out, strict=True)
    ]
    for corpora, folder in tests:
        for corpus in corpora:
            check_files(corpus, folder)
    return tests


def _other_split(recipe: Recipe, split: str) -> str:
    """The way out where a recipe lacks the corpora of a split."""
    other = "valid" if split == "test" else "test"
    if getattr(recipe.data, other):
        return f"add --split {other}"
    return "there is nothing to evaluate it on, but a recipe with one can go on from it (`train.start_from`)"


# --- classifiers ------------------------------------------------------------------------------------------------------


def _classify(classifier: TextClassifier, corpus: AnyCorpus, folder: str) -> ClassEvaluation:
    texts = list(_given_texts(classifier, corpus) if isinstance(corpus, TextCorpus) else
                 read_texts(corpus, folder, several=classifier.several))  # fmt: skip
    with progress_bar("classifying", len(texts)) as progress:
        return evaluate_classifier(classifier, texts, name=corpus.title, progress=progress)


def _given_texts(classifier: TextClassifier, corpus: TextCorpus) -> Iterator[Text]:
    """Texts of one file, single or pairs with a tab between, and labels of another, of several with commas between."""
    for number, (line, said) in enumerate(read_pairs(corpus), start=1):
        text = text_of(line, classifier.paired, f"{corpus.source}, line {number:,}")
        where = f"{corpus.target}, line {number:,}"
        labels = () if text.blank else labels_of(said, classifier.several, where)
        yield replace(text, labels=labels, line=number)


# --- results ----------------------------------------------------------------------------------------------------------


def _judged(model: str, recipe: Recipe, corpora: Sequence[AnyCorpus], found: Sequence[Evaluation]) -> JudgedModel:
    """What was found of each corpus, which has its name, or its number."""
    results = [
        TextScores(corpus.name or str(number), number == 1 and not corpus.name, evaluation)
        for number, (corpus, evaluation) in enumerate(zip(corpora, found, strict=True), start=1)
    ]
    return JudgedModel(model, recipe.train.seed, results, training_of(Path(model)))


def _show(judged: Sequence[JudgedModel], wish: EvaluationRequest) -> None:
    print(as_object(judged) if wish.as_json else as_text(judged))
    if wish.output:
        corpora = [result.name for result in judged[0].results]
        files = output_files(wish.output, [one.model for one in judged], corpora)
        for file, result in zip(files, (result for one in judged for result in one.results), strict=True):
            assert isinstance(result.evaluation, ClassEvaluation)
            write_bytes(file, "".join(_rows(result.evaluation)).encode())
    if wish.record:
        record_figures(wish.record, figures(judged), [one.seed for one in judged])


def _rows(evaluation: ClassEvaluation) -> Iterator[str]:
    """A line a text: the true labels, those that were said, their probabilities, and the text.

    Labels are in the order of classes on both sides, so that lines can be compared by their columns.
    """
    order = evaluation.judged.labels.index
    for text, found in zip(evaluation.texts, evaluation.found, strict=True):
        shares: Mapping[str, float] = found.probabilities
        said = sorted(found.labels, key=order)
        columns = [
            ",".join(sorted(text.labels, key=order)),
            ",".join(said),
            ",".join(f"{shares[label]:.4f}" for label in said),
            text.text,
            *([] if text.second is None else [text.second]),
        ]
        yield "\t".join(map(one_column, columns)) + "\n"
