"""`heedful evaluate MODEL`: BLEU, chrF and perplexity on test sets."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from heedful.cli.searching import (
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
    one_line,
    refuse_idle_length_shift,
    sentence_progress,
)
from heedful.config.schema import AnyCorpus, TextCorpus
from heedful.errors import UserError
from heedful.files import write_bytes

if TYPE_CHECKING:
    from heedful.api.model import Model
    from heedful.api.request import Options
    from heedful.cli.scores import Judged, Scored

_Test = tuple[tuple[AnyCorpus, ...], str]  # corpora, and the folder that their files are in


def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Folders that `heedful train` wrote; of several, as seeds of one, also the mean."
        ),
    ],
    source: Annotated[str | None, typer.Option("--source", metavar="FILE", help="Sentences to translate.")] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="FILE", help="Their references.")] = None,
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
        Path | None, typer.Option("--output", metavar="FILE", help="Also write the translations, one a line.")
    ] = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Translate a test set and score it: BLEU and chrF with their signatures, and the perplexity of the references.

    The test set is the recipe's `data.test`, or --source and --target.
    """
    if others and len(models) > 1:
        raise UserError("--with makes one ensemble, but several models are given: name one, and the others by --with.")
    given = _given(source, target, split, to)
    if output and output.is_dir():
        raise UserError(f"{output}: this is a folder, but must be a file.")
    from heedful.api.model import load  # after the quick checks: it takes seconds
    from heedful.cli.scores import Judged, as_object, as_text, figures, training_of
    from heedful.evaluate import record as records

    if record:
        records.result_file(record)
    options: Options = {
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
    tests = [(given, "") if given else _of_recipe(model, split or "test") for model in models]
    _refuse_other_corpora(models, tests)
    _refuse_other_scores(models)
    judged: list[Judged] = []
    for model, (corpora, folder) in zip(models, tests, strict=True):
        training = training_of(Path(model))
        translator = load(model, device, precision, others or ())
        refuse_idle_length_shift(length_shift, length_penalty_kind or translator.recipe.decode.length_penalty_kind)
        results = _evaluate(translator, corpora, folder, options)
        judged.append(Judged(model, translator.recipe.train.seed, results, training))
    print(as_object(judged) if as_json else as_text(judged))
    if output:
        _write_translations(output, judged)
    if record:
        command_line = shlex.join(["heedful", *sys.argv[1:]])
        seeds = [one.seed for one in judged]
        path = records.record(record, figures(judged), command=command_line, seeds=seeds)
        print(f"heedful: recorded in {path}.", file=sys.stderr)


# --- corpora ------------------------------------------------------------------------------------------------------


def _given(source: str | None, target: str | None, split: str | None, to: str | None) -> tuple[TextCorpus, ...]:
    """The corpus of the command line, or nothing."""
    if source is None and target is None:
        if to:
            raise UserError("--to is for --source and --target: the recipe's corpora have their own `to`.")
        return ()
    if source is None or target is None:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: sentences need references, and references need sentences.")
    if split:
        raise UserError("--split chooses among the recipe's corpora: leave it out beside --source and --target.")
    return (TextCorpus(source=str(Path(source).absolute()), target=str(Path(target).absolute()), to=to or ""),)


def _of_recipe(model: str, split: str) -> _Test:
    from heedful.models.bundle import read_description

    data = read_description(Path(model))[0].data
    corpora: tuple[AnyCorpus, ...] = getattr(data, split)
    if not corpora:
        raise UserError(f"{model}: its recipe has no `data.{split}`: give --source and --target.")
    return corpora, data.folder


def _evaluate(translator: "Model", corpora: Sequence[AnyCorpus], folder: str, options: "Options") -> "list[Scored]":
    """Score every corpus; each has its name, or its number."""
    from heedful.api.evaluation import evaluate
    from heedful.cli.scores import Scored
    from heedful.data.readers import check_files, corpus_name, read_pairs

    for corpus in corpora:
        check_files(corpus, folder)  # all of them, before anything long begins
    results = []
    for number, corpus in enumerate(corpora, start=1):
        pairs = list(read_pairs(corpus, folder))
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        asked: Options = {**options, "to": corpus.to or None}
        with sentence_progress(len(pairs)) as progress:
            evaluation = evaluate(translator, sources, references, name=corpus_name(corpus), progress=progress, **asked)
        results.append(Scored(corpus.name or str(number), number == 1 and not corpus.name, evaluation))
    return results


def _refuse_other_corpora(models: Sequence[str], tests: Sequence[_Test]) -> None:
    """Only scores of the same test sets have a mean: the same names and sentences, wherever the files are."""
    from heedful.data.readers import content_key

    if len(models) == 1:
        return
    contents = [[(corpus.name, content_key(corpus, folder)) for corpus in corpora] for corpora, folder in tests]
    for model, content in zip(models, contents, strict=True):
        if content != contents[0]:
            raise UserError(f"{model} has other test corpora than {models[0]}: give --source and --target.")


def _refuse_other_scores(models: Sequence[str]) -> None:
    """Only scores of one kind, of different models, have a mean."""
    from heedful.models.bundle import read_description

    twice = next((model for place, model in enumerate(models) if model in models[:place]), None)
    if twice:
        raise UserError(f"{twice} is given twice: the mean of a model and itself says nothing.")
    recipes = [read_description(Path(model))[0] for model in models]
    for model, recipe in zip(models, recipes, strict=True):
        for section, key in (("evaluate", "bleu_tokenize"), ("evaluate", "detokenize"), ("data", "lowercase")):
            first, here = (getattr(getattr(one, section), key) for one in (recipes[0], recipe))
            if here != first:
                raise UserError(
                    f"{model} has `{section}.{key}` = {here!r}, but {models[0]} has {first!r}: "
                    "such scores have no mean."
                )


def _write_translations(output: Path, judged: Sequence["Judged"]) -> None:
    """One file a model and corpus; where there are several, their names, or numbers, stand before the suffix."""
    models = [Path(one.model).name for one in judged]
    if len(set(models)) < len(models):  # as of seed-1/single and seed-2/single
        models = [str(number) for number in range(1, len(models) + 1)]
    for one, model in zip(judged, models, strict=True):
        for result in one.results:
            names = [model] if len(judged) > 1 else []
            names += [result.name] if len(one.results) > 1 else []
            path = output.with_name(".".join([output.stem, *names]) + output.suffix)
            write_bytes(path, "".join(one_line(text) + "\n" for text in result.evaluation.translations).encode())
