"""The recipe of an imported language model."""

from typing import Any

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.interop.byte_level import ByteLevelVocabulary
from heedful.interop.model_folder import ModelFolder


def language_recipe(
    folder: ModelFolder, decoder: dict[str, Any], tie: bool, vocabulary: ByteLevelVocabulary, longest: int
) -> Recipe:
    """Return a recipe for the same model. Its training data is unknown, so its corpus names the folder itself.

    Texts have closed borders where the folder's tokenizer puts a marker before them. Otherwise borders are open: a
    prompt is continued as it is.
    """
    data = {
        "train": [{"name": "imported", "text": str(folder.path)}],
        "max_length": longest,
        "batch_tokens": max(4096, longest),
        "borders": "closed" if vocabulary.begins else "open",
    }
    table = {
        "data": data,
        "tokenizer": {"kind": "byte_bpe", "size": vocabulary.tokenizer.size},
        "model": {"family": "language", "decoder": decoder, "tie": tie, "output_bias": True},
    }
    return recipe_from_json(table, str(folder.config.where))
