"""`heedful evaluate MODEL`: scores on test sets, for models of every task."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from heedful.base.errors import UserError
from heedful.base.files import write_bytes
from heedful.cli import messages
from heedful.cli.options import (
    DecodingOptions,
    DeviceOption,
    PrecisionOption,
    RawOption,
    TermsOption,
    TestSourceOption,
    TestTargetOption,
    ToOption,
    WithOption,
    WordOptions,
    declared,
    flag,
    with_option_groups,
    words_of,
)
from heedful.cli.output import check_output, progress_bar
from heedful.config.corpora.containers import AlignedFiles
from heedful.tasks.parse.parse import ParseOptions


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
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Translators and captioners: bleu, chrf, ter, exact_match, edit_distance, per, wer (default: those of "
            "the recipe); repeatable.",
        ),
    ] = None,
    to: ToOption = None,
    raw: RawOption = False,
    others: WithOption = None,
    split: Annotated[
        Literal["valid", "test"] | None,
        typer.Option("--split", help="Which corpora of the recipe to use (default: test)."),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            "--stride", metavar="N", help="Tokens by which the window of a language model moves (default: its length)."
        ),
    ] = None,
    unconstrained: Annotated[bool, declared(ParseOptions, "unconstrained")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="How much greater a reader's log P(no answer) must be than its best answer's to give none.",
        ),
    ] = None,
    max_answer: Annotated[
        int | None, typer.Option("--max-answer", metavar="N", min=1, help="Maximum tokens of a reader's answer.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    record: Annotated[
        str | None, typer.Option("--record", metavar="NAME", help="Also write benchmarks/results/NAME.json.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Also write the model's outputs to this file, one line per text."
        ),
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    *,
    decoding: DecodingOptions,
    terms: TermsOption = None,
    words: WordOptions,
) -> None:
    """Score a model on a test set: the recipe's `data.test`, or --source and --target.

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
    check_output(output)
    given = _given_files(source, target, split, to)
    from heedful.cli.reports.scores import CorpusResult, ModelResult, as_text, describe_training, figures, to_json
    from heedful.config.tasks import refuse_evaluation_option
    from heedful.lab.test_sets import averaged_tests, common_rules, describe
    from heedful.metrics.recorded_results import record as record_result
    from heedful.metrics.recorded_results import result_file
    from heedful.tasks.loading import load
    from heedful.tasks.table import task_named

    if record:
        result_file(record)
    options: dict[str, object] = {**decoding, **words_of(terms, words), **({"raw": True} if raw else {})}
    of_tasks = {"stride": stride, "threshold": threshold, "max_answer": max_answer, "metric": metric or None}
    options |= {"unconstrained": True} if unconstrained else {}
    options |= {name: value for name, value in of_tasks.items() if value is not None}
    described = describe(models)
    rules = common_rules(described, "their scores cannot be averaged")
    for name, value in {**options, "to": to, "with": others or None}.items():
        if value is not None:
            refuse_evaluation_option(name, flag(name), rules, models[0])
    if output and not rules.outputs:
        raise UserError(
            f"--output is for what a model says of whole texts, but {models[0]} is a model that {rules.does}: "
            "leave it out."
        )
    tests = averaged_tests(models, described, given, split or "test")
    results: list[ModelResult] = []
    for name, (corpora, folder) in zip(models, tests, strict=True):
        training = describe_training(Path(name))
        with messages.busy(f"loading {name}"):
            model = load(name, device, precision, others or ())
        found = [
            CorpusResult(
                corpus.name or str(number),
                number == 1 and not corpus.name,
                task_named(rules.name).evaluate(model, corpus, folder, options, progress_bar),
            )
            for number, corpus in enumerate(corpora, start=1)
        ]
        results.append(ModelResult(name, model.recipe.train.seed, found, training))
    print(to_json(results) if as_json else as_text(results))
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
    source: str | None, targets: list[str] | None, split: str | None, to: str | None
) -> AlignedFiles | None:
    """Return the corpus of the command line, if there is one."""
    if source is None and not targets:
        if to:
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
