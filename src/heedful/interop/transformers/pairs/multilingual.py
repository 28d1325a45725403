"""M2M-100, NLLB and mBART-50: pre-norm Transformers of many languages.

Fan et al. 2021; NLLB Team 2022; Tang et al. 2020

    there   source = <source language> text </s>    target = </s> <target language> text </s>
    here    source = <tag> text </s>                target = <s> <tag> text </s>

An imported model translates from one language: in the encoder, all tags have the vector of that language. In the
decoder each has its own, and a search starts every translation with it (`data.target_tags`). `<s>` has the vector of
`</s>`.

M2M-100 and NLLB count positions from 2, by sinusoids of other wavelengths than ours: they become learned positions.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.files import read_bytes
from heedful.config.model.transformer import TransformerModel
from heedful.config.task_rules import model_of
from heedful.data.tokenize.tokenizer import BEGIN, SPECIALS, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.transformers.model_folder import CheckedConfig, CheckedWeights, ModelFolder
from heedful.interop.transformers.pairs.configs import decode_table, model_table
from heedful.interop.transformers.pairs.layouts import BIAS, M2M_100, MBART, SHARED, Layout
from heedful.interop.transformers.pairs.reading import SAME, fill_weights, recipe_of
from heedful.interop.transformers.tokenizers.sentencepiece_file import LONGEST_PIECE, read_sentencepiece
from heedful.interop.transformers.tokenizers.sentencepiece_json import NEVER, PieceFile
from heedful.interop.transformers.tokenizers.sentencepiece_tokenizer import build_tokenizer
from heedful.interop.transformers.tokenizers.vocabulary_files import (
    UNNAMED,
    read_piece_ids,
    refuse_other_size,
)
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder

_TOKENIZER_CONFIG: Final = "tokenizer_config.json"
_USUAL_LENGTH: Final = 256  # of training sentences, where there are positions for them


def read_m2m_100(folder: ModelFolder) -> Bundle[EncoderDecoder]:
    """Read an M2M-100 or NLLB model, or raise a UserError that says why it cannot be read."""
    described = _described(folder)
    pieces = (folder.path / "vocab.json").exists() and not (folder.path / "tokenizer.json").exists()
    vocabulary = _of_m2m_100(folder, described) if pieces else _of_json(folder, described, _NLLB, "eng_Latn")
    return _read(folder, M2M_100, vocabulary, described)


def read_mbart(folder: ModelFolder) -> Bundle[EncoderDecoder]:
    """Read an mBART-50 model, or raise a UserError that says why it cannot be read."""
    described = _described(folder)
    kind = described.values.get("tokenizer_class")
    if str(kind).removesuffix("Fast") == "MBartTokenizer":
        raise UserError(
            f"{described.where}: `tokenizer_class` is {kind}, which writes the language after a text, but Heedful "
            "reads models only that have it before, as MBart50Tokenizer writes it."
        )
    return _read(folder, MBART, _of_json(folder, described, _MBART, "en_XX"), described)


def _described(folder: ModelFolder) -> CheckedConfig:
    described = folder.read_config(_TOKENIZER_CONFIG)
    described.must_be("legacy_behaviour", False, "Heedful reads models only that have the language before a text")
    return described


# --- vocabularies -----------------------------------------------------------------------------------------------------

_NLLB: Final = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_MBART: Final = re.compile(r"[a-z]{2}_[A-Z]{2}")
# In the order of their rows, after all pieces: the folder does not name them.
_CODES: Final = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
_M2M_100: Final = tuple(_CODES.split())


@dataclass(frozen=True, eq=False)
class _Vocabulary:
    """A tokenizer with tags of all languages, and the row of a folder's matrix that belongs to each of its ids."""

    tokenizer: Tokenizer
    kind: str  # of [tokenizer]
    rows: Sequence[int]
    unwritten: Sequence[int]  # ids that the model cannot output
    usual: str  # the language that texts are translated from, unless the folder says another


def _of_json(folder: ModelFolder, described: CheckedConfig, code: re.Pattern[str], usual: str) -> _Vocabulary:
    """Read a tokenizer.json, whose markers are codes of languages among others."""
    pieces = PieceFile(folder)
    languages = {piece: row for row, piece in sorted(pieces.pieces.items()) if code.fullmatch(piece)}
    pad, end = _markers(folder)
    made = pieces.ordered(pad, end, end, languages)
    return _Vocabulary(made.tokenizer, made.kind, made.rows, [BEGIN], usual)


