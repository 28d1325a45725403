"""`heedful evaluate MODEL`: scores on test sets, for models of every task."""

import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Annotated, Final

import typer

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.cli import messages
from heedful.cli.answering.inputs import DataOption, DataSetOption, check_needs_data
from heedful.cli.options import (
    LONGEST_ANSWER,
    THRESHOLD,
    AdapterOption,
    DecodingOptions,
    DeviceOption,
    PrecisionOption,
    RawOption,
    ShortlistOption,
    SplitOption,
    StrideOption,
    TestSourceOption,
    TestTargetOption,
    ToOption,
    WithOption,
    Wording,
    declared,
    flag,
    json_option,
    option,
    with_option_groups,
)
from heedful.cli.output import Line, check_output, progress_bar, write_result
from heedful.config.corpora.containers import AlignedFiles, AnyCorpus
from heedful.tasks.parse.parse import ParseOptions

if TYPE_CHECKING:
    from heedful.metrics.scores import Score
    from heedful.tasks.shared.evaluation import Evaluation


@with_option_groups
def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Folders of models; several, such as seeds of one recipe, also give means and deviations.",
        ),
    ],
    source: TestSourceOption = None,
    target: TestTargetOption = None,
    data: DataOption = None,
    settings: DataSetOption = None,
    metric: Annotated[
        list[str] | None,
        option(
            "Names of metrics: those to show, by default all that the task has; of translators and captioners bleu, "
            "chrf, ter, exact_match, edit_distance, per, wer, by default those of the recipe; repeatable.",
            metavar="NAME",
        ),
    ] = None,
    to: ToOption = None,
    raw: RawOption = False,
    shortlist: ShortlistOption = False,
    others: WithOption = None,
    split: SplitOption = None,
    stride: StrideOption = None,
    unconstrained: Annotated[bool, declared(ParseOptions, "unconstrained")] = False,
    threshold: Annotated[float | None, THRESHOLD] = None,
    max_answer: Annotated[int | None, LONGEST_ANSWER] = None,
    as_json: Annotated[bool, json_option("one object")] = False,
    record: Annotated[  # of our own benchmarks, whose results are a folder of the repository
        str | None, option("Also write benchmarks/results/NAME.json.", metavar="NAME", hidden=True)
    ] = None,
    output: Annotated[
        Path | None,
        option("Also write the model's outputs to this file, one line per text.", "--outputs", metavar="FILE"),
    ] = None,
    adapter: AdapterOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    *,
    decoding: DecodingOptions,
    words: Wording,
) -> None:
    """Score a model on a test set: the recipe's `data.test`, a file with the same columns (--data), or two files.

    Translators: BLEU and chrF, or other metrics, with their signatures, and the
    perplexity of the references. Classifiers: accuracy and F1, and which classes are confused.
    Captioners: exact matches, BLEU and chrF.
    Taggers: accuracy, and precision, recall and F1 of spans.
    Parsers: labelled precision, recall and F1 of brackets, as evalb has them.
    Masked language models: how many masks are filled correctly, and perplexity.
    Language models: perplexity per token and word, bits per byte.
    Readers: exact match and token F1.
    """
    if others and len(models) > 1:
        raise UserError("--with makes one ensemble, but several models are given: name one, and the others by --with.")
    if adapter is not None and len(models) > 1:
        raise UserError("--adapter is an adapter of one model, but several models are given: name one.")
    check_output(output)
    given: AnyCorpus | None = _given_files(source, target, split, to, data)
    check_needs_data(data, {"--set": settings})
    from heedful.config.tasks import choose_metrics, refuse_evaluation_option
    from heedful.lab.test_sets import averaged_tests, common_rules, describe
    from heedful.metrics.recorded_results import record as record_result
    from heedful.metrics.recorded_results import result_file
    from heedful.tasks.loading import load, task_named

    if record:
        result_file(record)
    flags = {"raw": raw or None, "shortlist": shortlist or None, "unconstrained": unconstrained or None}
    of_tasks = {**flags, "stride": stride, "threshold": threshold, "max_answer": max_answer}
    options: dict[str, object] = {**decoding, **words.options()}
    options |= {name: value for name, value in of_tasks.items() if value is not None}
    described = describe(models) if adapter is None else {models[0]: describe([adapter])[adapter]}
    rules = common_rules(described, "their scores cannot be averaged")
    chosen: tuple[str, ...] = ()
    if metric and "metric" in rules.evaluation_options:
        options["metric"] = metric
    elif metric:  # its evaluation computes all of them
        chosen = choose_metrics(metric, rules, models[0])
    for name, value in {**options, "to": to, "with": others or None}.items():
        if value is not None:
            refuse_evaluation_option(name, flag(name), rules, models[0])
    if output and not rules.outputs:
        raise UserError(
            f"--outputs is for what a model says of whole texts, but {models[0]} is a model that {rules.does}: "
            "leave it out."
        )
    if data is not None:
        from heedful.data.corpora.given_file import given_corpus

        given = given_corpus(described[models[0]][0], data, settings or ())
        given = given.model_copy(update={"to": to}) if to else given
    tests = averaged_tests(models, described, given, split or "test")
    results: list[ModelResult] = []
    for name, (corpora, folder) in zip(models, tests, strict=True):
        training = describe_training(Path(adapter or name))
        with messages.busy(f"loading {name}"):
            model = load(name, device, precision, others or (), adapter=adapter)
        found = [
            CorpusResult(
                corpus.name or str(number),
                number == 1 and not corpus.name,
                task_named(rules.name).evaluate(model, corpus, folder, options, progress_bar).choose(chosen),
            )
            for number, corpus in enumerate(corpora, start=1)
        ]
        results.append(ModelResult(name, model.recipe.train.seed, found, training))
    write_result(to_json(results) if as_json else as_text(results))
    if output:
        evaluated = [result for one in results for result in one.results]
        files = _output_files(output, models, [result.name for result in results[0].results])
        for path, result in zip(files, evaluated, strict=True):
            write_bytes(path, "".join(f"{line}\n" for line in result.evaluation.outputs()).encode())
    if record:
        command_line = shlex.join(["heedful", *sys.argv[1:]])
        path = record_result(record, figures(results), command=command_line, seeds=[one.seed for one in results])
        messages.note(f"recorded in {path}.")


