"""The kinds of findings of the doctor: what each says, what to do, and from which fraction it is serious."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["problem", "warning", "note"]
Part = Literal["train", "valid", "test", "tokens", "run"]
SEVERITIES: Final[tuple[Severity, ...]] = ("problem", "warning", "note")  # most severe first

ANY: Final = 0.0  # one case is enough
_LISTED: Final = 5  # names per finding
NEVER: Final = 2.0  # a fraction that is never reached


@dataclass(frozen=True)
class Finding:
    """Something to know before training: what, where, how often, an example, and what to do."""

    severity: Severity
    kind: str
    part: Part
    what: str
    advice: str
    corpus: str = ""
    file: str = ""
    count: int | None = None
    lines: tuple[int, ...] = ()  # the first few line numbers in the file, from 1
    example: str = ""
    of: int | None = None  # rows examined


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding in a corpus."""

    what: str  # "pairs with ...", followed by a count and a total
    advice: str
    warning: float = NEVER  # from this fraction on it is a warning; below, a note
    problem: float = NEVER
    note: float = ANY  # below this fraction it is not mentioned: sound corpora have as much of it

    def severity(self, share: float) -> Severity | None:
        """Return the severity of a fraction of affected rows; None if it is not worth mentioning."""
        if share >= self.problem:
            return "problem"
        if share >= self.warning:
            return "warning"
        return "note" if share >= self.note else None


def listed(names: Sequence[str]) -> str:
    """Return the first few of the names that a finding is about."""
    return ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")


CHARACTER_KINDS: Final[Mapping[str, FindingKind]] = {
    "control": FindingKind("lines with control characters", "Remove them: they split words invisibly.", warning=ANY),
    "replacement": FindingKind(
        "lines with U+FFFD, which stands for a lost character",
        "Convert the original text again with its correct encoding, or remove the lines.",
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
        "lines with private-use characters", "They have a meaning in one font only: replace them.", warning=0.001
    ),
    "spaces": FindingKind(
        "lines with unusual spaces, such as U+00A0 or a tab",
        "The tokenizer treats them as part of a word: replace them with plain spaces, unless you need them.",
    ),
    "not_nfc": FindingKind(
        "lines not in Unicode's composed form (NFC)",
        "Set `data.nfc = true`: then each letter has one encoding.",
        warning=0.001,
    ),
    "entities": FindingKind(
        "lines with HTML entities",
        "Unescape them, unless your own tokenizer writes them everywhere.",
        warning=0.001,
    ),
    "tags": FindingKind(
        "lines with HTML or XML tags", "Remove the markup, unless the model should learn it.", warning=0.001
    ),
}
FINDING_KINDS: Final[Mapping[str, FindingKind]] = {  # of pairs
    **CHARACTER_KINDS,
    "empty": FindingKind(
        "pairs with an empty side",
        "Training drops them. If there are many, the files may be misaligned.",
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
        "pairs that look swapped: each side has words of the other",
        "Swap the sides of these lines, or remove them.",
        warning=ANY,
    ),
    "ratio": FindingKind(
        "pairs with an unusual length ratio",
        "Look at them: sentences may be cut off, joined or misaligned. `data.max_ratio` drops such pairs.",
        warning=0.01,
    ),
    "overlong": FindingKind(
        "lines of more than 2,000 characters",
        "Split paragraphs into sentences. `data.max_length` drops pairs with more tokens.",
        warning=0.001,
    ),
    "digits": FindingKind(
        "sampled pairs with different digits on the two sides",
        "Numbers may be written out or converted on one side; a large fraction can mean misaligned lines.",
        warning=0.5,
        note=0.05,
    ),
    "repeated": FindingKind(
        "pairs that repeat an earlier one",
        "Repeats are trained on as often as they occur: remove them, unless this is intended.",
        warning=0.05,
        note=0.01,
    ),
    "ambiguous": FindingKind(
        "sources with more than one target",
        "Good variants do no harm; contradictions make the model guess.",
        warning=0.2,
        note=0.01,
    ),
    "source_seen": FindingKind(
        "pairs whose source is also in {other}",
        "Scores on them are too optimistic: remove them from {other}, or mention it with the scores.",
        warning=0.01,
        problem=0.5,
    ),
    "pair_seen": FindingKind(
        "pairs that are also in {other}, source and target",
        "The model may have memorised them: remove them from {other}.",
        warning=0.01,
        problem=0.5,
    ),
}
_SEEN: Final = "Scores on them are too optimistic: remove them from {other}, or mention it with the scores."
TEXT_KINDS: Final[Mapping[str, FindingKind]] = {  # of texts in rows, with or without labels
    **CHARACTER_KINDS,
    "empty": FindingKind(
        "texts with nothing but spaces",
        "Training drops them. If there are many, `text` may name the wrong column.",
        warning=0.01,
        problem=0.5,
    ),
    "overlong": FindingKind(
        "texts of more than 20,000 characters",
        "Look at them: a quote that is never closed may have joined many texts into one.",
        warning=0.001,
    ),
    "cut": FindingKind(
        "texts with more words than `data.max_length`, which are cut",
        "Raise `data.max_length`, or choose with `data.cut` which part is lost.",
        warning=0.5,
        note=0.1,
    ),
    "repeated": FindingKind(
        "texts that repeat an earlier one with the same label",
        "Repeats are trained on as often as they occur: remove them, unless this is intended.",
        warning=0.05,
        note=0.01,
    ),
    "ambiguous": FindingKind(
        "texts that occur with different labels",
        "The model cannot learn both: decide on one label, or remove them.",
        warning=0.01,
    ),
    "source_seen": FindingKind("texts that are also in {other}", _SEEN, warning=0.01, problem=0.5),
}
TREE_KINDS: Final[Mapping[str, FindingKind]] = {  # of sentences with their trees
    **CHARACTER_KINDS,
    "empty": FindingKind("lines without a tree", "Training drops them.", warning=0.01, problem=0.5),
    "repeated": FindingKind(
        "sentences that repeat an earlier one with the same tree",
        "Repeats are trained on as often as they occur: remove them, unless this is intended.",
        warning=0.1,
        note=0.02,
    ),
    "ambiguous": FindingKind(
        "sentences that occur with different trees",
        "The model cannot learn both: decide on one tree, unless both are right.",
        warning=0.05,
    ),
    "source_seen": FindingKind("sentences that are also in {other}", _SEEN, warning=0.01, problem=0.5),
}
LINE_KINDS: Final[Mapping[str, FindingKind]] = {  # of lines of running text
    **CHARACTER_KINDS,
    "repeated": FindingKind(
        "lines that repeat an earlier one",
        "The model learns repeats by heart: remove boilerplate and documents that occur twice.",
        warning=0.05,
        note=0.01,
    ),
    "source_seen": FindingKind("lines that are also in {other}", _SEEN, warning=0.01, problem=0.5),
}
