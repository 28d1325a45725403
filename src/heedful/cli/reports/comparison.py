"""What `heedful compare` prints: tables and one plain statement, or a JSON object."""

import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from heedful.base.columns import align_columns, one_line
from heedful.lab.compare import Bucket, Comparison, Example, MetricComparison, SideName

_METRICS_ABREAST: Final = 2  # what 80 columns hold


def json_of(found: Comparison, sentences: str) -> str:
    """Return the comparison as one JSON object; `sentences` is the name of the test set."""
    shown = {"test_set": sentences} | asdict(found)
    shown["metrics"] = [asdict(result) | {"better": result.better} for result in found.metrics]
    return json.dumps(shown | {"statement": statement(found)}, ensure_ascii=False)


def text_of(found: Comparison, sentences: str) -> str:
    """Return the comparison as text, at most 80 columns wide except for names and sentences."""
    return "\n\n".join(_blocks(found, sentences))


def statement(found: Comparison) -> str:
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


def _figures(result: MetricComparison, sign: int) -> str:
    low, high = sorted((sign * result.bootstrap.low, sign * result.bootstrap.high))
    ps = [f"{_p(result.bootstrap.p)} by bootstrap", f"{_p(result.p_randomisation)} by randomisation"]
    ps += [f"{_p(result.welch.p)} by Welch's t-test over the runs"] if result.welch else []
    lower = "; lower is better" if result.lower_is_better else ""
    return (
        f"{sign * result.difference:+.2f} {result.metric} (95% interval {low:+.2f} to {high:+.2f}{lower}), "
        f"p = {', '.join(ps)}"
    )


# --- blocks -------------------------------------------------------------------------------------------------------


def _blocks(found: Comparison, sentences: str) -> Iterator[str]:
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


def _scores(metrics: Sequence[MetricComparison]) -> str:
    tested = any(result.welch for result in metrics)
    rows = [["", "A", "B", "B - A", "95% interval", "p: bootstrap", "random."] + ["Welch"] * tested]
    for result in metrics:
        interval = f"{result.bootstrap.low:+.2f} to {result.bootstrap.high:+.2f}"
        row = [result.metric, f"{result.a.mean:.2f}", f"{result.b.mean:.2f}", f"{result.difference:+.2f}"]
        row += [interval, _p(result.bootstrap.p), _p(result.p_randomisation)]
        rows.append(row + [_p(result.welch.p) if result.welch else "-"] * tested)
    return _lines(rows)


def _each_run(metrics: Sequence[MetricComparison]) -> str:
    most = max(len(side.runs) for result in metrics for side in (result.a, result.b))
    rows = [["", "", "mean", "sd", *(f"run {number}" for number in range(1, most + 1))]]
    for result in metrics:
        for label, side in (("A", result.a), ("B", result.b)):
            deviation = "-" if side.deviation is None else f"{side.deviation:.2f}"
            runs = [f"{score:.2f}" for score in side.runs] + [""] * (most - len(side.runs))
            rows.append([result.metric, label, f"{side.mean:.2f}", deviation, *runs])
    return _lines(rows)


def _buckets(buckets: Sequence[Bucket], some: slice, of: str, size: str) -> str:
    metrics = [pair.metric for pair in buckets[0].scores[some]] if buckets else []
    rows = [[of, size] + [cell for metric in metrics for cell in (f"{metric} A", "B", "B - A")]]
    for bucket in buckets:
        row = [bucket.span.label, f"{bucket.size:,}"]
        for pair in bucket.scores[some]:
            row += [f"{pair.a:.2f}", f"{pair.b:.2f}", f"{pair.b - pair.a:+.2f}"]
        rows.append(row)
    return _lines(rows)


def _examples(examples: Sequence[Example], better: SideName, found: Comparison) -> Iterator[str]:
    for place, example in enumerate(examples):
        title = f"Where {better} is better: {example.score.metric} of the {found.unit}\n" if not place else ""
        texts = [] if example.source is None else [("source", example.source)]
        texts += [("reference", example.reference), *_each_text("A", example.a), *_each_text("B", example.b)]
        head = f"{title}{found.numbered} {example.line:,}: A {example.score.a:.1f}, B {example.score.b:.1f}"
        yield "\n".join([head, *(_wrapped(one_line(text), f"  {label:<11}") for label, text in texts)])


def _each_text(side: SideName, runs: Sequence[str]) -> list[tuple[str, str]]:
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
