"""MarianMT models such as OPUS-MT: a post-norm Transformer, one vocabulary, and two SentencePiece models.

Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.files import read_bytes
from heedful.config.model.transformer import TransformerModel
from heedful.config.task_rules import model_of
from heedful.data.tokenize.tokenizer import BEGIN, PAD
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.transformers.model_folder import ModelFolder
from heedful.interop.transformers.pairs.configs import decode_table, model_table
from heedful.interop.transformers.pairs.layouts import BIAS, MARIAN, OUTPUT, SHARED, SOURCE, TARGET
from heedful.interop.transformers.pairs.reading import (
    SAME,
    fill_weights,
    is_own,
    read_own,
    recipe_of,
    refuse_other_positions,
)
from heedful.interop.transformers.tokenizers.sentencepiece_file import (
    LONGEST_PIECE,
    SentencePieceModel,
    read_sentencepiece,
)
from heedful.interop.transformers.tokenizers.sentencepiece_tokenizer import build_tokenizer
from heedful.interop.transformers.tokenizers.vocabulary_files import read_piece_ids
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder

# --- vocabularies: special pieces first, then language tags, then all others in the old order -------------------------

_PAD, _END, _UNKNOWN = _SPECIALS = ("<pad>", "</s>", "<unk>")
_LANGUAGE: Final = re.compile(r">>(\w[\w-]*)<<")

Ids = Mapping[str, int]


@dataclass(frozen=True)
class MarianVocabulary:
    """The piece of each of our ids, and its row in Marian's matrices.

    Marian's `</s>` and `<unk>` become Heedful's. Its `<pad>` becomes both `<pad>` and `<s>`, because Marian starts
    translations with it. A target language written as `>>fr<<` becomes the tag `<2fr>`.
    """

    languages: tuple[str, ...]
    pieces: tuple[str, ...]  # after the special ones and the tags
    rows: tuple[int, ...]  # one per id
    never: tuple[int, ...]  # ids that Marian cannot output

    @classmethod
    def of(cls, ids: Ids, models: Sequence[SentencePieceModel]) -> "MarianVocabulary":
        """Order the pieces of a vocabulary, followed by those that only its SentencePiece models have.

        To Marian the latter are all `<unk>`: they are read as `<unk>` and never written.
        """
        ordered = sorted(ids, key=lambda piece: ids[piece])
        codes = {piece: found[1] for piece in ordered if (found := _LANGUAGE.fullmatch(piece))}
        pieces = [piece for piece in ordered if piece not in _SPECIALS and piece not in codes]
        cut = dict.fromkeys(piece for model in models for piece in (*model.scores, *model.byte_pieces))
        spare = [piece for piece in cut if piece not in ids]
        kept = [ids[piece] for piece in (_PAD, _PAD, _END, _UNKNOWN, *codes, *pieces)]
        rows = (*kept, *[ids[_UNKNOWN]] * len(spare))
        return cls(tuple(codes.values()), (*pieces, *spare), rows, (PAD, BEGIN, *range(len(kept), len(rows))))


def read_ids(path: Path, size: int) -> Ids:
    """Read a vocab.json, which must have exactly the ids from 0 to `size` - 1."""
    ids = read_piece_ids(path, LONGEST_PIECE)
    if len(ids) != size or sorted(ids.values()) != list(range(size)):
        raise UserError(
            f"{path} has {len(ids):,} pieces, but config.json requires one for each number from 0 to {size - 1:,}: "
            "copy both again."
        )
    for special in _SPECIALS:
        if special not in ids:
            raise UserError(f"{path} lacks the piece `{special}`: it is not a Marian vocabulary.")
    return ids


# --- models ---------------------------------------------------------------------------------------------------------

NEVER: Final = -100.0  # bias of pieces that Marian cannot output: a factor of e^-100 makes them impossible


def read_marian(folder: ModelFolder) -> Bundle[EncoderDecoder]:
    """Read a MarianMT model, or raise a UserError that says why it cannot be read.

    The sides split text differently, so there are two tokenizers, and no recipe ties the embeddings of two
    tokenizers. The source embedding is therefore a copy; only the target embedding and the output layer are tied.
    """
    if is_own(folder):
        return read_own(folder, MARIAN)
    table = model_table(folder.config, MARIAN)
    first, second = (
        read_sentencepiece(read_bytes(folder.require(name)), str(folder.path / name))
        for name in ("source.spm", "target.spm")
    )
    models, ids = (first, second), _ids(folder)
    if ids[0] is ids[1]:
        sides = (MarianVocabulary.of(ids[0], models),) * 2
    else:
        sides = MarianVocabulary.of(ids[0], [first]), MarianVocabulary.of(ids[1], [second])
    source, target = (
        build_tokenizer(model, side.pieces, side.languages) for model, side in zip(models, sides, strict=True)
    )
    tied = folder.config.flag("tie_word_embeddings", True)
    tables: dict[str, Any] = {
        "tokenizer": {"kind": first.algorithm, "size": len(sides[1].rows), "joint": False},
        "model": table | {"positions": "sinusoidal_halves", "tie": "decoder" if tied else "none"},
        "decode": decode_table(folder),
    }
    recipe = recipe_of(folder, tables, sides[0].languages)
    network = build_model(recipe.pair_model, source.size, target.size)
    _fill_weights(network, model_of(recipe, TransformerModel), folder, (len(ids[0]), len(ids[1])), sides)
    return Bundle(recipe, Vocabularies({"source": source, "target": target}), network)


def _ids(folder: ModelFolder) -> tuple[Ids, Ids]:
    """Read the piece ids of both sides; the same object twice if they share a vocabulary."""
    config = folder.config
    source = read_ids(folder.require("vocab.json"), config.number("vocab_size"))
    target = source
    if folder.read_config("tokenizer_config.json").flag("separate_vocabs", False):
        target = read_ids(folder.require("target_vocab.json"), config.number("decoder_vocab_size"))
    for ids in (source, target):
        why = "this is its id in vocab.json"
        config.must_be("eos_token_id", ids["</s>"], why)
        config.must_be("pad_token_id", ids["<pad>"], why)
    config.must_be("decoder_start_token_id", target["<pad>"], "Marian starts translations with `<pad>`")
    return source, target


# --- weights: rows in the order of our ids ----------------------------------------------------------------------------


def _fill_weights(
    network: EncoderDecoder,
    model: TransformerModel,
    folder: ModelFolder,
    sizes: tuple[int, int],
    sides: tuple[MarianVocabulary, MarianVocabulary],
) -> None:
    """Load a folder's weights into our network; wrong shapes and unknown tensors are refused.

    `sizes` are the sizes of Marian's source and target vocabularies; `sides` are our versions of them.
    """
    weights = folder.weights()
    # A matrix shared by all is copied for each side.
    tied = folder.config.flag("tie_word_embeddings", True)
    if tied and folder.config.flag("share_encoder_decoder_embeddings", True):
        source = target = weights.take_one(SAME[SHARED], sizes[0], model.width)
    else:
        source = weights.take(SOURCE, sizes[0], model.width)
        target = weights.take_one(SAME[TARGET] if tied else [TARGET], sizes[1], model.width)
    output = target if tied else weights.take(OUTPUT, sizes[1], model.width)
    source_rows, target_rows = (torch.tensor(side.rows) for side in sides)
    bias = weights.take_or(torch.zeros(1, sizes[1]), BIAS)[0, target_rows]
    bias[torch.tensor(sides[1].never)] = NEVER
    embeddings: dict[str, Tensor] = {
        "encoder.embedding.weight": source[source_rows],
        "decoder.embedding.weight": target[target_rows],
        "decoder.output.weight": output[target_rows],  # ignored if tied to the embedding
        "decoder.output.bias": bias,
    }
    refuse_other_positions(folder, MARIAN, weights, model.width)
    fill_weights(network, model, MARIAN, weights, embeddings)
