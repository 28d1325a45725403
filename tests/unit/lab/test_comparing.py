"""`heedful.compare`: models, files and translations in memory against each other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

import heedful
from heedful.base.errors import UserError

REFERENCES = ["a b c d", "b c d e", "c d e f", "d e f g"]
WORSE = ["a b c d", "x y z", "x y z", "x y z"]


def test_translations_in_memory_and_in_files_are_compared_alike(tmp_path: Path) -> None:
    (tmp_path / "ours.txt").write_text("".join(f"{line}\n" for line in REFERENCES))
    ours, theirs = heedful.System("ours", tuple(REFERENCES)), heedful.System("theirs", tuple(WORSE))
    found = heedful.compare(ours, theirs, references=REFERENCES, samples=100)
    again = heedful.compare(tmp_path / "ours.txt", [theirs], references=REFERENCES, samples=100)
    assert (found.a, found.b, again.a) == (("ours",), ("theirs",), (str(tmp_path / "ours.txt"),))
    assert found.metrics == again.metrics
    assert found.metrics[0].a.mean == pytest.approx(100)
    assert found.better_a[0].reference == "b c d e"


def test_a_model_translates_the_test_set_of_its_recipe_or_given_sentences(
    reversing_folder: Path, sentences: Callable[[int], list[str]], reverse: Callable[[str], str]
) -> None:
    texts = sentences(10)
    references = [reverse(text) for text in texts]
    copies = heedful.System("copies", tuple(texts))
    found = heedful.compare(
        copies, reversing_folder, sources=texts, references=references, samples=100, device="cpu", beam=1
    )
    assert found.metrics[0].difference > 0
    itself = heedful.compare(reversing_folder, reversing_folder, corpus="second", samples=100, device="cpu", beam=1)
    assert (itself.sentences, itself.metrics[0].difference) == (10, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"references": None}, "`references` is missing: translations without a model are compared with references."),
        ({"references": None, "sources": ["a"]}, "`references` is missing: sentences need references."),
        ({"references": None, "to": "de"}, "`to` is for `sources` and `references`: the corpora of the recipes have "),
        ({"sources": ["a"]}, "1 source, but 4 references: each source needs one."),
        (
            {"a": "nowhere"},
            "nowhere is neither the folder of a model nor a file of translations: nothing has that name.",
        ),
        ({"a": []}, "`a` is [], but must be the folder of a model, a file, a `heedful.System`, or a list."),
        ({"a": 5}, "`a` is 5, but must be the folder"),
        ({"b": [heedful.System("x", ()), heedful.System("x", ())]}, "`b` names x twice: the runs of a side must be "),
        ({"b": heedful.System("ours", ())}, "`a` and `b` have different translations of one name, ours: give them "),
        ({"b": heedful.System("short", ("a",))}, "short has 1 line but there are 4 references: line n must "),
        ({"metrics": ["blue"]}, "`blue` is not a metric. Did you mean `bleu`?"),
        ({"samples": 5}, "`samples` is 5, but must be 100 or more."),
        ({"to": ["de"]}, "`to` is a list, but a comparison has one target language: give one."),
        (
            {"references": [[], *REFERENCES[1:]]},
            "references, line 1 is an empty list, but must have at least one text.",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(call: dict[str, Any], message: str) -> None:
    sides = {"a": heedful.System("ours", tuple(REFERENCES)), "b": heedful.System("theirs", tuple(WORSE))}
    with pytest.raises(UserError) as caught:
        heedful.compare(**{**sides, "references": REFERENCES, **call})
    assert str(caught.value).startswith(message)


def test_a_model_needs_sentences(reversing_folder: Path) -> None:
    with refuses("`sources` is missing: ... is a model, which needs sentences to translate."):
        heedful.compare(reversing_folder, heedful.System("b", tuple(WORSE)), references=REFERENCES)


def test_the_nearest_of_several_references_counts() -> None:
    sides = heedful.System("ours", tuple(REFERENCES)), heedful.System("theirs", tuple(WORSE))
    several = [[reference, worse] for reference, worse in zip(REFERENCES, WORSE, strict=True)]
    found = heedful.compare(*sides, references=several, metrics=["wer", "exact_match"], samples=100)
    assert [(result.a.mean, result.b.mean) for result in found.metrics] == [(0, 0), (100, 100)]
