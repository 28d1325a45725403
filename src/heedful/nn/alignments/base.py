"""The base class of alignments, functions that score keys for queries. `alignments.table` has all of them by name.

An alignment serves recurrent decoders (one head) and the heads of a Transformer (each with its own parameters). It does
not deal with masks and distributions: `attention.explicit.attend` combines the three.

Shape letters of this file: Q  queries    C  candidates    A  width of a prepared key
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "tanh": torch.tanh,
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, eq=False)
class Candidates:
    """What queries can attend to, prepared once per memory: usually its keys and values, one to one.

    `keep` is True for candidates that can be attended to (None: all). `last` is the last position of the memory that a
    candidate covers (None: candidate i covers position i only).
    """

    keys: Float[Tensor, "B H C A"]
    values: Float[Tensor, "B H C D"]
    keep: Bool[Tensor, "B C"] | None = None
    last: Int[Tensor, "C"] | None = None

    def seen(self, queries: int, causal: bool) -> Bool[Tensor, "#B 1 #Q C"] | None:
        """Return True where a query sees a candidate, or None if all queries see all candidates.

        `causal`: the query at position i sees the candidates that end at or before i.
        """
        keep = None if self.keep is None else self.keep[:, None, None, :]
        if not causal:
            return keep
        device, count = self.keys.device, self.keys.shape[2]
        last_C = torch.arange(count, device=device) if self.last is None else self.last
        past = (last_C <= torch.arange(queries, device=device)[:, None])[None, None]
        return past if keep is None else keep & past


class Alignment(nn.Module, ABC):
    """Scores candidates for queries, for all heads and positions at once. The first axis of parameters is the head.

    A class declares its requirements, so that an invalid choice can be refused before anything is built:

    equal_widths   queries must be as wide as keys
    fixed_length   the length of a memory is limited to `max_length`
    one_to_one     candidate i depends on key i only, so that a growing memory can be prepared key by key; otherwise it
                   is prepared again when it grows
    """

    equal_widths: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = False
    one_to_one: ClassVar[bool] = True

    def __init__(self, query_width: int, key_width: int, heads: int) -> None:
        super().__init__()
        if self.equal_widths and query_width != key_width:
            raise ValueError(
                f"{type(self).__name__} compares queries with keys directly: their widths must be equal, but are "
                f"{query_width} and {key_width} (General accepts any widths)"
            )

    def prepare(
        self,
        keys_BHLK: Float[Tensor, "B H L K"],
        values_BHLD: Float[Tensor, "B H L D"],
        keep_BL: Bool[Tensor, "B L"] | None = None,
    ) -> Candidates:
        """Compute what does not depend on queries, once per memory."""
        return Candidates(self.prepare_keys(keys_BHLK), values_BHLD, keep_BL)

    def prepare_keys(self, keys_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L A"]:
        """Compute what each key is by itself, where candidates are keys."""
        return keys_BHLK

    @abstractmethod
    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Score all candidates for all queries, including those that are not kept."""

    def position_weights(self, weights_BHQC: Float[Tensor, "B H Q C"], length: int) -> Float[Tensor, "B H Q L"]:
        """Return the factor of each value of a memory of this length in the result, from the candidates' weights."""
        return weights_BHQC


def uniform_parameter(variance: float, *shape: int) -> nn.Parameter:
    """Make a parameter that is initialized uniformly around zero with this variance."""
    bound = math.sqrt(3 * variance)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def glorot_parameter(heads: int, outputs: int, inputs: int) -> nn.Parameter:
    """Make one matrix per head, initialized uniformly by Glorot and Bengio 2010."""
    return uniform_parameter(2 / (outputs + inputs), heads, outputs, inputs)


def project(x_BHLI: Float[Tensor, "B H L I"], weight_HOI: Float[Tensor, "H O I"]) -> Float[Tensor, "B H L O"]:
    """Return W x with the matrix of each head, in the dtype of x."""
    return torch.einsum("bhli,hoi->bhlo", x_BHLI, weight_HOI.to(x_BHLI.dtype))
