"""The [data] table."""

import json
import shutil
from pathlib import Path

import pytest

from heedful.base.errors import UserError
from heedful.config.data import Data
from heedful.config.reading.load import load_recipe
from heedful.models.bundle import read_description

GOLDEN = Path(__file__).parents[2] / "golden" / "bundles" / "classifier-transformer"


def recipe_file(folder: Path, cut: str) -> str:
    path = folder / "my.toml"
    path.write_text(
        f'[data]\ncut = "{cut}"\ntrain = {{ tsv = "a.tsv", text = 1, label = 2 }}\n[model]\nfamily = "classifier"\n'
    )
    return str(path)


@pytest.mark.parametrize("word", ["start", "begin"])
def test_the_start_of_a_text_is_cut_by_its_old_name_too(word: str, tmp_path: Path) -> None:
    assert load_recipe(recipe_file(tmp_path, word)).data.cut == "start"
    assert Data.model_validate({"train": [{"text": "a.txt"}], "cut": word}).cut == "start"


@pytest.mark.parametrize("word", ["start", "begin"])
def test_a_bundle_may_have_the_old_name(word: str, tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN, tmp_path / "bundle")
    config = json.loads((folder / "config.json").read_text())
    config["recipe"]["data"]["cut"] = word
    (folder / "config.json").write_text(json.dumps(config))
    assert read_description(folder)[0].data.cut == "start"


def test_only_the_new_name_is_offered(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe(recipe_file(tmp_path, "front"))
    assert str(caught.value).endswith('`data.cut` is "front", but must be "end", "start" or "middle".')
