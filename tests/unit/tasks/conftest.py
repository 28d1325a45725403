from collections.abc import Callable

import pytest

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.model.transformer import TransformerModel
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.tasks.translate.model import Translator


@pytest.fixture
def untrained() -> Callable[..., Translator]:
    """Makes tiny models of nine learned positions with fresh weights; the options are those of [model]."""

    def make(nfc: bool = False, **options: object) -> Translator:
        config = {"width": 16, "heads": 2, "layers": 1, "inner": 16, "positions": "learned", "max_positions": 9}
        recipe = Recipe(
            data=Data(train=(AlignedFiles(source="a", target="b"),), nfc=nfc, max_length=8),
            tokenizer=Words(kind="word"),
            model=TransformerModel.model_validate({**config, **options}),
        )
        tokenizer = train_tokenizer(recipe.tokenizer, ["ant bee cat dog \u00e9"])
        model = build_model(recipe.pair_model, tokenizer.size, tokenizer.size)
        return Translator(Bundle(recipe, Vocabularies({"source": tokenizer, "target": tokenizer}), model))

    return make
