"""Every recipe in the pages is read without complaint; what a fragment leaves out is filled in."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.docs.blocks import Block, blocks_in

from heedful.config.reading.load import load_recipe
from heedful.config.reading.toml import toml_document

PAIRS = {"source": "train.en", "target": "train.de"}
LABELLED = {"tsv": "train.tsv", "label": 1, "text": 2}
RUNNING = {"text": "train.txt"}
CORPORA: dict[str, dict[str, Any]] = {
    "classifier": LABELLED,
    "regressor": {"tsv": "train.tsv", "number": 1, "text": 2},
    "image_classifier": {"builtin": "scenes"},
    "captioner": {"builtin": "scenes"},
    "image_answerer": {"builtin": "scenes", "questions": 4},
    "tagger": {"conll": "train.conll"},
    "bert": RUNNING,
    "language": RUNNING,
}  # else pairs


@pytest.mark.parametrize("block", blocks_in("toml"), ids=lambda block: block.where)
def test_a_recipe_in_a_page_can_be_read(block: Block, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(toml_document(_completed(tomllib.loads(block.text))), encoding="utf-8")
    assert load_recipe(recipe).data.train


def test_a_wrong_key_in_a_page_would_be_found(tmp_path: Path) -> None:
    block = Block("page.md", 1, "toml", '[model]\nfamliy = "recurrent"\n')
    with pytest.raises(Exception, match="famliy"):
        test_a_recipe_in_a_page_can_be_read(block, tmp_path)


def _completed(values: dict[str, Any]) -> dict[str, Any]:
    if isinstance(values.get("train"), list):  # a key of [data] without its table
        values = {"data": values}
    family = values.get("model", {}).get("family", "masking" in values.get("train", {}) and "bert")
    corpus = CORPORA.get(family, PAIRS)
    data = ({} if "train" in values.get("data", {}) else {"train": corpus, "valid": corpus}) | values.get("data", {})
    model = values.get("model", {}) | ({"family": family} if family else {})
    train = values.get("train", {})
    length = {} if "epochs" in train else {"steps": 10}
    return values | {"data": data, "model": model, "train": length | train}
