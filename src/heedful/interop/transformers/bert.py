"""BERT models: a Transformer encoder that predicts masked tokens and whether one text follows another.

Devlin et al. 2019
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.files import read_bytes
from heedful.config.model.encoder_only import BertModel
from heedful.config.reading.load import recipe_from_json
from heedful.config.task_rules import model_of
from heedful.data.tokenize.tokenizer import MASK, SPECIALS, UNKNOWN, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.interop.transformers.model_folder import CheckedConfig, ModelFolder
from heedful.interop.transformers.tokenizers.vocabulary_files import (
    UNNAMED,
    load_library,
    refuse_long_pieces,
    refuse_other_size,
)
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.models.networks import MaskedModel
from heedful.models.weights import set_weights, shapes_of

_FIXED: Final[Mapping[str, Any]] = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_ACTIVATIONS: Final = {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"}  # in the blocks and in the head
_WORDS: Final = "bert.embeddings.word_embeddings.weight"
_LAST_BLOCK: Final = "bert.encoder.layer.{}.attention.self.query.weight"
_HEAD: Final = "cls.predictions.transform.dense.weight"
_FOLLOWS: Final = "cls.seq_relationship.weight"


def read_bert(folder: ModelFolder) -> Bundle[MaskedModel]:
    """Read a BERT model, or raise a UserError that says why it cannot be read."""
    config = folder.config
    for key, wanted in _FIXED.items():
        config.must_be(key, wanted, "Heedful does not support other BERT models")
    tensors, model = BertTensors(folder), _table(config)
    width = model["width"]
    # Check the sizes before anything is allocated: a config can claim any.
    tensors.take(_WORDS, config.number("vocab_size"), width)
    tensors.take(_LAST_BLOCK.format(model["layers"] - 1), width, width)
    vocabulary = read_vocabulary(folder)
    if not tensors.has(_HEAD, width, width):
        raise UserError(
            f"{folder.path} holds BERT's encoder without its masked-language-model head (`{_HEAD}`), which "
            "`heedful fill` needs: import a BertForMaskedLM or BertForPreTraining folder."
        )
    model["next_sentence"] = tensors.has(_FOLLOWS, 2, width)
    if model["next_sentence"] and model["segments"] < 2:
        raise UserError(
            f"{config.where}: `type_vocab_size` is {model['segments']}, but must be 2, because the model predicts "
            "next sentences."
        )
    longest = model["max_positions"]
    described = {
        "data": {
            # The training data is unknown, so the corpus names the folder itself.
            "train": [{"name": "imported", "text": str(folder.path)}],
            "max_length": longest,
            "batch_tokens": max(4096, longest),
        },
        "tokenizer": {"kind": "wordpiece", "size": vocabulary.tokenizer.size},
        "model": model,
    }
    recipe = recipe_from_json(described, str(config.where))
    table = model_of(recipe, BertModel)
    network = build_masked_model(table, vocabulary.tokenizer.size)
    fill_weights(network, table, tensors, vocabulary.rows, config.number("vocab_size"))
    return Bundle(recipe, Vocabularies({"text": vocabulary.tokenizer}), network)


def _table(config: CheckedConfig) -> dict[str, Any]:
    return {
        "family": "bert",
        "width": config.number("hidden_size"),
        "heads": config.divisor("num_attention_heads", "hidden_size"),
        "layers": config.number("num_hidden_layers"),
        "inner": config.number("intermediate_size"),
        "activation": config.choice("hidden_act", _ACTIVATIONS),
        "norm_epsilon": config.real("layer_norm_eps", 1e-12),
        "max_positions": config.number("max_position_embeddings"),
        "segments": config.number("type_vocab_size"),
        "dropout": config.fraction("hidden_dropout_prob", 0.1),
        "dropout_attention": config.fraction("attention_probs_dropout_prob", 0.1),
    }


# Our modules, and their modules whose tensors are concatenated into ours. Each has a weight, and most have a bias.
_OUTSIDE_BLOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "encoder.embedding.norm": ("bert.embeddings.LayerNorm",),
    "head.linear": ("cls.predictions.transform.dense",),
    "head.norm": ("cls.predictions.transform.LayerNorm",),
    "pooler.linear": ("bert.pooler.dense",),
    "follows": ("cls.seq_relationship",),  # class 0 is "follows" in both
}
_IN_BLOCK: Final[Mapping[str, tuple[str, ...]]] = {
    "attention.project": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "around_attention.after": ("attention.output.LayerNorm",),
    "network.into": ("intermediate.dense",),
    "network.out": ("output.dense",),
    "around_network.after": ("output.LayerNorm",),
}
_SINGLE: Final[Mapping[str, tuple[str, ...]]] = {
    "encoder.embedding.weight": ("bert.embeddings.word_embeddings.weight",),
    "encoder.embedding.positions.weight": ("bert.embeddings.position_embeddings.weight",),
    "encoder.embedding.segments": ("bert.embeddings.token_type_embeddings.weight",),
    "head.output.bias": ("cls.predictions.bias",),
}
_ROW_PER_PIECE: Final = ("encoder.embedding.weight", "head.output.bias")  # our names
_SHARED: Final[Mapping[str, str]] = {  # a tensor that is used twice has two names, and a file may store it under either
    "bert.embeddings.word_embeddings.weight": "cls.predictions.decoder.weight",
    "cls.predictions.bias": "cls.predictions.decoder.bias",
}


# --- weights ----------------------------------------------------------------------------------------------------------


def bert_names(layers: int) -> dict[str, tuple[str, ...]]:
    """Map our parameters of a model with this many blocks to the tensors that are concatenated into each."""
    modules = dict(_OUTSIDE_BLOCKS)
    for layer in range(layers):
        for ours, theirs in _IN_BLOCK.items():
            modules[f"encoder.blocks.{layer}.{ours}"] = tuple(f"bert.encoder.layer.{layer}.{part}" for part in theirs)
    of_modules = {
        f"{ours}.{kind}": tuple(f"{part}.{kind}" for part in theirs)
        for ours, theirs in modules.items()
        for kind in ("weight", "bias")
    }
    return {**_SINGLE, **of_modules}


def spellings(name: str) -> list[str]:
    """Return all names of a tensor: the current one, those in encoder-only files, and older ones."""
    names = [name, *([_SHARED[name]] if name in _SHARED else [])]
    names += [called.removeprefix("bert.") for called in names]
    older = [called.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for called in names]
    return list(dict.fromkeys([*names, *older]))


class BertTensors:
    """The tensors of a folder by their current names, whatever they are called there."""

    def __init__(self, folder: ModelFolder) -> None:
        self._weights, self._folder = folder.weights(), folder.path
        self._found: dict[str, Tensor | None] = {}

    def has(self, name: str, *shape: int) -> bool:
        """Whether the folder has this tensor; one of another shape is refused."""
        if name not in self._found:
            absent = torch.empty(shape, device="meta")
            called = {spelling: self._weights.take_or(absent, spelling) for spelling in spellings(name)}
            present = {spelling: tensor for spelling, tensor in called.items() if tensor is not absent}
            first, *others = present or [name]
            for other in others:
                if not torch.equal(present[first], present[other]):
                    raise UserError(
                        f"{self._folder}: `{first}` and `{other}` differ, but must be equal, because Heedful's BERT "
                        "shares one tensor: import a model with `tie_word_embeddings`."
                    )
            self._found[name] = present.get(first)
        return self._found[name] is not None

    def take(self, name: str, *shape: int) -> Tensor:
        """Take a tensor of this shape, or refuse a folder without it."""
        found = self._found[name] if self.has(name, *shape) else None
        return self._weights.take(name, *shape) if found is None else found  # raises the error that names it

    def refuse_rest(self) -> None:
        """Refuse a folder with tensors that were not taken."""
        self._weights.refuse_rest()


def fill_weights(model: MaskedModel, table: BertModel, tensors: BertTensors, rows: Sequence[int], size: int) -> None:
    """Load a folder's weights into our model; wrong shapes and unknown tensors are refused.

    The folder's matrices have `size` rows, one per piece; `rows` gives the row of each of our ids.
    """
    shapes, names, ours = shapes_of(dict(model.named_parameters())), bert_names(table.layers), {}
    for name, shape in shapes.items():
        count = size if name in _ROW_PER_PIECE else shape[0] // len(names[name])
        ours[name] = torch.cat([tensors.take(part, count, *shape[1:]) for part in names[name]])
    for name in _ROW_PER_PIECE:
        ours[name] = ours[name][torch.tensor(rows)]
    # Skip tensors that our model does not need: position numbers, and a pooler without a head on top.
    width = table.width
    tensors.has("bert.embeddings.position_ids", 1, table.max_positions)
    if not table.next_sentence:
        tensors.has("bert.pooler.dense.weight", width, width)
        tensors.has("bert.pooler.dense.bias", width)
    tensors.refuse_rest()
    set_weights(model, ours)


_LIST, _LIBRARY, _CONFIG, _ADDED = "vocab.txt", "tokenizer.json", "tokenizer_config.json", "added_tokens.json"
_OURS: Final = (*SPECIALS, MASK)
_THEIRS: Final[Mapping[str, str]] = {  # in the order of `_OURS`: config keys and default names
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}
_CLASSES: Final = ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
_PARTS: Final[Mapping[str, str]] = {  # how BERT splits text, as class names of the tokenizers library
    "model": "WordPiece",
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
}
_INSIDE: Final = "##"  # prefix of a piece that continues a word


@dataclass(frozen=True, eq=False)
class BertVocabulary:
    """A tokenizer, and the row of BERT's matrices that belongs to each of its ids."""

    tokenizer: Tokenizer
    rows: tuple[int, ...]


