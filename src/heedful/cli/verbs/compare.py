"""`heedful compare A B`: which of two models is better, and whether the difference is more than chance."""

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from heedful.base.columns import align_columns, one_line
from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.cli.messages import note
from heedful.cli.options import (
    DecodingOptions,
    DeviceOption,
    OutputOption,
    PrecisionOption,
    SplitOption,
    TestSourceOption,
    TestTargetOption,
    ToOption,
    json_option,
    option,
    with_option_groups,
)
from heedful.cli.output import Line, check_output, progress_bar, write_result

if TYPE_CHECKING:
    from heedful.lab.compare import Bucket, Comparison, Example, MetricComparison, SideName

BleuTokenize = Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"]


@with_option_groups
def command(
    a: Annotated[
        str, typer.Argument(metavar="A", help="Folder of a model, file of translations, or several runs: x,y,z.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The other side, likewise.")],
    metric: Annotated[
        list[str] | None,
        option(
            "Names of metrics: of translators and captioners bleu, chrf, ter, exact_match, edit_distance, per, wer; of "
            "language models bits_per_byte, word_perplexity; of parsers f1, exact_match, precision, recall; of taggers "
            "and classifiers accuracy, f1; of regressors spearman, pearson, mae; of readers exact_match, f1; "
            "repeatable, the first decides.",
            metavar="NAME",
        ),
    ] = None,
    source: TestSourceOption = None,
    target: TestTargetOption = None,
    to: ToOption = None,
    split: SplitOption = None,
    corpus: Annotated[
        str | None, option("Which of these corpora, by name or number (default: the first).", metavar="NAME")
    ] = None,
    bleu_tokenize: Annotated[
        BleuTokenize | None, option("Tokenizer of BLEU (default: that of the recipes; 13a for files).")
    ] = None,
    samples: Annotated[int, option("Number of draws in each test.", min=100)] = 1000,
    seed: Annotated[int, option("Random seed, of the draws.", min=0)] = 12345,
    examples: Annotated[int, option("Number of sentences to show in each direction.", min=0)] = 5,
    as_json: Annotated[bool, json_option("one object")] = False,
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

    Language models are compared by how well they predict the documents of the test set of their recipes. Captioners,
    parsers, taggers, classifiers, regressors and readers are compared by their evaluations, item by item: parsers by
    labelled F1.
    """
    check_output(output)
    from heedful.lab.comparison_request import ComparisonRequest, SentenceFiles, read_run, refuse_without_references

    if not target:
        refuse_without_references(source, to)
    side_a, side_b = _names(a, "A"), _names(b, "B")
    runs = {name: read_run(name) for name in (*side_a, *side_b)}
    request = ComparisonRequest(
        {name: runs[name] for name in side_a},
        {name: runs[name] for name in side_b},
        SentenceFiles(source, target, to or "") if target else None,
        metric,
        split,
        corpus,
        bleu_tokenize,
        samples,
        seed,
        examples,
        device,
        precision,
        decoding,
        lambda message: note(f"{message}."),
        progress_bar,
    )
    if request.models:
        from heedful.lab.compare_models import compare_models  # importing torch takes seconds

        found, title = compare_models(request)
    else:
        found, title = request.compare_translations()
    write_result(json_of(found, title) if as_json else text_of(found, title), output)


def _names(side: str, label: str) -> list[str]:
    """Return the runs of a side; `~` is expanded in each, as a shell expands only the first."""
    names = [str(expand_user(part)) if part.startswith("~") else part for part in map(str.strip, side.split(","))]
    if not all(names):
        raise UserError(f"{label} is `{side}`, which has an empty name: put commas only between names.")
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice:
        raise UserError(f"{label} names {twice} twice: the runs of a side must be different.")
    return names


# --- the report -------------------------------------------------------------------------------------------------------


_METRICS_ABREAST: Final = 2  # what 80 columns hold


def json_of(found: "Comparison", sentences: str) -> Line:
    """Return the comparison as one JSON object; `sentences` is the name of the test set."""
    metrics = [asdict(result) | {"better": result.better} for result in found.metrics]
    return {"test_set": sentences} | asdict(found) | {"metrics": metrics, "statement": statement(found)}


def text_of(found: "Comparison", sentences: str) -> str:
    """Return the comparison as text, at most 80 columns wide except for names and sentences."""
    return "\n\n".join(_blocks(found, sentences))


def statement(found: "Comparison") -> str:
    """Return the outcome in plain words: the first metric decides, the others are reported."""
    first, *others = found.metrics
    a, b = len(found.a), len(found.b)
    per_side = "one run per side" if a == 1 else f"{a} runs per side"
    runs = per_side if a == b else f"{a} {'run' if a == 1 else 'runs'} of A, {b} of B"
    over = f"over {found.sentences:,} {found.unit}s and {runs}"
    if first.better:
        sign, other = (1, "A") if first.better == "B" else (-1, "B")
        outcome = f"{first.better} is better than {other}: {_figures(first, sign)}, {over}."
    else:
        outcome = f"No real difference: {_figures(first, 1)}, {over}: these data cannot tell A from B."
    for result in others:
        finds = f"finds {result.better} better" if result.better else "finds no real difference"
        outcome += f" {result.metric} {'agrees' if result.better == first.better else finds}."
    return outcome


def _figures(result: "MetricComparison", sign: int) -> str:
    low, high = sorted((sign * result.bootstrap.low, sign * result.bootstrap.high))
    ps = [f"{_p(result.bootstrap.p)} by bootstrap", f"{_p(result.p_randomisation)} by randomisation"]
    ps += [f"{_p(result.welch.p)} by Welch's t-test over the runs"] if result.welch else []
    lower = "; lower is better" if result.lower_is_better else ""
    return (
        f"{sign * result.difference:+.2f} {result.metric} (95% interval {low:+.2f} to {high:+.2f}{lower}), "
        f"p = {', '.join(ps)}"
    )


# --- blocks -------------------------------------------------------------------------------------------------------


def _blocks(found: "Comparison", sentences: str) -> Iterator[str]:
    sides = [_wrapped(", ".join(names), label) for label, names in (("A  ", found.a), ("B  ", found.b))]
    how = f"{found.sentences:,} {found.unit}s of {sentences}; {found.samples:,} draws per test, seed {found.seed}"
    yield "\n".join([*sides, _wrapped(how)])
    yield _scores(found.metrics)
    if max(len(found.a), len(found.b)) > 1:
        yield _each_run(found.metrics)
    yield _lines([[result.metric, result.signature] for result in found.metrics], left=2)
    for first in range(0, len(found.metrics) if found.lengths else 0, _METRICS_ABREAST):
        some = slice(first, first + _METRICS_ABREAST)
        yield f"By length: words of the {found.lengths_of}\n{_buckets(found.lengths, some, 'words', f'{found.unit}s')}"
    if found.frequencies_of:
        of = _wrapped(f"By frequency: F1 of the target words, by their count in {found.frequencies_of}")
        yield f"{of}\n{_buckets(found.words, slice(None), 'count', 'words')}"
    yield from _examples(found.better_a, "A", found)
    yield from _examples(found.better_b, "B", found)
    yield _wrapped(statement(found))


def _scores(metrics: "Sequence[MetricComparison]") -> str:
    tested = any(result.welch for result in metrics)
    rows = [["", "A", "B", "B - A", "95% interval", "p: bootstrap", "random."] + ["Welch"] * tested]
    for result in metrics:
        interval = f"{result.bootstrap.low:+.2f} to {result.bootstrap.high:+.2f}"
        row = [result.metric, f"{result.a.mean:.2f}", f"{result.b.mean:.2f}", f"{result.difference:+.2f}"]
        row += [interval, _p(result.bootstrap.p), _p(result.p_randomisation)]
        rows.append(row + [_p(result.welch.p) if result.welch else "-"] * tested)
    return _lines(rows)


def _each_run(metrics: "Sequence[MetricComparison]") -> str:
    most = max(len(side.runs) for result in metrics for side in (result.a, result.b))
    rows = [["", "", "mean", "sd", *(f"run {number}" for number in range(1, most + 1))]]
    for result in metrics:
        for label, side in (("A", result.a), ("B", result.b)):
            deviation = "-" if side.deviation is None else f"{side.deviation:.2f}"
            runs = [f"{score:.2f}" for score in side.runs] + [""] * (most - len(side.runs))
            rows.append([result.metric, label, f"{side.mean:.2f}", deviation, *runs])
    return _lines(rows)


def _buckets(buckets: "Sequence[Bucket]", some: slice, of: str, size: str) -> str:
    metrics = [pair.metric for pair in buckets[0].scores[some]] if buckets else []
    rows = [[of, size] + [cell for metric in metrics for cell in (f"{metric} A", "B", "B - A")]]
    for bucket in buckets:
        row = [bucket.span.label, f"{bucket.size:,}"]
        for pair in bucket.scores[some]:
            row += [f"{pair.a:.2f}", f"{pair.b:.2f}", f"{pair.b - pair.a:+.2f}"]
        rows.append(row)
    return _lines(rows)


def _examples(examples: "Sequence[Example]", better: "SideName", found: "Comparison") -> Iterator[str]:
    for place, example in enumerate(examples):
        title = f"Where {better} is better: {example.score.metric} of the {found.unit}\n" if not place else ""
        texts = [] if example.source is None else [("source", example.source)]
        texts += [("reference", example.reference), *_each_text("A", example.a), *_each_text("B", example.b)]
        head = f"{title}{found.numbered} {example.line:,}: A {example.score.a:.1f}, B {example.score.b:.1f}"
        yield "\n".join([head, *(_wrapped(one_line(text), f"  {label:<11}") for label, text in texts)])


def _each_text(side: "SideName", runs: Sequence[str]) -> list[tuple[str, str]]:
    """Return each distinct translation of a side's runs once, with the number of runs if they disagree."""
    said = Counter(runs).most_common()
    if len(said) == 1:
        return [(side, runs[0])]
    return [(f"{side} {times} of {len(runs)}", text) for text, times in said]


# --- layout -------------------------------------------------------------------------------------------------------


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.0005 else f"{p:.1g}"


def _lines(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    return "\n".join(align_columns(rows, left))


def _wrapped(text: str, label: str = "") -> str:
    """Put a text after its label, wrapped to the width of the terminal if there is one."""
    if not sys.stdout.isatty():
        return f"{label}{text}".rstrip()
    wrapper = textwrap.TextWrapper(
        shutil.get_terminal_size().columns,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,  # so that a path can be copied
        break_on_hyphens=False,
    )
    return wrapper.fill(text) or label.rstrip()
