"""What the doctor can find: every kind of finding with its words, its remedy, and from which share on it matters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["problem", "warning", "note"]
Part = Literal["train", "valid", "test", "tokens", "run"]
SEVERITIES: Final[tuple[Severity, ...]] = ("problem", "warning", "note")  # the worst first

ANY: Final = 0.0  # even one is enough
NEVER: Final = 2.0  # a share that nothing reaches


@dataclass(frozen=True)
class Finding:
    """Something to know before training: where it is, how often, an example, and what to do."""

    severity: Severity
    kind: str
    part: Part
    what: str
    advice: str
    corpus: str = ""
    file: str = ""
    count: int | None = None
    lines: tuple[int, ...] = ()  # the first few, counted from 1 in the file
    example: str = ""


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding in a corpus."""

    what: str  # "pairs with ...": how many of how many comes behind it
    advice: str
    warning: float = NEVER  # from this share on it is a warning; below, a note
    problem: float = NEVER

    def severity(self, share: float) -> Severity:
        """How bad so large a share is."""
        if share >= self.problem:
            return "problem"
        return "warning" if share >= self.warning else "note"


FINDING_KINDS: Final[Mapping[str, FindingKind]] = {
    "empty": FindingKind(
        "pairs with an empty side",
        "Training drops them. Where there are many, the files may be shifted against each other.",
        warning=0.01,
        problem=0.5,
    ),
    "identical": FindingKind(
        "pairs with the same text on both sides",
        "They teach the model to copy: remove them unless they are names or numbers.",
        warning=0.01,
        problem=0.5,
    ),
    "swapped": FindingKind(
        "pairs that look swapped, each side with words of the other",
        "Exchange the sides of these lines, or remove them.",
        warning=ANY,
    ),
    "ratio": FindingKind(
        "pairs of lengths far from the usual ratio",
        "Look at them: sentences may be cut, joined or shifted. `data.max_ratio` drops such pairs.",
        warning=0.01,
    ),
    "overlong": FindingKind(
        "lines of more than 2,000 characters",
        "Split paragraphs into sentences. `data.max_length` drops what has more tokens.",
        warning=0.001,
    ),
    "control": FindingKind("lines with control characters", "Remove them: they break words apart unseen.", warning=ANY),
    "replacement": FindingKind(
        "lines with U+FFFD, which stands for a lost character",
        "Convert the original text again with its true encoding, or remove the lines.",
        warning=ANY,
    ),
    "mojibake": FindingKind(
        "lines with mojibake, which is UTF-8 read as Latin-1",
        "Convert the original text again; the `ftfy` package can repair most of it.",
        warning=ANY,
        problem=0.1,
    ),
    "invisible": FindingKind(
        "lines with invisible characters",
        "Remove zero-width spaces, byte order marks, soft hyphens and direction marks.",
        warning=0.001,
    ),
    "private": FindingKind(
        "lines with private-use characters", "They mean something in one font only: replace them.", warning=0.001
    ),
    "spaces": FindingKind(
        "lines with unusual spaces, such as U+00A0 or a tab",
        "A byte or character vocabulary sees other words there: make them plain spaces, unless you want them.",
    ),
    "not_nfc": FindingKind(
        "lines not in Unicode's composed form (NFC)",
        "Set `data.nfc = true`: one letter, one code.",
        warning=0.001,
    ),
    "entities": FindingKind(
        "lines with HTML entities",
        "Unescape them, unless your own tokenizer wrote them into every file.",
        warning=0.001,
    ),
    "tags": FindingKind(
        "lines with tags as in HTML or XML", "Remove the markup, unless it is to be learned.", warning=0.001
    ),
    "digits": FindingKind(
        "sampled pairs with other digits on the two sides",
        "Numbers may be written out or converted on one side; a large share can mean shifted lines.",
        warning=0.5,
    ),
    "repeated": FindingKind(
        "pairs that repeat an earlier one",
        "Repeats count as often as they stand there: remove them unless that is meant.",
        warning=0.05,
    ),
    "ambiguous": FindingKind(
        "sources with more than one target", "Good variants do no harm; contradictions teach guessing.", warning=0.2
    ),
    "source_seen": FindingKind(
        "pairs whose source is in {other} too",
        "Scores on them are too good: remove them from {other}, or say so with the scores.",
        warning=ANY,
        problem=0.5,
    ),
    "pair_seen": FindingKind(
        "pairs that are in {other} too, source and target",
        "The model can know them by heart: remove them from {other}.",
        warning=ANY,
        problem=0.5,
    ),
}
