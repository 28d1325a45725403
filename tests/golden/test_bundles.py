"""Old models still work: what they answered on the day they were made, they answer now.

Only the public surface is used. How goldens are made, once and for ever: `make_bundles.py`.
"""

import json
from pathlib import Path

import pytest
from tests.golden.answers import answers, differences

BUNDLES = Path(__file__).parent / "bundles"
NAMES = sorted(folder.name for folder in BUNDLES.iterdir() if folder.is_dir())


@pytest.mark.parametrize("name", NAMES)
def test_an_old_model_answers_as_it_did(name: str) -> None:
    record = json.loads((BUNDLES / f"{name}.json").read_text())
    assert differences(record["answered"], answers(BUNDLES / name, record["asked"])) == []


def test_every_tokenizer_and_every_family_is_among_the_old_models() -> None:
    recipes = [json.loads((BUNDLES / name / "config.json").read_text())["recipe"] for name in NAMES]
    assert {recipe["tokenizer"]["kind"] for recipe in recipes} == {
        "byte_bpe", "bpe", "wordpiece", "unigram", "word", "char"
    }  # fmt: skip
    families = {recipe["model"]["family"] for recipe in recipes}
    assert families == {
        "transformer", "recurrent", "mixed", "classifier", "picture_classifier", "picture_answerer", "captioner",
        "bert", "language",
        "reader", "tagger", "regressor", "image_regressor",
    }  # fmt: skip
    encoders = {recipe["model"]["encoder"]["family"] for recipe in recipes if recipe["model"]["family"] == "classifier"}
    assert encoders == {"transformer", "recurrent", "hierarchical", "bert", "language", "bag"}
    decoders = {recipe["model"]["decoder"]["family"] for recipe in recipes if recipe["model"]["family"] == "language"}
    assert decoders == {"transformer", "recurrent"}


def test_no_old_model_names_a_place_on_the_machine_that_made_it() -> None:
    for file in BUNDLES.glob("*/*"):
        if file.suffix in (".json", ".md") and not file.name.startswith("tokenizer"):
            assert not any(place in file.read_text() for place in ("/work", "/home", "/tmp", "/root")), file


def test_differences_name_the_place_and_allow_for_rounding_alone() -> None:
    recorded = {"text": "a", "scores": [1.0, -20.0]}
    assert differences(recorded, {"text": "a", "scores": [1.000005, -20.0001]}) == []
    assert differences(recorded, {"text": "b", "scores": [1.0, -20.0]}) == [".text: was 'a', is 'b'"]
    assert differences(recorded, {"text": "a", "scores": [1.00002, -20.0]}) == [".scores[0]: was 1.0, is 1.00002"]
    assert differences(recorded, {"text": "a", "scores": [1.0]}) == [".scores: was [1.0, -20.0], is [1.0]"]
