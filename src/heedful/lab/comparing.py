"""`heedful.compare`: which of two models is better, and whether the difference is more than chance."""

from collections.abc import Sequence
from os import PathLike
from reprlib import repr as shortened
from typing import Literal, Unpack

from heedful.base.arguments import check_one_each, check_path, check_several, check_text, check_texts, check_whole
from heedful.base.errors import UserError
from heedful.base.options import show_options
from heedful.config.decode import SearchOptions
from heedful.lab.compare import DEFAULT_METRICS, Comparison, System
from heedful.lab.compare_models import compare_models
from heedful.lab.comparison_request import ComparisonRequest, Sentences, read_run, refuse_without_references
from heedful.metrics.edits import Reference
from heedful.metrics.significance import SAMPLES, SEED

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
    "bits_per_byte" and "word_perplexity". Captioners (by the metrics of translators), parsers ("f1", "exact_match",
    "precision", "recall"), taggers ("f1", "accuracy"), classifiers ("accuracy", "f1") and readers ("exact_match", "f1")
    are compared by their evaluations on the corpus that their recipes share. `samples`, `seed` and `examples` are the
    draws of the tests and the number of sentences shown.
    """
    check_whole("samples", samples, least=100)
    runs_a, runs_b = _runs(a, "a"), _runs(b, "b")
    same = next((name for name, run in runs_a.items() if runs_b.get(name, run) != run), None)
    if same is not None:
        raise UserError(f"`a` and `b` have different translations of one name, {same}: give them different names.")
    to = options.pop("to", None)
    request = ComparisonRequest(
        runs_a,
        runs_b,
        _sentences(sources, references, to),
        None if tuple(metrics) == DEFAULT_METRICS else metrics,
        None if split == "test" else split,
        corpus,
        bleu_tokenize,
        samples,
        seed,
        examples,
        device,
        precision,
        {name: value for name, value in options.items() if value is not None},
    )
    return (compare_models(request) if request.models else request.compare_translations())[0]


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
        found[name] = run if isinstance(run, System) else read_run(name)
    return found


def _sentences(sources: Sequence[str] | None, references: object, to: object) -> Sentences | None:
    if references is None:
        refuse_without_references(sources, to)
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
