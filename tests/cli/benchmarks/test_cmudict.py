"""The files that the benchmark of phonemes is made of."""

import hashlib
from pathlib import Path

from benchmarks.structure.cmudict import figures_of, prepare, read_entries, split_of
from tests.shared.refusals import refuses

LINES = [
    "a AH0",
    "a(2) EY1",
    "tomato T AH0 M EY1 T OW2",
    "tomato(2) T AH0 M AA1 T OW2 # rare",
    "lead L EH1 D",
    "lead(2) L EH0 D",
    "",
    ";;; note",
]


def test_stress_comments_and_numbers_of_variants_are_left_out() -> None:
    assert [*read_entries(LINES, "here")] == [
        ("a", "AH"),
        ("a", "EY"),
        ("tomato", "T AH M EY T OW"),
        ("tomato", "T AH M AA T OW"),
        ("lead", "L EH D"),  # once, as both differ in stress alone
    ]


def test_a_word_without_phonemes_is_refused() -> None:
    with refuses("here, line 2 has a word without phonemes: `b`."):
        list(read_entries(["a AH0", "b"], "here"))


def test_words_are_split_by_their_hash_and_variants_stay_together(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(200)]
    dictionary = tmp_path / "d.dict"
    dictionary.write_text("".join(f"{word} W AH0\n{word}(2) W EH1\n" for word in words))
    prepare(dictionary, tmp_path / "out")
    found = {name: (tmp_path / f"out/{name}.tsv").read_text().splitlines() for name in ("train", "valid", "test")}
    assert sum(map(len, found.values())) == 400
    for name, lines in found.items():
        for line in lines:
            remainder = int.from_bytes(hashlib.sha256(line.split("\t")[0].encode()).digest(), "big") % 20
            assert {0: "test", 1: "valid"}.get(remainder, "train") == name == split_of(line.split("\t")[0])
    assert {line.split("\t")[1] for line in found["test"]} == {"W AH", "W EH"}


def test_figures_are_means_deviations_and_the_worst_seed() -> None:
    found = figures_of([{"scores": {"per": per, "wer": 20.0}} for per in (5.0, 6.0)])
    assert found == {"per": 5.5, "per_most": 6.0, "per_sd": 0.7071, "wer": 20.0, "wer_most": 20.0, "wer_sd": 0.0}
    assert figures_of([]) == {}
