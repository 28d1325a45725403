"""Finds labels that cannot be learned: rare, doubled by their spelling, without any contrast, or against the rules.

And numbers that cannot: all alike, standing for classes, or outside the range of the training data.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.label_schemes import Forbidden, SchemeName, first_forbidden, scheme_of
from heedful.config.data import Data
from heedful.data.corpora.tagged import TaggedText, read_tagged
from heedful.data.text_form import TextForm
from heedful.doctor.corpora.corpus_lint import LintedCorpus
from heedful.doctor.corpora.rows import Labels
from heedful.doctor.findings import NUMBER_KINDS, Finding, Part, Severity, listed

_RARE: Final = 5  # texts: a class with fewer is hardly learned
SMALL: Final = 50  # texts or images: a corpus with fewer is a trial, in which every class is rare
_DOMINANT: Final = 0.97  # fraction of the texts in one class
_MANY: Final = 0.5  # distinct labels per text: more are not classes
_SHOWN: Final = 5  # names of classes per finding
_FEW_NUMBERS: Final = 3  # different numbers that may stand for classes


@dataclass(frozen=True, eq=False)
class WholePart:
    """All corpora of a part together, of texts or of images."""

    part: Part
    noun: str  # of what has a label or a number: a text, a word or an image
    size: int  # the number of these
    name: str  # of all corpora
    file: str
    labels: Counter[str]
    numbers: NDArray[np.float64]
    whole: bool = True  # False if only the first rows were read
    label_lines: Mapping[str, int] = field(default_factory=dict)  # the first line with each label, if in one file

    def finding(self, severity: Severity, kind: str, what: str, advice: str, **more: Any) -> Finding:
        """Make a finding about the part."""
        return Finding(severity, kind, self.part, what, advice, self.name, self.file, **more)

    def lines(self, labels: Sequence[str]) -> tuple[int, ...]:
        """Return the first line with each of the first few labels, where all are in one file."""
        return tuple(self.label_lines[label] for label in labels[:_SHOWN]) if self.label_lines else ()


def whole_part(part: Part, corpora: Sequence[LintedCorpus], noun: str) -> WholePart:
    """Join the corpora of texts of a part."""
    labels = sum((corpus.labels for corpus in corpora), Counter[str]())
    return WholePart(
        part,
        noun,
        labels.total() if noun == "word" else sum(map(len, corpora)),
        ", ".join(corpus.name for corpus in corpora),
        ", ".join(file for corpus in corpora for file in corpus.corpus.files()),
        labels,
        np.concatenate([np.zeros(0), *(corpus.numbers for corpus in corpora)]),
        all(corpus.whole for corpus in corpora),
        corpora[0].label_lines if len(corpora) == 1 else {},
    )


def find_class_problems(parts: Mapping[Part, WholePart], labels: Labels) -> Iterator[Finding]:
    """Check the labels of all parts; the numbers of texts only where whole corpora were read."""
    train = parts["train"]
    counts = train.labels
    if not counts:
        return
    spelled = defaultdict[str, list[str]](list)
    for label in sorted(counts):
        spelled["".join(label.casefold().replace("_", " ").split())].append(label)
    groups = [group for group in spelled.values() if len(group) > 1]
    if groups:
        names = [" and ".join(f"`{label}` ({counts[label]:,})" for label in group) for group in groups]
        yield train.finding(
            "warning",
            "doubled_classes",
            f"labels differ only in case or spaces: {listed(names)}",
            "Each is a class of its own: write them alike.",
            lines=train.lines([label for group in groups for label in group]),
        )
    if not train.whole or train.size < SMALL:
        return
    if len(counts) > _MANY * train.size:
        yield train.finding(
            "problem",
            "many_classes",
            f"{train.size:,} {train.noun}s have {len(counts):,} different labels: these are not classes",
            "`label` may name the wrong column: look at its number or name.",
        )
        return
    yield from find_rare_classes(train)
    if labels == "one":
        yield from find_dominant_class(train)
    for other in (parts["valid"], parts["test"]):
        advice = f"Correct them, remove these {train.noun}s, or add such {train.noun}s to `data.train`."
        yield from find_unknown_classes(other, counts, advice)
        if len(other.labels) == 1 and len(counts) > 1 and other.size >= _RARE and other.whole:
            yield other.finding(
                "warning",
                "one_class",
                f"all {other.size:,} {other.noun}s have the label `{next(iter(other.labels))}`",
                "The score says nothing about other classes. If a file sorted by class was cut in two, shuffle it "
                "first.",
            )


def find_rare_classes(train: WholePart) -> Iterator[Finding]:
    """Find classes that are hardly learned."""
    rare = sorted((count, label) for label, count in train.labels.items() if count < _RARE)
    if rare:
        names = [f"`{label}` ({count})" for count, label in rare]
        yield train.finding(
            "warning",
            "rare_classes",
            f"classes with fewer than {_RARE} {train.noun}s: {listed(names)}",
            f"They are hardly learned: collect more {train.noun}s, join them with another class, or remove them.",
            count=len(rare),
            lines=train.lines([label for _, label in rare]),
        )


def find_dominant_class(train: WholePart) -> Iterator[Finding]:
    """Find a class that nearly all have."""
    label, most = train.labels.most_common(1)[0]
    if most >= _DOMINANT * train.size:
        yield train.finding(
            "warning",
            "dominant_class",
            f"{most:,} of {train.size:,} {train.noun}s ({most / train.size:.1%}) have the label `{label}`",
            'A model that always predicts it looks good: set `train.class_weights = "balanced"` and '
            '`train.validation.metric = "f1"`, or collect more of the other classes.',
        )


def find_unknown_classes(other: WholePart, known: Counter[str], advice: str) -> Iterator[Finding]:
    """Find labels of another part that the training data does not have."""
    unknown = sorted(other.labels.keys() - known.keys())
    if unknown:
        yield other.finding(
            "problem",
            "unknown_classes",
            f"labels that no training {other.noun} has: {listed([f'`{label}`' for label in unknown])}",
            advice,
            count=len(unknown),
            lines=other.lines(unknown),
        )


def with_held_out_classes(found: Iterable[Finding], data: Data) -> Iterator[Finding]:
    """Yield findings about classes; those of a file whose rare labels are in the part that is held out are no mistakes.

    The model has a class for each label of the file.
    """
    advice = "Only rows that are held out have them, so that they are not learned: collect more."
    for finding in found:
        held_out = finding.kind == "unknown_classes" and finding.part == "valid" and data.held_out_parts
        yield replace(finding, severity="note", advice=advice) if held_out else finding


def find_number_problems(parts: Mapping[Part, WholePart]) -> Iterator[Finding]:
    """Check the numbers of all parts, where whole corpora were read."""
    train = parts["train"]
    values, counts = np.unique(train.numbers, return_counts=True)
    if not train.whole or train.size < SMALL or not len(values):
        return
    if len(values) == 1:
        yield train.finding(
            "problem",
            "constant_numbers",
            f"all {train.size:,} {train.noun}s have the number {values[0]:g}",
            "There is nothing to learn: `number` may name the wrong column.",
        )
    elif len(values) <= _FEW_NUMBERS:
        names = [f"{value:g} ({count:,})" for value, count in zip(values, counts, strict=True)]
        yield train.finding(
            "note",
            "few_numbers",
            f"there are only {len(values)} different numbers: {listed(names)}",
            "If they stand for classes, a classifier learns them better: give them as `label`.",
        )
    kind = NUMBER_KINDS["outside"]
    for other in (parts["valid"], parts["test"]):
        outside = int(((other.numbers < values[0]) | (other.numbers > values[-1])).sum())
        severity = kind.severity(outside / len(other.numbers)) if outside else None
        if severity is not None:
            yield other.finding(
                severity,
                "outside",
                f"{kind.what}, {values[0]:g} to {values[-1]:g}: {outside:,} of {len(other.numbers):,}",
                kind.advice,
                count=outside,
                of=len(other.numbers),
            )


def find_forbidden_labels(
    linted: Mapping[Part, Sequence[LintedCorpus]], data: Data, most: int | None = None
) -> Iterator[Finding]:
    """Find sentences whose labels break the rules of BIO or BIOES, in each corpus or in its first `most` sentences."""
    scheme = scheme_of(sum((corpus.labels for corpus in linted["train"]), Counter[str]()))
    if scheme is None:
        return
    for corpora in linted.values():
        for corpus in corpora:
            texts = islice(read_tagged(corpus.corpus, data.folder, TextForm.of(data)), most)
            wrong = [(text, found) for text in texts if (found := first_forbidden(text.labels, scheme)) is not None]
            if wrong:
                yield _forbidden(corpus, wrong, scheme)


def _forbidden(corpus: LintedCorpus, wrong: Sequence[tuple[TaggedText, Forbidden]], scheme: SchemeName) -> Finding:
    text, found = wrong[0]
    lines = tuple(text.lines[found.index] for text, found in wrong[:_SHOWN] if text.lines)
    return corpus.finding(
        "warning",
        "forbidden_labels",
        f"sentences whose labels {scheme} forbids: {len(wrong):,} of {len(corpus):,}; the first: {found.reason}",
        "They are learned as they are, and scores read such a label as the start of a span: correct them.",
        count=len(wrong),
        lines=lines,
        example=" ".join(f"{word}/{label}" for word, label in zip(text.words[:8], text.labels, strict=False)),
    )
