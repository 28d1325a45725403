"""Laws of all parsers: whatever the family and the weights, a tree over exactly the words of every sentence."""

from pathlib import Path

import pytest
import torch
from tests.contract.families import FAMILIES, config_of
from tests.shared.parsers import recipe, write_trees

from heedful.config.recipe import Recipe
from heedful.data.prepare.prepared import Prepared
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import EncoderDecoder
from heedful.tasks.loading import find_task
from heedful.tasks.parse.model import Parser

SENTENCES = ["w1 w2 w3 w4 w5", "", "w6", "never heard of"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Prepared]:
    folder = tmp_path_factory.mktemp("trees")
    write_trees(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEEDFUL_CACHE", str(folder / "cache"))
        made = recipe(Path(folder))
        return made, find_task(made).prepare(made, None, lambda message: None)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_finds_a_tree_over_exactly_the_words(family: str, prepared: tuple[Recipe, Prepared]) -> None:
    made, data = prepared
    torch.manual_seed(3)
    model = config_of(family, 0.0)
    model = model.model_copy(update={"tie": "none"}) if getattr(model, "tie", "") == "all" else model
    network = build_network(model, data.vocabularies)
    assert isinstance(network, EncoderDecoder)
    parser = Parser(Bundle(made.model_copy(update={"model": model}), data.vocabularies, network.eval()))
    found = parser.parse(SENTENCES, beam=3, max_extra=12)
    assert [list(tree.words) if tree else [] for tree in found] == [sentence.split() for sentence in SENTENCES]
