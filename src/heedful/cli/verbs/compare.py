"""`heedful compare A B`: which of two models is better, and whether the difference is more than chance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from heedful.base.errors import UserError, counted
from heedful.base.files import expand_user
from heedful.cli.messages import note
from heedful.cli.options import (
    DecodingOptions,
    DeviceOption,
    OutputOption,
    PrecisionOption,
    ToOption,
    flag,
    with_option_groups,
)
from heedful.cli.output import check_output, progress_bar, sentence_progress, write_result
from heedful.config.corpora.pairs import TextCorpus
from heedful.data.corpora.formats.lines import locate, read_lines

if TYPE_CHECKING:
    from heedful.lab.compare import Sentences

BleuTokenize = Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"]


@with_option_groups
def command(
    a: Annotated[
        str, typer.Argument(metavar="A", help="Folder of a model, file of translations, or several runs: x,y,z.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The other side, likewise.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="bleu, chrf, ter, exact_match, edit_distance, per, wer; language models: bits_per_byte, "
            "word_perplexity; parsers: f1, exact_match, precision, recall; taggers and classifiers: accuracy, f1; "
            "readers: exact_match, f1; repeatable, the first decides.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="FILE", help="Sentences to translate, tag or parse, or texts to classify."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="FILE",
            help="Their references, labels or trees; repeatable for several references of each sentence.",
        ),
    ] = None,
    to: ToOption = None,
    split: Annotated[
        Literal["valid", "test"] | None,
        typer.Option("--split", help="Which corpora of the recipes to use (default: test)."),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus", metavar="NAME", help="Which of these corpora, by name or number (default: the first)."
        ),
    ] = None,
    bleu_tokenize: Annotated[
        BleuTokenize | None,
        typer.Option("--bleu-tokenize", help="Tokenizer of BLEU (default: that of the recipes; 13a for files)."),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=100, help="Number of draws in each test.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed of the draws.")] = 12345,
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="Number of sentences to show in each direction.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    *,
    decoding: DecodingOptions,
) -> None:
    """Compare two models of one task, or files of translations: scores, tests, and where they differ.

    A side is the folder of a model, a file of translations (one per line), or several training runs of one system,
    separated by commas. Models translate the test set of their recipe, or --source; files alone need --target.

    A side is called better if paired bootstrap and approximate randomisation both give p < 0.05, the 95% interval of
    the difference excludes zero and, with several runs on both sides, Welch's t-test over the runs gives p < 0.05.

    Language models are compared by how well they predict the documents of the test set of their recipes. Parsers,
    taggers, classifiers and readers are compared by their evaluations, sentence by sentence: parsers by labelled F1.
    """
    check_output(output)
    target = target or None
    side_a, side_b = _names(a, "A"), _names(b, "B")
    names = tuple(dict.fromkeys([*side_a, *side_b]))
    models = tuple(name for name in names if _is_model(name))
    if _are_language_models(models):
        idle = {"--source": source, "--target": target, "--to": to, "--bleu-tokenize": bleu_tokenize}
        of_search = {flag(name): value for name, value in decoding.given().items()}
        _refuse_idle({**idle, **of_search}, models[0], "a language model")
        _refuse_files(names, models, "a language model")
        from heedful.cli.reports.comparison import json_of, text_of
        from heedful.lab.compare_documents import compare_documents

        found, title = compare_documents(
            side_a,
            side_b,
            metrics=metric or (),
            split=split or "test",
            corpus=corpus,
            samples=samples,
            seed=seed,
            device=device,
            precision=precision,
            say=_say,
            bar=lambda documents: progress_bar("reading", documents),
        )
        write_result((json_of if as_json else text_of)(found, title), output)
        return
    if _are_evaluated(models):
        _refuse_idle({"--to": to, "--bleu-tokenize": bleu_tokenize}, models[0], "a model of another task")
        _refuse_files(names, models, "a model of another task than translation")
        _check_options(models, source, target, to, {"--split": split, "--corpus": corpus}, {})
        if target and len(target) > 1:
            raise UserError(f"--target is given several times, but {models[0]} does not translate: name one.")
        from heedful.cli.reports.comparison import json_of, text_of
        from heedful.lab.compare_evaluations import EvaluationRequest, compare_evaluations

        _check_length_shift(models, decoding)
        pairs = TextCorpus(source=_absolute(source), target=_absolute(target[0])) if source and target else None
        found, title = compare_evaluations(
            side_a,
            side_b,
            EvaluationRequest(metric or (), pairs, split or "test", corpus, samples, seed, examples, device, precision),
            decoding.given(),
            _say,
            progress_bar,
        )
        write_result((json_of if as_json else text_of)(found, title), output)
        return
    _check_options(models, source, target, to, {"--split": split, "--corpus": corpus}, {**decoding.given(), "to": to})
    from heedful.cli.reports.comparison import json_of, text_of
    from heedful.lab.compare import DEFAULT_METRICS, ComparisonInput, System, check_lines
    from heedful.metrics.summed_metrics import metric_names

    metrics = metric_names(metric or DEFAULT_METRICS)
    given = None if target is None else _read_sentences(source, target, to)
    files = [System(name, _lines(name)) for name in names if name not in models]
    if given:
        check_lines(files, given.references)
    if given and not models:
        prepared = ComparisonInput({file.name: file for file in files}, given, bleu_tokenize or "13a")
    else:
        from heedful.lab.test_sets import translate_test_set  # after the quick checks: importing torch takes seconds

        _check_length_shift(models, decoding)
        prepared = translate_test_set.translate_test_set(
            models,
            files,
            given,
            translate_test_set.Messages(_say, sentence_progress),
            split=split or "test",
            corpus=corpus,
            bleu_tokenize=bleu_tokenize,
            device=device,
            precision=precision,
            **decoding.given(),
        )
    found = prepared.compare(side_a, side_b, metrics, samples, seed, examples)
    write_result((json_of if as_json else text_of)(found, prepared.sentences.name), output)


def _are_language_models(models: Sequence[str]) -> bool:
    if not models:
        return False
    from heedful.lab.compare_documents import are_language_models

    return are_language_models(models)


def _are_evaluated(models: Sequence[str]) -> bool:
    if not models:
        return False
    from heedful.lab.compare_evaluations import are_evaluated

    return are_evaluated(models)


def _absolute(file: str) -> str:
    return str(Path(file).absolute())


def _refuse_idle(options: Mapping[str, object], model: str, kind: str) -> None:
    idle = next((option for option, value in options.items() if value is not None), None)
    if idle is not None:
        raise UserError(f"{idle} is for translators, but {model} is {kind}: leave it out.")


def _refuse_files(names: Sequence[str], models: Sequence[str], kind: str) -> None:
    file = next((name for name in names if name not in models), None)
    if file is not None:
        raise UserError(f"{file} is a file, but {models[0]} is {kind}: compare it with another model.")


def _say(message: str) -> None:
    note(f"{message}.")


# --- what is compared ---------------------------------------------------------------------------------------------


def _names(side: str, label: str) -> list[str]:
    """Return the runs of a side."""
    parts = [part.strip() for part in side.split(",")]
    names = [
        str(expand_user(part)) if part.startswith("~") else part for part in parts
    ]  # a shell expands only the first
    if not all(names):
        raise UserError(f"{label} is `{side}`, which has an empty name: put commas only between names.")
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice:
        raise UserError(f"{label} names {twice} twice: the runs of a side must be different.")
    return names


def _is_model(name: str) -> bool:
    path = locate(name).path
    if not path.exists():
        raise UserError(f"{name} is neither the folder of a model nor a file of translations: nothing has that name.")
    return path.is_dir()


def _check_options(
    models: Sequence[str],
    source: str | None,
    target: Sequence[str] | None,
    to: str | None,
    of_recipes: Mapping[str, str | None],
    of_models: Mapping[str, object],
) -> None:
    """Refuse options that do not go together, before any long work starts."""
    if target is None and source is not None:
        raise UserError("--target is missing: sentences need references.")
    if target is None and not models:
        raise UserError("--target is missing: files of translations need references.")
    if target is not None and source is None and models:
        raise UserError(f"--source is missing: {models[0]} is a model, which needs sentences to translate.")
    if target is None and to:
        raise UserError("--to is for --source and --target: the corpora of the recipes have their own `to`.")
    for option in (name for name, value in of_recipes.items() if value is not None):
        if target is not None:
            raise UserError(f"{option} chooses among the corpora of the recipes: leave it out with --target.")
    for option in (name for name, value in of_models.items() if value is not None):
        if not models:
            raise UserError(f"{flag(option)} is for models, but A and B are files: leave it out.")


def _check_length_shift(models: Sequence[str], decoding: DecodingOptions) -> None:
    from heedful.models.bundle import read_description

    for model in models if decoding.length_shift is not None else ():
        decoding.check_length_shift(read_description(Path(model))[0].decode.length_penalty_kind)


def _read_sentences(source: str | None, targets: Sequence[str], to: str | None) -> "Sentences":
    from heedful.lab.compare import Sentences

    files = {name: _lines(name) for name in ([] if source is None else [source]) + [*targets]}
    (first, lines), *others = files.items()
    for name, here in others:
        if len(here) != len(lines):
            raise UserError(
                f"{first} has {counted(len(lines), 'line')} but {name} has {len(here):,}: line n of one belongs "
                "to line n of the other."
            )
    several = tuple(zip(*(files[name] for name in targets), strict=True))
    references = several if len(targets) > 1 else files[targets[0]]
    return Sentences(" + ".join(files), None if source is None else files[source], references, to or "")


def _lines(name: str) -> tuple[str, ...]:
    return tuple(read_lines(replace(locate(name), hint="", stream=True)))  # the hint is about recipes
