"""The gold alignments of the english-spanish generator."""

from benchmarks.shared.gold_alignments import align, gold_alignments
from tests.unit.data.builtin.english_spanish_sentences import many, one, says

from heedful.data.builtin.english_spanish import sentence_pairs
from heedful.data.builtin.english_spanish_grammar import ME, THE

COUNT = 1500


def test_the_aligned_words_are_those_of_the_sentences() -> None:
    aligned = gold_alignments("train", COUNT, seed=3)
    for pair, written in zip(sentence_pairs("train", COUNT, seed=3), aligned, strict=True):
        assert (" ".join(written.english), " ".join(written.spanish)) == pair


def test_links_are_between_words_and_sure_ones_are_possible() -> None:
    unaligned = words = 0
    for found in gold_alignments("test", 400):
        assert found.sure <= found.possible
        assert all(0 <= left < len(found.english) and 0 <= right < len(found.spanish) for left, right in found.possible)
        unaligned += len(found.spanish) - len({right for _, right in found.possible})
        words += len(found.spanish)
    assert unaligned / words < 0.01


def test_nouns_and_adjectives_cross_and_auxiliaries_are_possible() -> None:
    found = align(says(many(THE, "cat", "small", "two"), "see", "past", one(THE, "house", "red"), negated=True))
    assert " ".join(found.spanish) == "Los dos gatos pequeños no vieron la casa roja."
    words = {(found.english[left], found.spanish[right]) for left, right in found.sure}
    assert words == {("The", "Los"), ("two", "dos"), ("small", "pequeños"), ("cats", "gatos"), ("not", "no"),
                     ("the", "la"), ("red", "roja."), ("house.", "casa")}  # fmt: skip
    others = {(found.english[left], found.spanish[right]) for left, right in found.possible - found.sure}
    assert others == {("did", "vieron"), ("see", "vieron")}


def test_words_that_one_language_leaves_out_are_possible_links() -> None:
    found = align(says(ME, "see", "present", one(THE, "horse", of=one(THE, "queen"))))
    assert " ".join(found.spanish) == "Veo el caballo de la reina."
    words = {(found.english[left], found.spanish[right], (left, right) in found.sure) for left, right in found.possible}
    assert {("I", "Veo", False), ("see", "Veo", True), ("queen's", "de", True), ("horse.", "el", False)} <= words