def read_vocabulary(folder: ModelFolder) -> BertVocabulary:
    """Read a folder's vocabulary, or raise a UserError that says why it cannot be read."""
    config = folder.read_config(_CONFIG)
    if config.values.get("tokenizer_class") is not None:
        config.choice("tokenizer_class", {name: name for name in _CLASSES})
    config.must_be("do_basic_tokenize", True, "Heedful always splits text into words first")
    config.must_be("never_split", [], "Heedful splits every word at punctuation")
    where, theirs = _library(folder)
    markers = [_content(config.values.get(key) or usual) for key, usual in _THEIRS.items()]
    for file, piece in _added(folder, theirs, config):
        if piece not in markers:
            raise UserError(
                f"{folder.path / file} adds `{piece}` to the vocabulary, but Heedful supports only BERT's own pieces "
                "and its markers."
            )
    ids = theirs.get_vocab()
    for marker in markers:
        if marker not in ids:
            raise UserError(f"{where} lacks the piece `{marker}`: it is not a BERT vocabulary.")
    refuse_other_size(where, max(ids.values()) + 1, folder)
    names = {row: piece for piece, row in ids.items() if piece not in ("", *_OURS) and not piece.startswith(UNNAMED)}
    first = [ids[marker] for marker in markers]
    others = [row for row in range(folder.config.number("vocab_size")) if row not in first]
    pieces = [*_OURS, *(names.get(row, f"{UNNAMED}{row}]") for row in others)]
    return BertVocabulary(_tokenizer(pieces, theirs, config), (*first, *others))


