"""Pegasus: a pre-norm Transformer with one vocabulary and one matrix for all      Zhang et al. 2020

It starts with `<pad>`, and texts end with `</s>`.
"""

import torch

from heedful.base.errors import UserError
from heedful.config.model.transformer import TransformerModel
from heedful.config.task_rules import model_of
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.transformers.model_folder import ModelFolder
from heedful.interop.transformers.pairs.configs import decode_table, model_table
from heedful.interop.transformers.pairs.layouts import BIAS, PEGASUS, SHARED
from heedful.interop.transformers.pairs.reading import (
    SAME,
    fill_weights,
    is_own,
    read_own,
    recipe_of,
    refuse_other_positions,
)
from heedful.interop.transformers.tokenizers.sentencepiece_json import PieceFile
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder


def read_pegasus(folder: ModelFolder) -> Bundle[EncoderDecoder]:
    """Read a Pegasus model, or raise a UserError that says why it cannot be read."""
    if is_own(folder):
        return read_own(folder, PEGASUS)
    config, size = folder.config, folder.config.number("vocab_size")
    table = model_table(config, PEGASUS)
    config.must_be("tie_word_embeddings", True, "Heedful does not support other Pegasus models")
    pieces = PieceFile(folder)
    pad, start, end = (config.index(f"{name}_token_id", size) for name in ("pad", "decoder_start", "eos"))
    if pieces.around() != ([], [end]):
        raise UserError(
            f"{pieces.path}: `post_processor` must put `eos_token_id` after a text, and nothing else: copy it again."
        )
    vocabulary = pieces.ordered(pad, start, end, {})
    recipe = recipe_of(
        folder,
        {
            "tokenizer": {"kind": vocabulary.kind, "size": vocabulary.tokenizer.size},
            "model": table | {"positions": "sinusoidal_halves", "tie": "all"},
            "decode": decode_table(folder),
        },
    )
    model = model_of(recipe, TransformerModel)
    network = build_model(model, vocabulary.tokenizer.size, vocabulary.tokenizer.size)
    weights = folder.weights()
    embeddings = {
        "encoder.embedding.weight": vocabulary.matrix(weights.take_one(SAME[SHARED], size, model.width)),
        "decoder.output.bias": vocabulary.bias(weights.take_or(torch.zeros(1, size), BIAS)[0]),
    }
    refuse_other_positions(folder, PEGASUS, weights, model.width)
    fill_weights(network, model, PEGASUS, weights, embeddings)
    return Bundle(recipe, Vocabularies(dict.fromkeys(("source", "target"), vocabulary.tokenizer)), network)
