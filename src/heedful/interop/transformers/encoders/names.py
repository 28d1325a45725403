"""The tensors of encoders and of their heads next to ours: tables that are read in both directions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import torch

from heedful.interop.tensors import AS_IT_IS, Pair, Turn, of_modules
from heedful.interop.transformers.encoders.kinds import Kind

Modules = Mapping[str, tuple[str, ...]]  # our modules, and those of theirs that are stacked into each


@dataclass(frozen=True)
class Names:
    """How the models of a type call their tensors."""

    prefix: str  # of all tensors of the encoder
    block: str  # prefix of those of a block, after `prefix`
    in_block: Modules
    heads: Mapping[str, Modules]  # by our families; names are whole
    shared: Mapping[str, str]  # tensors that are used twice, and their other names
    bias: str  # of the scores of masked tokens
    segments: bool = True

    @property
    def words(self) -> str:
        """The embedding of tokens."""
        return f"{self.prefix}embeddings.word_embeddings.weight"

    def last_block(self, layers: int) -> str:
        """Return a square matrix of the last block."""
        return f"{self.prefix}{self.block.format(layers - 1)}{self.in_block['attention.project'][0]}.weight"


_BERT_BLOCK: Final[Modules] = {
    "attention.project": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "around_attention.after": ("attention.output.LayerNorm",),
    "network.into": ("intermediate.dense",),
    "network.out": ("output.dense",),
    "around_network.after": ("output.LayerNorm",),
}
_SCORES: Final[Modules] = {"output": ("classifier",)}
_BERT: Final = Names(
    prefix="bert.",
    block="encoder.layer.{}.",
    in_block=_BERT_BLOCK,
    heads={
        "bert": {
            "head.linear": ("cls.predictions.transform.dense",),
            "head.norm": ("cls.predictions.transform.LayerNorm",),
            "pooler.linear": ("bert.pooler.dense",),
            "follows": ("cls.seq_relationship",),  # class 0 is "follows" in both
        },
        "classifier": {"pooler.linear": ("bert.pooler.dense",), **_SCORES},
        "tagger": _SCORES,
        "reader": {"output": ("qa_outputs",)},
    },
    shared={
        "bert.embeddings.word_embeddings.weight": "cls.predictions.decoder.weight",
        "cls.predictions.bias": "cls.predictions.decoder.bias",
    },
    bias="cls.predictions.bias",
)
_ROBERTA: Final = Names(
    prefix="roberta.",
    block="encoder.layer.{}.",
    in_block=_BERT_BLOCK,
    heads={
        "bert": {"head.linear": ("lm_head.dense",), "head.norm": ("lm_head.layer_norm",)},
        "classifier": {"pooler.linear": ("classifier.dense",), "output": ("classifier.out_proj",)},
        "tagger": _SCORES,
    },
    shared={
        "roberta.embeddings.word_embeddings.weight": "lm_head.decoder.weight",
        "lm_head.bias": "lm_head.decoder.bias",
    },
    bias="lm_head.bias",
)
_DISTILBERT: Final = Names(
    prefix="distilbert.",
    block="transformer.layer.{}.",
    in_block={
        "attention.project": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        "attention.output": ("attention.out_lin",),
        "around_attention.after": ("sa_layer_norm",),
        "network.into": ("ffn.lin1",),
        "network.out": ("ffn.lin2",),
        "around_network.after": ("output_layer_norm",),
    },
    heads={
        "bert": {"head.linear": ("vocab_transform",), "head.norm": ("vocab_layer_norm",)},
        "classifier": {"hidden.linear": ("pre_classifier",), **_SCORES},
        "tagger": _SCORES,
        "reader": {"output": ("qa_outputs",)},
    },
    shared={"distilbert.embeddings.word_embeddings.weight": "vocab_projector.weight"},
    bias="vocab_projector.bias",
    segments=False,
)
NAMES: Final[Mapping[str, Names]] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "distilbert": _DISTILBERT,
}


def encoder_prefix(family: str) -> str:
    """Return the prefix that the parameters of an encoder have in the network of a family."""
    return "pooled.encoder." if family in ("classifier", "regressor") else "encoder."


def pairs_of(
    kind: Kind,
    family: str,
    layers: int,
    pieces: Turn = AS_IT_IS,
    first_position: int = 0,
    turns: Mapping[str, Turn] | None = None,
) -> list[Pair]:
    """Return the pairs of a model with this number of blocks; a network may lack some of them.

    `pieces` turns what has one row per piece, rows of positions start at `first_position`, and `turns` are those of
    other tensors, by our names.
    """
    names, ours = NAMES[kind.model_type], encoder_prefix(family)
    embeddings = f"{names.prefix}embeddings."
    modules: dict[str, tuple[str, ...]] = {f"{ours}embedding.norm": (f"{embeddings}LayerNorm",)}
    for layer in range(layers):
        block = f"{names.prefix}{names.block.format(layer)}"
        for module, theirs in names.in_block.items():
            modules[f"{ours}blocks.{layer}.{module}"] = tuple(f"{block}{part}" for part in theirs)
    head = names.heads["classifier" if family == "regressor" else family]
    pairs = [
        Pair(f"{ours}embedding.weight", (names.words,), (pieces,)),
        Pair(
            f"{ours}embedding.positions.weight",
            (f"{embeddings}position_embeddings.weight",),
            (after_rows(first_position) if first_position else AS_IT_IS,),
        ),
        *([Pair(f"{ours}embedding.segments", (f"{embeddings}token_type_embeddings.weight",))] * names.segments),
        Pair("head.output.bias", (names.bias,), (pieces,)),
        *of_modules({**modules, **head}),
    ]
    given = turns or {}
    return [replace(pair, turns=(given[pair.ours],)) if pair.ours in given else pair for pair in pairs]


def spellings_of(names: Names, name: str) -> list[str]:
    """Return all names of a tensor: the current one, those in encoder-only files, and older ones."""
    found = [name, *([names.shared[name]] if name in names.shared else [])]
    found += [called.removeprefix(names.prefix) for called in found]
    older = [called.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta") for called in found]
    return list(dict.fromkeys([*found, *older]))


# --- turns ------------------------------------------------------------------------------------------------------------


def after_rows(count: int) -> Turn:
    """Return the turn of a table that has this number of rows that are never used before ours."""
    return Turn(lambda theirs: theirs[count:], lambda ours: torch.cat([ours.new_zeros(count, *ours.shape[1:]), ours]))


# (-z/2, z/2) for two classes that share the score z: halves are exact, so that reading them back is, too.
ONE_SCORE: Final = Turn(lambda theirs: theirs[1:] - theirs[:1], lambda ours: torch.cat([-ours / 2, ours / 2]))


def scaled(scale: float, shift: float = 0.0) -> Turn:
    """Return the turn of the last map of a regressor, into numbers in their own unit."""
    if (scale, shift) == (1.0, 0.0):
        return AS_IT_IS
    return Turn(lambda theirs: (theirs - shift) / scale, lambda ours: ours * scale + shift)