def _tokenizer(pieces: Sequence[str], theirs: Any, config: CheckedConfig) -> Tokenizer:
    """Build a tokenizer of these pieces. The config overrides the rules of the library's file."""
    rules, accents = theirs.normalizer, config.values.get("strip_accents") is not None
    library = Library(
        models.WordPiece(
            {piece: number for number, piece in enumerate(pieces)},
            unk_token=SPECIALS[UNKNOWN],
            continuing_subword_prefix=_INSIDE,
            max_input_chars_per_word=theirs.model.max_input_chars_per_word,
        )
    )
    library.normalizer = normalizers.BertNormalizer(
        clean_text=rules.clean_text,
        handle_chinese_chars=config.flag("tokenize_chinese_chars", rules.handle_chinese_chars),
        # None means: if text is lowercased.
        strip_accents=config.flag("strip_accents", True) if accents else rules.strip_accents,
        lowercase=config.flag("do_lower_case", rules.lowercase),
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix=_INSIDE, cleanup=True)
    library.add_special_tokens(list(_OURS))
    return Tokenizer(library)


# --- files ------------------------------------------------------------------------------------------------------------


def _library(folder: ModelFolder) -> tuple[Path, Any]:
    """Read the library's tokenizer, from its own file or from a list with one piece per line, and name the file."""
    path = folder.path / _LIBRARY
    if path.exists():
        theirs = load_library(read_bytes(path), path)
        for part, wanted in _PARTS.items():
            found = getattr(theirs, part)
            if type(found).__name__ != wanted:
                kind = "missing" if found is None else type(found).__name__
                raise UserError(f"{path}: `{part}` is {kind}, but must be {wanted}, as in BERT.")
        prefix = theirs.model.continuing_subword_prefix
        if prefix != _INSIDE:
            raise UserError(
                f'{path}: `continuing_subword_prefix` is {json.dumps(prefix)}, but must be "{_INSIDE}", as in BERT.'
            )
        return path, theirs
    path = folder.require(_LIST)
    library = Library(models.WordPiece(_listed(path), unk_token=_THEIRS["unk_token"]))
    library.normalizer = normalizers.BertNormalizer()
    return path, library


def _listed(path: Path) -> dict[str, int]:
    """Number the pieces of a list. Only "\\n" ends a line: other line separators are pieces."""
    try:
        lines = read_bytes(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason} at byte {error.start:,}): copy it again.") from error
    refuse_long_pieces(path, lines)
    return {line.rstrip(): number for number, line in enumerate(lines) if line.rstrip()}


def _added(folder: ModelFolder, theirs: Any, config: CheckedConfig) -> Iterator[tuple[str, str]]:
    """Yield the pieces that were added to the vocabulary, markers included, each with the file that adds it."""
    for token in theirs.get_added_tokens_decoder().values():
        yield _LIBRARY, token.content
    for piece in folder.read_config(_ADDED).values:
        yield _ADDED, piece
    said = config.values.get("added_tokens_decoder")
    for token in said.values() if isinstance(said, dict) else ():
        yield _CONFIG, _content(token)


def _content(token: Any) -> str:
    """Return a piece, which may be wrapped in a table."""
    return str(token.get("content") if isinstance(token, dict) else token)
