"""MarianMT models such as OPUS-MT: a post-norm Transformer, one vocabulary, and two SentencePiece models.

Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from heedful.base.errors import UserError
from heedful.base.files import read_bytes, read_json
from heedful.config.reading.load import recipe_from_json
from heedful.data.tokenize.tokenizer import BEGIN, PAD
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.transformers.model_folder import CheckedConfig, CheckedWeights, ModelFolder
from heedful.interop.transformers.tokenizers.sentencepiece_file import (
    LONGEST_PIECE,
    SentencePieceModel,
    read_sentencepiece,
)
from heedful.interop.transformers.tokenizers.sentencepiece_tokenizer import build_tokenizer
from heedful.interop.transformers.tokenizers.vocabulary_files import refuse_long_pieces
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder
from heedful.models.weights import refuse_larger_model, set_weights, shapes_of
from heedful.nn.layers.positions import Sinusoidal

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
    ids = read_json(path)
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise UserError(f"{path} must map pieces to numbers, but contains something else: copy it again.")
    refuse_long_pieces(path, ids, LONGEST_PIECE)
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

_ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
_FIXED: Final[Mapping[str, bool]] = {  # what every MarianMT model has in common
    "normalize_before": False,
    "add_final_layer_norm": False,
    "layernorm_embedding": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
}
_SEARCH: Final = {"num_beams": "beam", "max_length": "max_extra", "no_repeat_ngram_size": "no_repeat"}


def read_marian(folder: ModelFolder) -> Bundle[EncoderDecoder]:
    """Read a MarianMT model, or raise a UserError that says why it cannot be read."""
    for key, wanted in _FIXED.items():
        folder.config.must_be(key, wanted, "Heedful does not support other Marian models")
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
    recipe = recipe_from_json(
        _recipe(folder, models[0].algorithm, len(sides[1].rows), sides[0].languages), str(folder.config.where)
    )
    refuse_larger_model(recipe.model, folder.path.glob("*.safetensors"), folder.config.where)
    network = build_model(recipe.pair_model, source.size, target.size)
    fill_weights(network, folder, (len(ids[0]), len(ids[1])), sides)
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


# --- the recipe -------------------------------------------------------------------------------------------------------


def _recipe(folder: ModelFolder, kind: str, size: int, languages: tuple[str, ...]) -> dict[str, Any]:
    """Return a recipe for the same model. Its training data is unknown, so its corpus names the folder itself.

    The sides split text differently, so there are two tokenizers, and no recipe ties the embeddings of two
    tokenizers. The source embedding is therefore a copy; only the target embedding and the output layer are tied.
    """
    corpus = {"name": "imported", "source": str(folder.path), "target": str(folder.path)}
    return {
        "data": {"train": [corpus | ({"to": languages[0]} if languages else {})]},
        "tokenizer": {"kind": kind, "size": size, "joint": False},
        "model": _table(folder.config),
        "decode": _decode(folder),
    }


def _table(config: CheckedConfig) -> dict[str, Any]:
    for decoder, encoder in (
        ("decoder_attention_heads", "encoder_attention_heads"),
        ("decoder_ffn_dim", "encoder_ffn_dim"),
    ):
        config.must_be(decoder, config.number(encoder), f"Heedful uses the value of `{encoder}` on both sides")
    return {
        "family": "transformer",
        "width": config.number("d_model"),
        "heads": config.divisor("encoder_attention_heads", "d_model"),
        "layers": config.number("encoder_layers"),
        "decoder_layers": config.number("decoder_layers"),
        "inner": config.number("encoder_ffn_dim"),
        "activation": config.choice("activation_function", _ACTIVATIONS),
        "positions": "sinusoidal_halves",
        "embedding_scale": config.flag("scale_embedding", False),
        "tie": "decoder" if config.flag("tie_word_embeddings", True) else "none",
        "output_bias": True,
        "dropout": config.fraction("dropout", 0.0),
        "dropout_attention": config.fraction("attention_dropout", 0.0),
        "dropout_inner": config.fraction("activation_dropout", 0.0),
    }


def _decode(folder: ModelFolder) -> dict[str, Any]:
    """Translate the search options of `transformers` as closely as possible; older folders keep them in config.json.

    There log P is divided by n^a, here by (1 + n)^a. There `max_length` bounds a translation regardless of its
    source; here a translation may have that many pieces more than its source.
    """
    values = {**folder.config.values, **folder.read_config("generation_config.json").values}
    said = CheckedConfig(folder.path / "generation_config.json", values)
    whole = {ours: said.number(theirs) for theirs, ours in _SEARCH.items() if values.get(theirs) is not None}
    return {**whole, "length_penalty": said.real("length_penalty", 1.0), "length_penalty_kind": "shifted"}


# --- weights: rows in the order of our ids, projections joined into one matrix ----------------------------------------

NEVER: Final = -100.0  # bias of pieces that Marian cannot output: a factor of e^-100 makes them impossible

_SHARED, _OUTPUT = "model.shared.weight", "lm_head.weight"
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_BLOCK: Final[
    Mapping[str, tuple[str, ...]]
] = {  # our modules in a block, and those of Marian that are concatenated into each
    "attention.project": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "around_attention.after": ("self_attn_layer_norm",),
    "cross.project_query": ("encoder_attn.q_proj",),
    "cross.project_memory": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.output": ("encoder_attn.out_proj",),
    "around_cross.after": ("encoder_attn_layer_norm",),
    "network.into": ("fc1",),
    "network.out": ("fc2",),
    "around_network.after": ("final_layer_norm",),
}
_IN_BLOCK: Final = re.compile(r"(?P<side>encoder|decoder)\.blocks\.(?P<layer>\d+)\.(?P<ours>.+)\.(?P<kind>weight|bias)")
_CLOSE: Final = 2e-3  # tolerance for sinusoids that were rounded to float16


def fill_weights(
    model: EncoderDecoder, folder: ModelFolder, sizes: tuple[int, int], sides: tuple[MarianVocabulary, MarianVocabulary]
) -> None:
    """Load a folder's weights into our model; wrong shapes and unknown tensors are refused.

    `sizes` are the sizes of Marian's source and target vocabularies; `sides` are our versions of them.
    """
    weights = folder.weights()
    width = model.decoder.output.weight.shape[1]
    # The embeddings and the output layer; a matrix shared by all is copied for each side.
    tied = folder.config.flag("tie_word_embeddings", True)
    if tied and folder.config.flag("share_encoder_decoder_embeddings", True):
        source = target = weights.take_one([_SHARED, _SOURCE, _TARGET, _OUTPUT], sizes[0], width)
    else:
        source = weights.take(_SOURCE, sizes[0], width)
        target = weights.take_one([_TARGET, *([_OUTPUT] if tied else [])], sizes[1], width)
    output = target if tied else weights.take(_OUTPUT, sizes[1], width)
    source_rows, target_rows = (torch.tensor(side.rows) for side in sides)
    bias = weights.take_or(torch.zeros(1, sizes[1]), "final_logits_bias")[0, target_rows]
    bias[torch.tensor(sides[1].never)] = NEVER
    ours = {
        "encoder.embedding.weight": source[source_rows],
        "decoder.embedding.weight": target[target_rows],
        "decoder.output.weight": output[target_rows],  # ignored if tied to the embedding
        "decoder.output.bias": bias,
    }
    for name, shape in shapes_of(dict(model.named_parameters())).items():
        if found := _IN_BLOCK.fullmatch(name):
            names = [f"model.{found['side']}.layers.{found['layer']}.{part}" for part in _BLOCK[found["ours"]]]
            rows = shape[0] // len(names)
            ours[name] = torch.cat([weights.take(f"{part}.{found['kind']}", rows, *shape[1:]) for part in names])
    _refuse_other_positions(weights, folder, width)
    weights.refuse_rest()
    set_weights(model, ours)


def _refuse_other_positions(weights: CheckedWeights, folder: ModelFolder, width: int) -> None:
    """Refuse files whose stored positions are not our sinusoids."""
    count = folder.config.number("max_position_embeddings", 1024)
    waves = Sinusoidal(width, halves=True)(torch.arange(count), count)
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        if not torch.allclose(weights.take_or(waves, name), waves, rtol=0, atol=_CLOSE):
            raise UserError(
                f"{folder.path}: `{name}` is trained, but Heedful supports only sinusoidal positions in Marian."
            )