def _given_files(
    source: str | None, targets: list[str] | None, split: str | None, to: str | None, data: str | None
) -> AlignedFiles | None:
    """Return the corpus of --source and --target, if they are given."""
    if data is not None and (source is not None or targets):
        raise UserError("--data is a whole test set: leave out --source and --target, or give them without --data.")
    if data is not None and split:
        raise UserError("--split chooses among the recipe's corpora: leave it out next to --data.")
    if source is None and not targets:
        if to and data is None:
            raise UserError("--to is for --source and --target: the recipe's corpora have their own `to`.")
        return None
    if source is None or not targets:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: --source and --target go together, line by line.")
    if split:
        raise UserError("--split chooses among the recipe's corpora: leave it out next to --source and --target.")
    first, *others = (str(Path(name).absolute()) for name in targets)
    return AlignedFiles(source=str(Path(source).absolute()), target=first, references=tuple(others), to=to or "")


def _output_files(output: Path, models: Sequence[str], corpora: Sequence[str]) -> Iterator[Path]:
    """One file per model and corpus, in order; where there are several, their names or numbers precede the suffix."""
    names = [Path(model).name for model in models]
    if len(set(names)) < len(names):  # as of seed-1/single and seed-2/single
        names = [str(number) for number in range(1, len(names) + 1)]
    for name in names:
        for corpus in corpora:
            parts = [name] if len(models) > 1 else []
            parts += [corpus] if len(corpora) > 1 else []
            yield output.with_name(".".join([output.stem, *parts]) + output.suffix)


# --- scores of models on test sets: as a person reads them, as a program does, and as figures to record ---------------


_OF_TRAINING: Final = (("minutes", 2), ("steps", 0), ("tokens_s", 0))  # and their digits


@dataclass(frozen=True)
class CorpusResult:
    """The scores of a model on one corpus."""

    name: str  # its own, or its number
    unnamed: bool  # the first, without a name: its figures need no suffix
    evaluation: "Evaluation"


