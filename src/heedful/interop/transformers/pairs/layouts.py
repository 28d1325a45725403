"""Kinds of encoder-decoders of `transformers`, and their tensors next to ours: a table that is read both ways.

All have the names of BART's modules. They differ in the place of their norms, in their positions, and in what their
configs call fixed. The table covers the blocks and the norms; embeddings have rows in the order of a vocabulary, which
readers of other vocabularies than ours turn around.

Sinusoids that interleave (ours by default) become halves (theirs) if the columns of the residual stream are reordered:
the columns of all matrices that read it, and the rows of all that write it. No score changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from heedful.config.model.transformer import TransformerModel
from heedful.interop.tensors import AS_IT_IS, Pair, Turn, paired_columns


@dataclass(frozen=True)
class Layout:
    """A kind of encoder-decoder."""

    model_type: str
    name: str  # in messages
    architecture: str  # the class that generates
    norm: str  # `model.norm`, where its norms are
    fixed: Mapping[str, Any] = field(default_factory=dict)  # what its config says of every model of the kind
    embedding_norm: bool = False

    @property
    def final_norm(self) -> bool:
        """Whether a norm follows the last block."""
        return self.norm == "pre"


MARIAN: Final = Layout(
    "marian",
    "Marian",
    "MarianMTModel",
    "post",
    {
        "normalize_before": False,
        "add_final_layer_norm": False,
        "layernorm_embedding": False,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    },
)
PEGASUS: Final = Layout(
    "pegasus",
    "Pegasus",
    "PegasusForConditionalGeneration",
    "pre",
    {
        "normalize_before": True,
        "add_final_layer_norm": True,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    },
)
M2M_100: Final = Layout("m2m_100", "M2M-100", "M2M100ForConditionalGeneration", "pre")
MBART: Final = Layout(
    "mbart",
    "mBART",
    "MBartForConditionalGeneration",
    "pre",
    {
        "normalize_before": True,
        "add_final_layer_norm": True,
        "normalize_embedding": True,
        "static_position_embeddings": False,
    },
    embedding_norm=True,
)
WRITTEN: Final = {layout.norm: layout for layout in (MARIAN, PEGASUS)}  # by `model.norm`


# --- blocks and norms -------------------------------------------------------------------------------------------------


class _Map(NamedTuple):
    """One of our linear maps or norms, and those of theirs that are stacked into it."""

    ours: str
    theirs: tuple[str, ...]
    reads: bool = False  # whether its columns are those of the residual stream
    writes: bool = False  # whether its rows are


_ATTENTION: Final = (
    _Map("attention.project", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), reads=True),
    _Map("attention.output", ("self_attn.out_proj",), writes=True),
    _Map("around_attention.{norm}", ("self_attn_layer_norm",), writes=True),
)
_CROSS: Final = (
    _Map("cross.project_query", ("encoder_attn.q_proj",), reads=True),
    _Map("cross.project_memory", ("encoder_attn.k_proj", "encoder_attn.v_proj"), reads=True),
    _Map("cross.output", ("encoder_attn.out_proj",), writes=True),
    _Map("around_cross.{norm}", ("encoder_attn_layer_norm",), writes=True),
)
_NETWORK: Final = (
    _Map("network.into", ("fc1",), reads=True),
    _Map("network.out", ("fc2",), writes=True),
    _Map("around_network.{norm}", ("final_layer_norm",), writes=True),
)


def stack_pairs(layout: Layout, model: TransformerModel, interleaved: bool = False) -> list[Pair]:
    """Return the pairs of all blocks and norms; `interleaved` says that our sinusoids interleave."""
    reads, writes = _turns(model.width, interleaved)
    return [
        Pair(f"{each.ours}.{kind}", tuple(f"{part}.{kind}" for part in each.theirs), (turn,))
        for each in _maps(layout, model)
        for kind, turn in (
            ("weight", writes if each.writes else reads if each.reads else AS_IT_IS),
            ("bias", writes if each.writes else AS_IT_IS),
        )
    ]


def _maps(layout: Layout, model: TransformerModel) -> Iterator[_Map]:
    norm = "before" if layout.norm == "pre" else "after"
    for side, layers, parts in (
        ("encoder", model.layers, (*_ATTENTION, *_NETWORK)),
        ("decoder", model.decoder_layers or model.layers, (*_ATTENTION, *_CROSS, *_NETWORK)),
    ):
        for layer in range(layers):
            for part in parts:
                theirs = tuple(f"model.{side}.layers.{layer}.{name}" for name in part.theirs)
                yield part._replace(ours=f"{side}.blocks.{layer}.{part.ours.format(norm=norm)}", theirs=theirs)
        if layout.embedding_norm:
            yield _Map(f"{side}.embedding.norm", (f"model.{side}.layernorm_embedding",), writes=True)
        if layout.final_norm:
            yield _Map(f"{side}.final", (f"model.{side}.layer_norm",), writes=True)


def _turns(width: int, interleaved: bool) -> tuple[Turn, Turn]:
    """Return the turns of matrices that read the residual stream, and of matrices and vectors that write it."""
    if not interleaved:
        return AS_IT_IS, AS_IT_IS
    writes = paired_columns(width)  # sin_0 cos_0 sin_1 cos_1 ... here, sin_0 sin_1 ... cos_0 cos_1 ... there
    return _of_columns(writes), writes


def _of_columns(rows: Turn) -> Turn:
    def to_ours(matrix: Tensor) -> Tensor:
        return rows.to_ours(matrix.t()).t()

    def to_theirs(matrix: Tensor) -> Tensor:
        return rows.to_theirs(matrix.t()).t()

    return Turn(to_ours, to_theirs)


# --- embeddings and the output layer ----------------------------------------------------------------------------------

SHARED: Final = "model.shared.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"
_AS_ROW: Final = Turn(lambda row: row[0], lambda vector: vector.unsqueeze(0))
_EMBEDDINGS: Final[Mapping[str, Mapping[str, str]]] = {  # our matrices by `model.tie`
    "all": {"encoder.embedding.weight": SHARED},
    "decoder": {"encoder.embedding.weight": SOURCE, "decoder.embedding.weight": TARGET},
    "none": {
        "encoder.embedding.weight": SOURCE,
        "decoder.embedding.weight": TARGET,
        "decoder.output.weight": OUTPUT,
    },
}
_OUTPUTS: Final = {  # the name of our matrix that makes scores, by `model.tie`
    "all": "encoder.embedding.weight",
    "decoder": "decoder.embedding.weight",
    "none": "decoder.output.weight",
}


def embedding_pairs(model: TransformerModel, interleaved: bool = False) -> list[Pair]:
    """Return the pairs of a model whose vocabularies are ours, in the order of our ids."""
    reads, _ = _turns(model.width, interleaved)
    matrices = [Pair(ours, (theirs,), (reads,)) for ours, theirs in _EMBEDDINGS[model.tie].items()]
    return [*matrices, Pair("decoder.output.bias", (BIAS,), (_AS_ROW,))]


# --- models with fewer tensors than the table -------------------------------------------------------------------------


def whole_tensors(tensors: Mapping[str, Tensor], pairs: Iterable[Pair], model: TransformerModel) -> dict[str, Tensor]:
    """Return the tensors of the same model with a head of keys and values for each head, and with all biases."""
    whole = {name: _own_heads(name, tensor, model) for name, tensor in tensors.items()}
    for name in (pair.ours for pair in pairs):
        if name not in whole and name.endswith(".bias"):
            matrix = _OUTPUTS[model.tie] if name == "decoder.output.bias" else name.replace(".bias", ".weight")
            whole[name] = whole[matrix].new_zeros(len(whole[matrix]))
    return whole


def _own_heads(name: str, tensor: Tensor, model: TransformerModel) -> Tensor:
    """Repeat the rows of shared keys and values for each head that shares them."""
    groups = model.key_value_heads or model.heads
    queries = {"attention.project": model.heads, "cross.project_memory": 0}
    own = next((count for part, count in queries.items() if f".{part}." in name), None)
    if own is None or groups == model.heads:
        return tensor
    rows = tensor.unflatten(0, (own + 2 * groups, -1))
    asking, read = rows.split([own, 2 * groups])
    return torch.cat([asking, read.repeat_interleave(model.heads // groups, 0)]).flatten(0, 1)
