"""`heedful evaluate MODEL`: scores on test sets. Of translators here, of other models in `evaluate_texts`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from heedful.cli.evaluation import (
    corpora_of_recipe,
    given_files,
    output_files,
    record_figures,
    refuse_other_corpora,
    refuse_other_settings,
    refuse_twice,
)
from heedful.cli.options import (
    BatchTokensOption,
    BeamOption,
    CoverageOption,
    DeviceOption,
    LengthPenaltyKindOption,
    LengthPenaltyOption,
    LengthShiftOption,
    MaxExtraOption,
    MinLengthOption,
    NoRepeatOption,
    PrecisionOption,
    RawOption,
    ToOption,
    WithOption,
    refuse_idle_length_shift,
)
from heedful.cli.output import one_line, sentence_progress
from heedful.config.corpora import AnyCorpus
from heedful.errors import UserError
from heedful.files import write_bytes

if TYPE_CHECKING:
    from heedful.cli.reports.scored import CorpusResult, ModelResult
    from heedful.config.recipe import Recipe
    from heedful.config.tasks import Task
    from heedful.tasks.translate.evaluation import Evaluation
    from heedful.tasks.translate.model import Translator
    from heedful.tasks.translate.options import SearchOptions


def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Folders that `heedful train` wrote; of several, as seeds of one, also the mean."
        ),
    ],
    source: Annotated[
        str | None, typer.Option("--source", metavar="FILE", help="Sentences to translate, or texts.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="FILE", help="Their references, or labels.")] = None,
    to: ToOption = None,
    raw: RawOption = False,
    others: WithOption = None,
    split: Annotated[
        Literal["valid", "test"] | None,
        typer.Option("--split", help="The recipe's corpora to use (default: test)."),
    ] = None,
    beam: BeamOption = None,
    length_penalty: LengthPenaltyOption = None,
    length_penalty_kind: LengthPenaltyKindOption = None,
    length_shift: LengthShiftOption = None,
    coverage: CoverageOption = None,
    no_repeat: NoRepeatOption = None,
    min_length: MinLengthOption = None,
    max_extra: MaxExtraOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    record: Annotated[
        str | None, typer.Option("--record", metavar="NAME", help="Also write benchmarks/results/NAME.json.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Also write what the model says, a line a text.")
    ] = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Score a model on a test set: the recipe's `data.test`, or --source and --target.

    Of a translator: BLEU and chrF with their signatures, and the perplexity
    of the references. Of a classifier: accuracy and F1, and which classes are
    taken for which. Of a masked language model: how many masks it fills
    rightly, and its perplexity.
    """
    if others and len(models) > 1:
        raise UserError("--with makes one ensemble, but several models are given: name one, and the others by --with.")
    given = given_files(source, target, split, to)
    if output and output.is_dir():
        raise UserError(f"{output}: this is a folder, but must be a file.")
    from heedful.cli.reports.scored import ModelResult, training_of
    from heedful.cli.reports.translation_scores import as_object, as_text, figures
    from heedful.metrics import recorded_results as records
    from heedful.models.bundle import read_description
    from heedful.tasks.translate.model import load  # after the quick checks: it takes seconds

    if record:
        records.result_file(record)
    options: SearchOptions = {
        "raw": raw,
        "beam": beam,
        "length_penalty": length_penalty,
        "length_penalty_kind": length_penalty_kind,
        "length_shift": length_shift,
        "coverage": coverage,
        "no_repeat": no_repeat,
        "min_length": min_length,
        "max_extra": max_extra,
        "batch_tokens": batch_tokens,
    }
    recipes = {model: read_description(Path(model))[0] for model in models}
    task = _common_task(recipes)
    if task != "translate":
        from heedful.cli.verbs.evaluate_texts import EvaluationRequest, evaluate_classifiers, evaluate_masked_models

        _refuse_options_of_translators(models[0], {**options, "raw": raw or None, "to": to, "with": others or None})
        wish = EvaluationRequest(given, split or "test", as_json, record, output, device, precision)
        (evaluate_classifiers if task == "classify" else evaluate_masked_models)(models, wish)
        return
    tests = [(given, "") if given else corpora_of_recipe(model, recipes[model], split or "test") for model in models]
    refuse_other_corpora(models, tests)
    refuse_twice(models)
    refuse_other_settings(recipes, [("evaluate", "bleu_tokenize"), ("evaluate", "detokenize"), ("data", "lowercase")])
    judged: list[ModelResult[Evaluation]] = []
    for model, (corpora, folder) in zip(models, tests, strict=True):
        training = training_of(Path(model))
        translator = load(model, device, precision, others or ())
        refuse_idle_length_shift(length_shift, length_penalty_kind or translator.recipe.decode.length_penalty_kind)
        results = _evaluate(translator, corpora, folder, options)
        judged.append(ModelResult(model, translator.recipe.train.seed, results, training))
    print(as_object(judged) if as_json else as_text(judged))
    if output:
        _write_translations(output, judged)
    if record:
        record_figures(record, figures(judged), [one.seed for one in judged])


# --- which models, and on what ------------------------------------------------------------------------------------


def _common_task(recipes: "Mapping[str, Recipe]") -> "Task":
    """What all models do."""
    (first, recipe), *others = recipes.items()
    for model, other in others:
        if other.task != recipe.task:
            raise UserError(
                f'{model} has `model.family = "{other.model.family}"`, but {first} has "{recipe.model.family}": such '
                "scores have no mean."
            )
    return recipe.task


def _refuse_options_of_translators(model: str, options: Mapping[str, object]) -> None:
    """Options of search would do nothing, silently."""
    idle = next((name for name, value in options.items() if value is not None), None)
    if idle:
        raise UserError(f"--{idle.replace('_', '-')} is of translators, which {model} is not: leave it out.")


def _evaluate(
    translator: "Translator", corpora: Sequence[AnyCorpus], folder: str, options: "SearchOptions"
) -> "list[CorpusResult[Evaluation]]":
    """Score every corpus; each has its name, or its number."""
    from heedful.cli.reports.scored import CorpusResult
    from heedful.data.corpora.files import check_files
    from heedful.data.corpora.pairs import read_pairs
    from heedful.tasks.translate.evaluation import evaluate

    for corpus in corpora:
        check_files(corpus, folder)  # all of them, before anything long begins
    results = []
    for number, corpus in enumerate(corpora, start=1):
        pairs = list(read_pairs(corpus, folder))
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        asked: SearchOptions = {**options, "to": corpus.to or None}
        with sentence_progress(len(pairs)) as progress:
            evaluation = evaluate(translator, sources, references, name=corpus.title, progress=progress, **asked)
        results.append(CorpusResult(corpus.name or str(number), number == 1 and not corpus.name, evaluation))
    return results


def _write_translations(output: Path, judged: "Sequence[ModelResult[Evaluation]]") -> None:
    """One file a model and corpus."""
    corpora = [result.name for result in judged[0].results]
    results = [result for one in judged for result in one.results]
    for path, result in zip(output_files(output, [one.model for one in judged], corpora), results, strict=True):
        write_bytes(path, "".join(one_line(text) + "\n" for text in result.evaluation.translations).encode())
