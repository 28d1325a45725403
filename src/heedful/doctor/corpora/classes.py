"""Finds labels that cannot be learned: rare, doubled by their spelling, without any contrast, or against the rules."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from heedful.base.label_schemes import Forbidden, SchemeName, first_forbidden, scheme_of
from heedful.config.data import Data
from heedful.data.corpora.tagged import TaggedText, read_tagged
from heedful.data.text_form import TextForm
from heedful.doctor.corpora.corpus_lint import LintedCorpus
from heedful.doctor.corpora.rows import Labels
from heedful.doctor.findings import Finding, Part, listed

_RARE: Final = 5  # texts: a class with fewer is hardly learned
SMALL: Final = 50  # texts or images: a corpus with fewer is a trial, in which every class is rare
_DOMINANT: Final = 0.97  # fraction of the texts in one class
_MANY: Final = 0.5  # distinct labels per text: more are not classes
_SHOWN: Final = 5  # names of classes per finding


def find_class_problems(linted: Mapping[Part, Sequence[LintedCorpus]], labels: Labels) -> Iterator[Finding]:
    """Check the labels of all parts; the numbers of texts only where whole corpora were read."""
    train = linted["train"]
    counts = _total(train)
    noun = "word" if labels == "words" else "text"
    texts = counts.total() if labels == "words" else sum(len(corpus) for corpus in train)
    if not counts:
        return
    name, file = ", ".join(corpus.name for corpus in train), ", ".join(_files(train))
    yield from _doubled(train, counts, name, file)
    if not all(corpus.whole for corpus in train) or texts < SMALL:
        return
    if len(counts) > _MANY * texts:
        yield Finding(
            "problem",
            "many_classes",
            "train",
            f"{texts:,} {noun}s have {len(counts):,} different labels: these are not classes",
            "`label` may name the wrong column: look at its number or name.",
            name,
            file,
        )
        return
    rare = find_rare_classes(counts)
    if rare:
        yield rare_classes(rare, name, noun, file, _lines(train, [label for _, label in rare]))
    if labels == "one":
        yield from find_dominant_class(counts, texts, name, noun, file)
    for part in ("valid", "test"):
        yield from _of_other_part(part, linted[part], counts, noun)


def _total(part: Sequence[LintedCorpus]) -> Counter[str]:
    return sum((corpus.labels for corpus in part), Counter[str]())


def _files(part: Sequence[LintedCorpus]) -> Iterator[str]:
    return (file for corpus in part for file in corpus.corpus.files())


def _lines(part: Sequence[LintedCorpus], labels: Sequence[str]) -> tuple[int, ...]:
    """Return the first line with each of the first few labels, where all are in one file."""
    return tuple(part[0].label_lines[label] for label in labels[:_SHOWN]) if len(part) == 1 else ()


def _doubled(train: Sequence[LintedCorpus], counts: Counter[str], name: str, file: str) -> Iterator[Finding]:
    """Find labels that differ only in case or spaces."""
    spelled = defaultdict[str, list[str]](list)
    for label in sorted(counts):
        spelled["".join(label.casefold().replace("_", " ").split())].append(label)
    groups = [group for group in spelled.values() if len(group) > 1]
    if groups:
        names = [" and ".join(f"`{label}` ({counts[label]:,})" for label in group) for group in groups]
        yield Finding(
            "warning",
            "doubled_classes",
            "train",
            f"labels differ only in case or spaces: {listed(names)}",
            "Each is a class of its own: write them alike.",
            name,
            file,
            lines=_lines(train, [label for group in groups for label in group]),
        )


def find_rare_classes(counts: Counter[str]) -> list[tuple[int, str]]:
    """Return the classes that are hardly learned, with their counts, the rarest first."""
    return sorted((count, label) for label, count in counts.items() if count < _RARE)


def rare_classes(
    rare: Sequence[tuple[int, str]], name: str, noun: str, file: str = "", lines: tuple[int, ...] = ()
) -> Finding:
    """Return the finding of rare classes, of what `noun` names."""
    names = [f"`{label}` ({count})" for count, label in rare]
    return Finding(
        "warning",
        "rare_classes",
        "train",
        f"classes with fewer than {_RARE} {noun}s: {listed(names)}",
        f"They are hardly learned: collect more {noun}s, join them with another class, or remove them.",
        name,
        file,
        count=len(rare),
        lines=lines,
    )


def find_dominant_class(counts: Counter[str], total: int, name: str, noun: str, file: str = "") -> Iterator[Finding]:
    """Find a class that nearly all of what `noun` names have."""
    label, most = counts.most_common(1)[0]
    if most >= _DOMINANT * total:
        yield Finding(
            "warning",
            "dominant_class",
            "train",
            f"{most:,} of {total:,} {noun}s ({most / total:.1%}) have the label `{label}`",
            'A model that always predicts it looks good: set `train.class_weights = "balanced"` and '
            '`train.validation.metric = "f1"`, or collect more of the other classes.',
            name,
            file,
        )


def _of_other_part(part: Part, corpora: Sequence[LintedCorpus], known: Counter[str], noun: str) -> Iterator[Finding]:
    counts = _total(corpora)
    name, file = ", ".join(corpus.name for corpus in corpora), ", ".join(_files(corpora))
    unknown = sorted(counts.keys() - known.keys())
    if unknown:
        yield Finding(
            "problem",
            "unknown_classes",
            part,
            f"labels that no training {noun} has: {listed([f'`{label}`' for label in unknown])}",
            f"Correct them, remove these {noun}s, or add such {noun}s to `data.train`.",
            name,
            file,
            count=len(unknown),
            lines=_lines(corpora, unknown),
        )
    texts = counts.total() if noun == "word" else sum(len(corpus) for corpus in corpora)
    if len(counts) == 1 and len(known) > 1 and texts >= _RARE and all(corpus.whole for corpus in corpora):
        yield Finding(
            "warning",
            "one_class",
            part,
            f"all {texts:,} {noun}s have the label `{next(iter(counts))}`",
            "The score says nothing about other classes. If a file sorted by class was cut in two, shuffle it first.",
            name,
            file,
        )


def find_forbidden_labels(
    linted: Mapping[Part, Sequence[LintedCorpus]], data: Data, most: int | None = None
) -> Iterator[Finding]:
    """Find sentences whose labels break the rules of BIO or BIOES, in each corpus or in its first `most` sentences."""
    scheme = scheme_of(_total(linted["train"]))
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
