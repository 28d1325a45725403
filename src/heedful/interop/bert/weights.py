"""Maps BERT's tensors, by their Hugging Face names, to the parameters of our masked language model."""

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.config.model.bert import BertModel
from heedful.interop.model_folder import ModelFolder
from heedful.models.networks import MaskedModel
from heedful.models.weights import set_weights, shapes_of

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


# --- from a folder ----------------------------------------------------------------------------------------------------


class BertTensors:
    """The tensors of a folder by their current names, whatever they are called there."""

    def __init__(self, folder: ModelFolder) -> None:
        self._weights, self._folder = folder.weights(), folder.path
        self._found: dict[str, Tensor | None] = {}

    def has(self, name: str, *shape: int) -> bool:
        """Whether the folder has this tensor; one of another shape is refused."""
        if name not in self._found:
            self._found[name] = self._find(name, shape)
        return self._found[name] is not None

    def take(self, name: str, *shape: int) -> Tensor:
        """Take a tensor of this shape, or refuse a folder without it."""
        found = self._found[name] if self.has(name, *shape) else None
        return self._weights.take(name, *shape) if found is None else found  # raises the error that names it

    def refuse_rest(self) -> None:
        """Refuse a folder with tensors that were not taken."""
        self._weights.refuse_rest()

    def _find(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        absent = torch.empty(shape, device="meta")
        called = {spelling: self._weights.take_or(absent, spelling) for spelling in spellings(name)}
        present = {spelling: tensor for spelling, tensor in called.items() if tensor is not absent}
        first, *others = present or [name]
        for other in others:
            if not torch.equal(present[first], present[other]):
                raise UserError(
                    f"{self._folder}: `{first}` and `{other}` differ, but must be equal, because Heedful's BERT shares "
                    "one tensor: import a model with `tie_word_embeddings`."
                )
        return present.get(first)


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
    _ignore_unused(table, tensors)
    tensors.refuse_rest()
    set_weights(model, ours)


def _ignore_unused(table: BertModel, tensors: BertTensors) -> None:
    """Skip tensors that our model does not need: position numbers, and a pooler without a head on top."""
    width = table.width
    tensors.has("bert.embeddings.position_ids", 1, table.max_positions)
    if not table.next_sentence:
        tensors.has("bert.pooler.dense.weight", width, width)
        tensors.has("bert.pooler.dense.bias", width)