def _of_m2m_100(folder: ModelFolder, described: CheckedConfig) -> _Vocabulary:
    """Read a vocab.json and a SentencePiece model; pieces that only the latter has are read as `<unk>`."""
    described.must_be("language_codes", "m2m100", "Heedful knows the languages of no other models")
    path = folder.require("sentencepiece.bpe.model")
    model = read_sentencepiece(read_bytes(path), str(path))
    named = read_piece_ids(folder.require("vocab.json"), LONGEST_PIECE)
    where, size = folder.path / "vocab.json", folder.config.number("vocab_size")
    if sorted(named.values()) != list(range(len(named))):
        raise UserError(f"{where}: its pieces do not have the numbers from 0 to {len(named) - 1:,}: copy it again.")
    refuse_other_size(where, len(named) + len(_M2M_100), folder)
    for special in SPECIALS:
        if special not in named:
            raise UserError(f"{where} lacks the piece `{special}`: it is not a vocabulary of M2M-100.")
    pad, end = _markers(folder)
    unknown = named["<unk>"]
    languages = range(len(named), len(named) + len(_M2M_100))
    others = [row for row in range(size) if row not in {pad, end, unknown, *languages}]
    of = {row: piece for piece, row in named.items()}
    kept = [of.get(row, f"{UNNAMED}{row}]") for row in others]
    spare = [piece for piece in (*model.scores, *model.byte_pieces) if piece not in named]
    rows = [pad, end, end, unknown, *languages, *others]
    unwritten = [BEGIN, *range(len(rows), len(rows) + len(spare))]
    tokenizer = build_tokenizer(model, [*kept, *spare], _M2M_100)
    return _Vocabulary(tokenizer, model.algorithm, [*rows, *[unknown] * len(spare)], unwritten, "en")


def _markers(folder: ModelFolder) -> tuple[int, int]:
    """Return the rows of `<pad>` and `</s>`, with which targets start there."""
    size = folder.config.number("vocab_size")
    pad, end = (folder.config.index(f"{name}_token_id", size) for name in ("pad", "eos"))
    folder.config.must_be("decoder_start_token_id", end, "Heedful reads models only that start with `</s>`")
    return pad, end


# --- models -----------------------------------------------------------------------------------------------------------


def _read(
    folder: ModelFolder, layout: Layout, vocabulary: _Vocabulary, described: CheckedConfig
) -> Bundle[EncoderDecoder]:
    config, tokenizer = folder.config, vocabulary.tokenizer
    table = model_table(config, layout)
    config.must_be("tie_word_embeddings", True, f"Heedful does not support other {layout.name} models")
    count = config.number("max_position_embeddings", 1024)
    source = _source_language(described, vocabulary)
    tables: dict[str, Any] = {
        "data": {"target_tags": True, "max_length": min(_USUAL_LENGTH, count - 1)},
        "tokenizer": {"kind": vocabulary.kind, "size": tokenizer.size},
        "model": table
        | {
            "positions": "learned",
            "max_positions": count,
            "embedding_norm": layout.embedding_norm,
            "tie": "decoder",  # of the source, all tags have one vector
        },
        "decode": decode_table(folder),
    }
    recipe = recipe_of(folder, tables, list(tokenizer.tags))
    model = model_of(recipe, TransformerModel)
    network = build_model(model, tokenizer.size, tokenizer.size)
    weights = folder.weights()
    embeddings = _embeddings(weights, vocabulary, config.number("vocab_size"), model.width, source)
    fill_weights(network, model, layout, weights, embeddings | _positions(folder, layout, weights, model))
    return Bundle(recipe, Vocabularies(dict.fromkeys(("source", "target"), tokenizer)), network)


def _source_language(described: CheckedConfig, vocabulary: _Vocabulary) -> int:
    """Return the id of the language that texts are translated from."""
    language = described.values.get("src_lang") or vocabulary.usual
    found = vocabulary.tokenizer.tags.get(str(language).removeprefix("__").removesuffix("__"))
    if found is None:
        raise UserError(
            f"{described.where}: `src_lang` is {json.dumps(language)}, but must be one of the model's languages: "
            f"{', '.join(vocabulary.tokenizer.tags)}."
        )
    return found


def _embeddings(
    weights: CheckedWeights, vocabulary: _Vocabulary, size: int, width: int, source: int
) -> dict[str, Tensor]:
    rows, tags = torch.tensor(vocabulary.rows), list(vocabulary.tokenizer.tags.values())
    target = weights.take_one(SAME[SHARED], size, width)[rows]
    read = target.clone()
    read[tags] = target[source]
    bias = weights.take_or(torch.zeros(1, size), BIAS)[0, rows]
    bias[list(vocabulary.unwritten)] = NEVER
    return {"encoder.embedding.weight": read, "decoder.embedding.weight": target, "decoder.output.bias": bias}


_FIRST: Final = 2  # the row of the first position: those before it belong to padding


def _positions(
    folder: ModelFolder, layout: Layout, weights: CheckedWeights, model: TransformerModel
) -> dict[str, Tensor]:
    """Return the vectors of positions: those of the folder, or the sinusoids of M2M-100."""
    count, width, found = model.max_positions, model.width, dict[str, Tensor]()
    for side in ("encoder", "decoder"):
        if layout is MBART:
            rows = weights.take(f"model.{side}.embed_positions.weight", count + _FIRST, width)[_FIRST:]
        else:
            rows = _sinusoids(count, width, _markers(folder)[0] + 1)
        found[f"{side}.embedding.positions.weight"] = rows
    return found


def _sinusoids(count: int, width: int, first: int) -> Float[Tensor, "P E"]:
    """P(p) = sin((p + f) r_i) before cos((p + f) r_i),  r_i = 10000^(-i / (E/2 - 1)),  in float32 as there"""
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10_000) / max(1, half - 1)))
    angles = torch.arange(first, first + count, dtype=torch.float32).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