@dataclass(frozen=True)
class ModelResult:
    """The scores of one model."""

    model: str
    seed: int
    results: Sequence[CorpusResult]
    training: Mapping[str, float]  # what its folder tells of it: minutes, steps, tokens per second


def describe_training(folder: Path) -> dict[str, float]:
    """How long the run in a folder trained, and how fast, as far as the folder tells."""
    from heedful.runs.progress import recorded_metrics
    from heedful.runs.run import CHECKPOINTS
    from heedful.training.checkpoints import seconds_trained

    seconds, readings = seconds_trained(folder / CHECKPOINTS), recorded_metrics(folder, "train")
    found = {} if seconds is None else {"minutes": seconds / 60}
    if readings:
        found["steps"] = readings[-1]["step"]
    if speeds := [speed for one in readings if (speed := one.get("tokens_per_second")) is not None]:
        found["tokens_s"] = median(speeds)
    return found


def figures(models: Sequence[ModelResult]) -> dict[str, float]:
    """Figures by name, with the corpus's name as suffix; of several models the means and their deviations."""
    found: dict[str, float] = {}
    for results in zip(*(model.results for model in models), strict=True):
        suffix = "" if results[0].unnamed else f"_{results[0].name}"
        for score, values in _by_score(results):
            found[f"{score.name}{suffix}"] = round(mean(values), 4)
            if len(models) > 1:
                found[f"{score.name}_sd{suffix}"] = round(_deviation(values), 4)
    for name, digits in _OF_TRAINING:
        known = [model.training[name] for model in models if name in model.training]
        if len(known) == len(models):
            found[name] = round(mean(known), digits)
    return found


# --- for a person -----------------------------------------------------------------------------------------------------


def as_text(models: Sequence[ModelResult]) -> str:
    """One block per model and corpus, then the means."""
    blocks = [_block(model, result, len(models) > 1) for model in models for result in model.results]
    if len(models) > 1:
        corpora = list(zip(*(model.results for model in models), strict=True))
        blocks += [_means(results, len(corpora) > 1) for results in corpora]
    return "\n\n".join(blocks)


def _block(model: ModelResult, result: CorpusResult, of_several: bool) -> str:
    titles = [model.model] if of_several else []
    titles += [result.name] if len(model.results) > 1 else []
    scores = result.evaluation.scores()
    lines = [_line(score, score.show(), score.note, scores) for score in scores]
    return "\n".join([*([": ".join(titles)] if titles else []), *lines, *result.evaluation.remarks()])


def _means(results: Sequence[CorpusResult], of_several: bool) -> str:
    first = results[0].evaluation.scores()
    lines = [
        _line(score, score.show(mean(values)), f"± {score.show(_deviation(values)).rstrip('%')}", first)
        for score, values in _by_score(results)
    ]
    name = f", {results[0].name}" if of_several else ""
    return "\n".join([f"mean of {len(results)} models{name}", *lines])


def _line(score: "Score", value: str, note: str, scores: "Sequence[Score]") -> str:
    width = max(len(other.label) for other in scores) + 2
    return f"{score.label:{width}}{value:>8}  {note}".rstrip()


# --- for a program ----------------------------------------------------------------------------------------------------


def to_json(models: Sequence[ModelResult]) -> Line:
    """One JSON object: of a single model, or of all with the figures over them."""
    shown = [
        {"model": model.model, "corpora": [{"name": r.name, **r.evaluation.to_json()} for r in model.results]}
        for model in models
    ]
    over_all = {name: figure if math.isfinite(figure) else None for name, figure in figures(models).items()}
    return shown[0] if len(shown) == 1 else {"models": shown, "figures": over_all}


# --- over models ------------------------------------------------------------------------------------------------------


def _by_score(results: Sequence[CorpusResult]) -> "list[tuple[Score, list[float]]]":
    """Each score of the first result, and its values in all."""
    of_models = [result.evaluation.scores() for result in results]
    return [(scores[0], [score.value for score in scores]) for scores in zip(*of_models, strict=True)]


def _deviation(values: Sequence[float]) -> float:
    """The sample deviation; not a number where a value is infinite or not a number."""
    return stdev(values) if all(map(math.isfinite, values)) else math.nan
