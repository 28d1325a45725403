"""What all readers of encoder-decoders share, and the reader of folders that Heedful itself wrote."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.interop.tensors import read_pairs
from heedful.interop.transformers.model_folder import CheckedWeights, ModelFolder
from heedful.interop.transformers.pairs.configs import MARKERS, OWN, decode_table, model_table
from heedful.interop.transformers.pairs.layouts import (
    BIAS,
    OUTPUT,
    SHARED,
    SOURCE,
    TARGET,
    Layout,
    embedding_pairs,
    stack_pairs,
)
from heedful.interop.transformers.pairs.vocabularies import FORMS, read_vocabularies
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.weights import refuse_larger_model, set_weights, shapes_of
from heedful.nn.layers.positions import Sinusoidal

_CLOSE: Final = 2e-3  # tolerance for sinusoids that were rounded to float16
# A matrix that modules share is stored under the name of any of them.
SAME: Final[Mapping[str, Sequence[str]]] = {SHARED: (SHARED, SOURCE, TARGET, OUTPUT), TARGET: (TARGET, OUTPUT)}


def recipe_of(folder: ModelFolder, tables: Mapping[str, Any], languages: Sequence[str] = ()) -> Recipe:
    """Return a recipe of these tables. Its training data is unknown, so its corpus names the folder itself."""
    corpus = {"name": "imported", "source": str(folder.path), "target": str(folder.path)}
    train = [corpus | ({"to": languages[0]} if languages else {})]
    tables = {**tables, "data": {"train": train, **tables.get("data", {})}}
    recipe = recipe_from_json(tables, str(folder.config.where))
    refuse_larger_model(recipe.model, folder.path.glob("*.safetensors"), folder.config.where)
    return recipe


def fill_weights(
    network: EncoderDecoder,
    model: TransformerModel,
    layout: Layout,
    weights: CheckedWeights,
    embeddings: Mapping[str, Tensor],
    interleaved: bool = False,
) -> None:
    """Load the blocks and norms of a folder, and these embeddings; wrong shapes and unknown tensors are refused."""
    shapes = shapes_of(dict(network.named_parameters()))
    pairs = stack_pairs(layout, model, interleaved)
    stack = read_pairs(pairs, shapes, lambda name, shape: weights.take(name, *shape))
    weights.refuse_rest()
    set_weights(network, stack | dict(embeddings))


def refuse_other_positions(folder: ModelFolder, layout: Layout, weights: CheckedWeights, width: int) -> None:
    """Refuse files whose stored positions are not our sinusoids."""
    count = folder.config.number("max_position_embeddings", 1024)
    waves = Sinusoidal(width, halves=True)(torch.arange(count), count)
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if not torch.allclose(weights.take_or(waves, name), waves, rtol=0, atol=_CLOSE):
            raise UserError(
                f"{folder.path}: `{name}` is trained, but Heedful supports only sinusoidal positions in {layout.name}."
            )


# --- folders that Heedful wrote: vocabularies in our order, and sinusoids in that of the model ------------------------

_KINDS: Final = ("byte_bpe", "bpe", "wordpiece", "unigram", "word", "char")
_POSITIONS: Final = ("sinusoidal", "sinusoidal_halves")
_PENALTIES: Final = ("wu", "shifted")


def is_own(folder: ModelFolder) -> bool:
    """Whether Heedful wrote a folder."""
    return OWN in folder.config.values


def read_own(folder: ModelFolder, layout: Layout) -> Bundle[EncoderDecoder]:
    """Read a translator that Heedful wrote, to the same weights; they may have been trained further since."""
    config, own = folder.config, folder.config.table(OWN)
    for key, wanted in MARKERS.items():
        config.must_be(key, wanted, "Heedful wrote this model with it")
    forms = {key: own.flag(f"{OWN}.{key}", False) for key in FORMS}
    joint = own.flag(f"{OWN}.joint", True)
    vocabularies = read_vocabularies(folder, joint, forms)
    sizes = vocabularies["source"].size, vocabularies["target"].size
    for key, size in zip(("vocab_size", "decoder_vocab_size"), sizes, strict=True):
        config.must_be(key, size, "the tokenizer of this folder has that many pieces")
    recipe = recipe_of(folder, _tables(folder, layout, joint, forms, sizes), [*vocabularies["source"].tags])
    model = model_of(recipe, TransformerModel)
    network = build_model(model, *sizes)
    weights, shapes = folder.weights(), shapes_of(dict(network.named_parameters()))
    interleaved = model.positions == "sinusoidal"
    pairs = [pair for pair in embedding_pairs(model, interleaved) if pair.ours in shapes]
    same = SAME if model.tie != "none" else {}
    embeddings = read_pairs(pairs, shapes, lambda name, shape: weights.take_one(same.get(name, [name]), *shape))
    if not model.output_bias and weights.take_or(torch.zeros(1, sizes[1]), BIAS).any():
        raise UserError(f"{folder.path}: `{BIAS}` is not zero, but `{OWN}.output_bias` says that there is none.")
    refuse_other_positions(folder, layout, weights, model.width)
    fill_weights(network, model, layout, weights, embeddings, interleaved)
    return Bundle(recipe, vocabularies, network)


def _tables(
    folder: ModelFolder, layout: Layout, joint: bool, forms: Mapping[str, bool], sizes: tuple[int, int]
) -> dict[str, Any]:
    own = folder.config.table(OWN)

    def chosen(key: str, choices: Sequence[str]) -> str:
        return own.choice(f"{OWN}.{key}", {choice: choice for choice in choices})

    shared = folder.config.flag("share_encoder_decoder_embeddings", True)
    tied = folder.config.flag("tie_word_embeddings", True)
    source, target = ({"kind": chosen(name, _KINDS), "size": size} for name, size in zip(_SIDES, sizes, strict=True))
    return {
        "data": {**forms, "max_length": own.number(f"{OWN}.max_length")},
        "tokenizer": source if joint else {**source, "target": target},
        "model": model_table(folder.config, layout)
        | {
            "positions": chosen("positions", _POSITIONS),
            "output_bias": own.flag(f"{OWN}.output_bias", False),
            "tie": "all" if shared and joint else "decoder" if tied else "none",
        },
        "decode": decode_table(folder)
        | {
            "max_extra": own.number(f"{OWN}.max_extra"),
            "length_penalty_kind": chosen("length_penalty_kind", _PENALTIES),
        },
    }


_SIDES: Final = ("source", "target")
