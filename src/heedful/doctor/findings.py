"""The kinds of findings of the doctor: what each says, what to do, and from which fraction it is serious."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["problem", "warning", "note"]
Part = Literal["train", "valid", "test", "tokens", "run", "model"]
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
    keys: tuple[str, ...] = ()  # of the recipe, which it is about: without them, it is about the data


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding in a corpus."""

    what: str  # "pairs with ...", followed by a count and a total
    advice: str
    warning: float = NEVER  # from this fraction on it is a warning; below, a note
    problem: float = NEVER
    note: float = ANY  # below this fraction it is not mentioned: sound corpora have as much of it
    keys: tuple[str, ...] = ()  # of the recipe, which it is about

    def severity(self, share: float) -> Severity | None:
        """Return the severity of a fraction of affected rows; None if it is not worth mentioning."""
        if share >= self.problem:
            return "problem"
        if share >= self.warning:
            return "warning"
        return "note" if share >= self.note else None


def _repeated(what: str, advice: str = "", warning: float = 0.05, note: float = 0.01) -> FindingKind:
    advice = advice or "Repeats are trained on as often as they occur: remove them, unless this is intended."
    return FindingKind(what, advice, warning=warning, note=note)


def _seen(what: str) -> FindingKind:
    advice = "Scores on them are too optimistic: remove them from {other}, or mention it with the scores."
    return FindingKind(what, advice, warning=0.01, problem=0.5)


def _with_two(what: str, name: str) -> FindingKind:
    advice = f"The model cannot learn both: decide on one {name}, or remove them."
    return FindingKind(f"{what} that occur with different {name}s", advice, warning=0.01)


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
    "repeated": _repeated("pairs that repeat an earlier one"),
    "ambiguous": FindingKind(
        "sources with more than one target",
        "Good variants do no harm; contradictions make the model guess.",
        warning=0.2,
        note=0.01,
    ),
    "source_seen": _seen("pairs whose source is also in {other}"),
    "pair_seen": FindingKind(
        "pairs that are also in {other}, source and target",
        "The model may have memorised them: remove them from {other}.",
        warning=0.01,
        problem=0.5,
    ),
}
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
        keys=("data.max_length", "data.cut"),
    ),
    "repeated": _repeated("texts that repeat an earlier one with the same label"),
    "ambiguous": _with_two("texts", "label"),
    "source_seen": _seen("texts that are also in {other}"),
}
NUMBER_KINDS: Final[Mapping[str, FindingKind]] = {  # of texts or images with numbers
    "outlier": FindingKind(
        "numbers far away from all others",
        "Look at them: they may be mistakes, or in another unit, and the largest errors decide what is learned.",
        warning=ANY,
    ),
    "outside": FindingKind(
        "numbers outside the range of the training data",
        "The model has never seen such numbers: draw this part from the same source as the training data.",
        warning=0.05,
        problem=0.5,
        note=0.01,
    ),
}
NUMBERED_TEXT_KINDS: Final[Mapping[str, FindingKind]] = {
    **TEXT_KINDS,
    **NUMBER_KINDS,
    "repeated": _repeated("texts that repeat an earlier one with the same number"),
    "ambiguous": _with_two("texts", "number"),
}
TREE_KINDS: Final[Mapping[str, FindingKind]] = {  # of sentences with their trees
    **CHARACTER_KINDS,
    "empty": FindingKind("lines without a tree", "Training drops them.", warning=0.01, problem=0.5),
    "repeated": _repeated("sentences that repeat an earlier one with the same tree", warning=0.1, note=0.02),
    "ambiguous": FindingKind(
        "sentences that occur with different trees",
        "The model cannot learn both: decide on one tree, unless both are right.",
        warning=0.05,
    ),
    "source_seen": _seen("sentences that are also in {other}"),
}
LINE_KINDS: Final[Mapping[str, FindingKind]] = {  # of lines of running text
    **CHARACTER_KINDS,
    "repeated": _repeated(
        "lines that repeat an earlier one",
        "The model learns repeats by heart: remove boilerplate and documents that occur twice.",
    ),
    "source_seen": _seen("lines that are also in {other}"),
}
STRETCHED: Final = 2.0  # factor between the proportions of an image and those it is resized to
IMAGE_KINDS: Final[Mapping[str, FindingKind]] = {
    **NUMBER_KINDS,
    "flat": FindingKind(
        "images of a single colour",
        "There is nothing to see in them: look at them, and remove them.",
        warning=0.01,
        problem=0.5,
    ),
    "small": FindingKind(
        "images smaller than a patch of the encoder",
        "They are filled up with black: choose a smaller `model.encoder.patch`, or resize them by `data.images`.",
        warning=0.01,
        problem=0.5,
        keys=("model.encoder",),
    ),
    "stretched": FindingKind(
        f"images whose proportions change by more than a factor of {STRETCHED:.0f}",
        'Set `data.images.fit = "crop"`, or choose a height and width that suit them.',
        warning=0.2,
        note=0.05,
        keys=("data.images",),
    ),
    "repeated": _repeated("images that repeat an earlier one, pixel by pixel"),
    "ambiguous": _with_two("images", "label"),
    "ambiguous_numbers": _with_two("images", "number"),
    "source_seen": _seen("images that are also in {other}, pixel by pixel"),
}
