"""The rules of BIO and BIOES."""

import itertools

import pytest

from heedful.base.label_schemes import (
    Forbidden,
    SchemeName,
    allowed_transitions,
    first_forbidden,
    mark_spans,
    scheme_of,
    split_label,
)


@pytest.mark.parametrize(
    ("label", "parts"),
    [("O", ("O", "")), ("B-PER", ("B", "PER")), ("I-a-b", ("I", "a-b")), ("B", ("B", "_")), ("S-", ("S", "_"))],
)
def test_a_label_has_a_prefix_and_a_type(label: str, parts: tuple[str, str]) -> None:
    assert split_label(label) == parts


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "B-PER", "I-PER"], "BIO"),
        (["B", "I", "O"], "BIO"),
        (["B-NP", "I-NP"], "BIO"),
        (["O", "B-X", "I-X", "E-X", "S-X"], "BIOES"),
        (["S-X", "S-Y"], "BIOES"),
        (["O"], None),
        ([], None),
        (["NOUN", "VERB"], None),
        (["I", "NN", "O"], None),
        (["O", "BX", "I-X"], None),
        (["O", "I-X"], None),  # I-X would never be allowed
        (["B-X", "E-X"], None),  # no sentence of one word
    ],
)
def test_a_scheme_is_recognized_by_its_labels(labels: list[str], scheme: str | None) -> None:
    assert scheme_of(labels) == scheme


def test_labels_that_only_lack_a_rule_still_mark_spans() -> None:
    assert mark_spans({"O", "I-X"})
    assert not mark_spans({"O"})
    assert not mark_spans({"NOUN", "B-X"})


@pytest.mark.parametrize(
    ("labels", "scheme", "found"),
    [
        ("B-PER I-PER O B-LOC", "BIO", None),
        ("", "BIO", None),
        ("O I-PER", "BIO", (1, "I-PER follows O, which BIO forbids")),
        ("I-PER O", "BIO", (0, "I-PER starts a sentence, which BIO forbids")),
        ("B-PER I-LOC", "BIO", (1, "I-LOC follows B-PER, which BIO forbids")),
        ("B-PER B-PER", "BIO", None),
        ("B-PER I-PER E-PER S-PER O", "BIOES", None),
        ("B-PER O", "BIOES", (1, "O follows B-PER, which BIOES forbids")),
        ("S-PER I-PER", "BIOES", (1, "I-PER follows S-PER, which BIOES forbids")),
        ("O B-PER I-PER", "BIOES", (2, "I-PER ends a sentence, which BIOES forbids")),
    ],
)
def test_the_first_forbidden_transition_is_named(
    labels: str, scheme: SchemeName, found: tuple[int, str] | None
) -> None:
    assert first_forbidden(labels.split(), scheme) == (found and Forbidden(*found))


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_exactly_the_labellings_of_spans_are_allowed(scheme: SchemeName) -> None:
    """All sequences of four labels: those that some set of spans has, written out, and no others."""
    labels = ["O", *(f"{prefix}-{kind}" for prefix in ("BI" if scheme == "BIO" else "BIES") for kind in "XY")]

    def written(rest: int) -> set[tuple[str, ...]]:
        if rest == 0:
            return {()}
        found = {("O", *after) for after in written(rest - 1)}
        for length, kind in itertools.product(range(1, rest + 1), "XY"):
            inner = ["B", *["I"] * (length - 1)]
            if scheme == "BIOES":
                inner = ["S"] if length == 1 else [*inner[:-1], "E"]
            found |= {(*(f"{prefix}-{kind}" for prefix in inner), *after) for after in written(rest - length)}
        return found

    allowed = allowed_transitions(labels, scheme)
    numbers = {label: number for number, label in enumerate(labels)}
    by_rules = {
        path
        for path in itertools.product(labels, repeat=4)
        if allowed.start[numbers[path[0]]]
        and allowed.end[numbers[path[-1]]]
        and all(allowed.follow[numbers[i]][numbers[j]] for i, j in itertools.pairwise(path))
    }
    assert by_rules == written(4)
    assert by_rules == {path for path in itertools.product(labels, repeat=4) if first_forbidden(path, scheme) is None}
