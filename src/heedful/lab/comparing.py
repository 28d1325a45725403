"""`heedful.compare`: which of two models is better, and whether the difference is more than chance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from reprlib import repr as shortened
from typing import Literal, Unpack

from heedful.base.arguments import check_one_each, check_path, check_several, check_text, check_texts, check_whole
from heedful.base.errors import UserError
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.lab.compare import (
    DEFAULT_METRICS,
    Comparison,
    ComparisonInput,
    Sentences,
    System,
    check_lines,
)
from heedful.lab.compare_documents import are_language_models, compare_documents
from heedful.lab.compare_evaluations import EvaluationRequest, are_evaluated, compare_evaluations
from heedful.lab.test_sets.translate_test_set import Messages, translate_test_set
from heedful.metrics.edits import Reference
from heedful.metrics.significance import SAMPLES, SEED
from heedful.metrics.summed_metrics import metric_names
from heedful.tasks.shared.sequences.search_options import SearchOptions
from heedful.tasks.shared.shown_options import show_options

OneRun = System | str | PathLike[str]


@show_options(SearchOptions)
def compare(
    a: OneRun | Sequence[OneRun],
    b: OneRun | Sequence[OneRun],
    *,
    sources: Sequence[str] | None = None,
    references: Sequence[str] | Sequence[Sequence[str]] | None = None,
    split: Literal["valid", "test"] = "test",
    corpus: str | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    bleu_tokenize: str | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
    examples: int = 5,
    device: str = "auto",
    precision: str = "auto",
    **options: Unpack[SearchOptions],
) -> Comparison:
    """Compare two models of one task on the same texts: scores, significance, and where they differ.

    A side is the folder of a model, a file of translations, translations in memory (`heedful.System("ours", lines)`),
    or a list of these: several training runs of one system. Models translate the sentences that their recipes share
    (`split` and `corpus` choose which), or `sources`, which need `references`: a text for each, or a list of several.
    `metrics` are "bleu", "chrf", "ter", "exact_match", "edit_distance", "per" and "wer"; the first decides. Language
    models are compared by how well they predict the documents that their recipes share; their metrics are
    "bits_per_byte" and "word_perplexity". Parsers ("f1", "exact_match", "precision", "recall"), taggers ("f1",
    "accuracy"), classifiers ("accuracy", "f1") and readers ("exact_match", "f1") are compared by their evaluations on
    the corpus that their recipes share. `samples`, `seed` and `examples` are the draws of the tests and the number of
    sentences shown.
    """
    check_whole("samples", samples, least=100)
    runs_a, runs_b = _runs(a, "a"), _runs(b, "b")
    models = [name for name, run in {**runs_a, **runs_b}.items() if run is None]
    if are_language_models(models):
        _refuse_translations({**runs_a, **runs_b}, sources, references, bleu_tokenize, options)
        return compare_documents(
            [*runs_a],
            [*runs_b],
            metrics=() if metrics == DEFAULT_METRICS else metrics,
            split=split,
            corpus=corpus,
            samples=samples,
            seed=seed,
            device=device,
            precision=precision,
            bar=_no_bar,
        )[0]
    if are_evaluated(models):
        _refuse_translations({**runs_a, **runs_b}, sources, references, bleu_tokenize, {})
        request = EvaluationRequest(
            () if metrics == DEFAULT_METRICS else metrics,
            None,
            split,
            corpus,
            samples,
            seed,
            examples,
            device,
            precision,
        )
        return compare_evaluations([*runs_a], [*runs_b], request, options)[0]
    names = metric_names(metrics)
    same = next((name for name, run in runs_a.items() if runs_b.get(name, run) != run), None)
    if same is not None:
        raise UserError(f"`a` and `b` have different translations of one name, {same}: give them different names.")
    every = {**runs_a, **runs_b}
    systems = [run for run in every.values() if run is not None]
    given = _sentences(sources, references, options.get("to"))
    if given is None and not models:
        raise UserError("`references` is missing: translations without a model are compared with references.")
    if given and given.sources is None and models:
        raise UserError(f"`sources` is missing: {models[0]} is a model, which needs sentences to translate.")
    if given and not models:
        check_lines(systems, given.references)
        prepared = ComparisonInput({system.name: system for system in systems}, given, bleu_tokenize or "13a")
    else:
        asked: SearchOptions = {**options}
        asked.pop("to", None)
        prepared = translate_test_set(
            models,
            systems,
            given,
            Messages(lambda message: None, _no_bar),
            split=split,
            corpus=corpus,
            bleu_tokenize=bleu_tokenize,
            device=device,
            precision=precision,
            **asked,
        )
    return prepared.compare(runs_a, runs_b, names, samples, seed, examples)


def _refuse_translations(
    runs: Mapping[str, System | None],
    sources: object,
    references: object,
    bleu_tokenize: object,
    options: SearchOptions,
) -> None:
    """Refuse what applies to translators alone, where models of another task are compared."""
    given = {"sources": sources, "references": references, "bleu_tokenize": bleu_tokenize, **options}
    idle = next((name for name, value in given.items() if value is not None), None)
    if idle is not None:
        raise UserError(f"`{idle}` is for translators, but models of another task are compared: leave it out.")
    file = next((name for name, run in runs.items() if run is not None), None)
    if file is not None:
        raise UserError(f"{file} has translations, but is compared with a model of another task: give a model.")


@contextmanager
def _no_bar(sentences: int) -> Iterator[Callable[[int], None]]:
    yield lambda finished: None


def _runs(side: OneRun | Sequence[OneRun], label: str) -> dict[str, System | None]:
    """Return the translations of each run of a side by name; None for a model, which has yet to translate."""
    runs = [side] if isinstance(side, System | str | PathLike) else side
    if not isinstance(runs, Sequence) or not runs:
        raise UserError(
            f"`{label}` is {shortened(side)}, but must be the folder of a model, a file, a `heedful.System`, or a list."
        )
    found: dict[str, System | None] = {}
    for run in runs:
        name = run.name if isinstance(run, System) else str(check_path(label, run))
        if name in found:
            raise UserError(f"`{label}` names {name} twice: the runs of a side must be different.")
        found[name] = run if isinstance(run, System) else _system(name)
    return found


def _system(name: str) -> System | None:
    path = locate(name).path
    if not path.exists():
        raise UserError(f"{name} is neither the folder of a model nor a file of translations: nothing has that name.")
    return None if path.is_dir() else System(name, tuple(read_lines(replace(locate(name), hint=""))))


def _sentences(sources: Sequence[str] | None, references: object, to: object) -> Sentences | None:
    if references is None:
        if sources is not None:
            raise UserError("`references` is missing: sentences need references.")
        if to is not None:
            raise UserError("`to` is for `sources` and `references`: the corpora of the recipes have their own `to`.")
        return None
    expected = tuple(_reference(one, number) for number, one in enumerate(check_several(references, "references"), 1))
    read = None if sources is None else tuple(check_texts(sources, "sources"))
    if read is not None:
        check_one_each(len(read), "source", len(expected), "reference")
    if not (to is None or isinstance(to, str)):
        raise UserError("`to` is a list, but a comparison has one target language: give one.")
    return Sentences("the sentences", read, expected, to or "")


def _reference(given: object, number: int) -> Reference:
    """Return a reference, or the variants of one."""
    where = f"references, line {number:,}"
    if not isinstance(given, list | tuple):
        return check_text(given, where)
    if not given:
        raise UserError(f"{where} is an empty list, but must have at least one text.")
    return tuple(check_text(each, where) for each in given)
