"""Findings that depend on how a model reads its texts."""

from pathlib import Path

import pytest
from tests.models.text import classifier_recipe, write_tsv

from heedful.doctor.corpora.data import check_data

PAIRS = {"train": [{"tsv": "train.tsv", "label": 1, "text": 2, "second": 3}], "valid": [], "test": []}


@pytest.mark.parametrize(("join", "cut"), [("sequence", True), ("parallel", False)])
def test_a_pair_is_cut_where_it_is_one_sequence_and_its_texts_are_not(tmp_path: Path, join: str, cut: bool) -> None:
    rows = [(label, f"{number} one two three four", "five six seven eight") for number, label in enumerate("ab" * 6)]
    write_tsv(tmp_path / "train.tsv", rows)
    model = {"join": join, "pool": None}
    recipe = classifier_recipe(
        tmp_path, model, data={**PAIRS, "max_length": 8}, train={"validation": {"metric": "loss"}}
    )
    found = check_data(recipe, lambda message: None).findings
    assert any(finding.kind == "cut" for finding in found) == cut
