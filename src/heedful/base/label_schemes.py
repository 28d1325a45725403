"""Labels that mark spans of words: BIO and BIOES, and which label may follow which.

    BIO      B-X begins a span of type X, I-X is inside it, O is outside of all spans    Ramshaw and Marcus 1995
    BIOES    the last word of a span has E-X instead of I-X, and a span of one word is S-X    Uchimoto et al. 2000

A label without a type, such as B, belongs to the type "_".
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

SchemeName = Literal["BIO", "BIOES"]

OUTSIDE: Final = "O"
UNTYPED: Final = "_"
_PREFIXES: Final = frozenset("BIES")


def split_label(label: str) -> tuple[str, str]:
    """Return the prefix and the type of a label: B and PER of B-PER; O has no type."""
    if label == OUTSIDE:
        return OUTSIDE, ""
    return label[:1], label[1:].split("-", 1)[-1] or UNTYPED


def mark_spans(labels: Collection[str]) -> bool:
    """Return whether all labels are O or have a prefix of BIO or BIOES, and not all are O."""
    prefixed = [label for label in labels if label != OUTSIDE]
    return bool(prefixed) and all(label[:1] in _PREFIXES and (len(label) == 1 or label[1] == "-") for label in prefixed)


def scheme_of(labels: Collection[str]) -> SchemeName | None:
    """Return the scheme of some labels; None if they do not mark spans, or cannot label every sentence by the rules.

    A sentence of any length must have an allowed labelling: with O, S-X, or B-X of BIO. So labels such as O and I-X
    alone, where the rules never allow I-X, are not BIO.
    """
    if not mark_spans(labels):
        return None
    prefixes = {label[:1] for label in labels}
    if not prefixes & {"B", "S"}:
        return None
    scheme: SchemeName = "BIOES" if prefixes & {"E", "S"} else "BIO"
    alone = {OUTSIDE, "B" if scheme == "BIO" else "S"}
    return scheme if prefixes & alone else None


def may_follow(before: str, label: str, scheme: SchemeName) -> bool:
    """Return whether a label may follow another one; O stands for the start and the end of a sentence too."""
    (left, left_type), (right, right_type) = split_label(before), split_label(label)
    continues = right in "IE"
    if continues and (left not in "BI" or left_type != right_type):
        return False
    return scheme == "BIO" or continues or left not in "BI"


@dataclass(frozen=True)
class AllowedTransitions:
    """Which labels, by their numbers, may start a sentence, follow each other and end a sentence."""

    start: tuple[bool, ...]
    follow: tuple[tuple[bool, ...], ...]  # follow[i][j]: j may come after i
    end: tuple[bool, ...]


def allowed_transitions(labels: Sequence[str], scheme: SchemeName) -> AllowedTransitions:
    """Return which transitions between these labels a scheme allows."""
    return AllowedTransitions(
        tuple(may_follow(OUTSIDE, label, scheme) for label in labels),
        tuple(tuple(may_follow(before, label, scheme) for label in labels) for before in labels),
        tuple(may_follow(label, OUTSIDE, scheme) for label in labels),
    )


@dataclass(frozen=True)
class Forbidden:
    """A place where a sequence of labels breaks the rules of its scheme."""

    index: int  # of the word whose label is wrong, from 0
    reason: str  # such as: I-PER follows O, which BIO forbids


def first_forbidden(labels: Sequence[str], scheme: SchemeName) -> Forbidden | None:
    """Return the first place where the labels of a sentence break the rules; None if they follow them."""
    before = OUTSIDE
    for index, label in enumerate(labels):
        if not may_follow(before, label, scheme):
            fault = f"{label} follows {before}" if index else f"{label} starts a sentence"
            return Forbidden(index, f"{fault}, which {scheme} forbids")
        before = label
    if not may_follow(before, OUTSIDE, scheme):
        return Forbidden(len(labels) - 1, f"{before} ends a sentence, which {scheme} forbids")
    return None
