"""The tensors of a folder by the names of today, whatever they are called there."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from heedful.base.errors import UserError
from heedful.interop.tensors import Shape
from heedful.interop.transformers.model_folder import ModelFolder

Spellings = Callable[[str], Sequence[str]]  # all names that a tensor may have, the one of messages first


class NamedTensors:
    """The tensors of a folder, each taken once, under any of its names.

    A tensor that is used twice may be stored twice, under both names; then both must be equal.
    """

    def __init__(self, folder: ModelFolder, spellings: Spellings) -> None:
        self._weights, self._folder, self._spellings = folder.weights(), folder.path, spellings
        self._found: dict[str, Tensor | None] = {}

    def has(self, name: str, *shape: int) -> bool:
        """Whether the folder has this tensor; one of another shape is refused."""
        if name not in self._found:
            absent = torch.empty(shape, device="meta")
            called = {spelling: self._weights.take_or(absent, spelling) for spelling in self._spellings(name)}
            present = {spelling: tensor for spelling, tensor in called.items() if tensor is not absent}
            first, *others = present or [name]
            for other in others:
                if not torch.equal(present[first], present[other]):
                    raise UserError(
                        f"{self._folder}: `{first}` and `{other}` differ, but must be equal, because Heedful shares "
                        "one tensor: import a model with `tie_word_embeddings`."
                    )
            self._found[name] = present.get(first)
        return self._found[name] is not None

    def take(self, name: str, shape: Shape) -> Tensor:
        """Take a tensor of this shape, or refuse a folder without it."""
        found = self._found[name] if self.has(name, *shape) else None
        return self._weights.take(name, *shape) if found is None else found  # raises the error that names it

    def skip(self, name: str, *shape: int) -> None:
        """Leave out a tensor that our model does not need, if it is there."""
        self.has(name, *shape)

    def refuse_rest(self) -> None:
        """Refuse a folder with tensors that were not taken."""
        self._weights.refuse_rest()
