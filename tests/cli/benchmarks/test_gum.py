"""What the benchmark of parsers reads and records."""

import gzip
from pathlib import Path

from benchmarks.structure.gum import PARTS, TRIED, figures_of, wikitext_sentences

from heedful.config.reading.load import load_recipe


def test_sentences_for_silver_trees_are_known_words_in_the_form_of_the_treebank(tmp_path: Path) -> None:
    lines = [
        " = A heading = ",
        " The well @-@ known dog saw 1 @,@ 000 cats . It was <unk> there today . So ? ",
    ]
    (tmp_path / "wiki.train.tokens.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    assert [sentence.split() for sentence in wikitext_sentences(tmp_path)] == [
        ["The", "well", "-", "known", "dog", "saw", "1,000", "cats", "."]
    ]


def test_figures_are_means_over_seeds_and_the_least_share_of_trees() -> None:
    found = [
        {"f1": 0.7, "f1_unconstrained": 0.6, "f1_written": 0.8, "well_formed_at": {"1": 1.0, "4": 1.0}},
        {"f1": 0.8, "f1_unconstrained": 0.7, "f1_written": 0.9, "well_formed_at": {"1": 1.0, "4": 0.5}},
    ]
    figures = figures_of("parse", found)
    assert (figures["f1"], figures["f1_unconstrained"], figures["well_formed"]) == (75.0, 65.0, 0.5)
    assert figures["f1_written"] == 85.0
    assert set(figures_of("silver", found)) == {"f1_silver", "f1_silver_sd"}


def test_settings_that_are_tried_are_those_of_recipes() -> None:
    assert set(TRIED) < set(PARTS)
    for settings in TRIED.values():
        assert load_recipe("gum-parse", list(settings)).rules.name == "parse"
