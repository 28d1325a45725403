"""What an alignment is: a function that scores keys for queries. `alignment_table` has all of them by name.

An alignment serves recurrent decoders (one head) and the heads of a Transformer (each with parameters of its own). It
knows nothing of masks and distributions: `attend` puts the three together.

Shape letters beside the project's: Q queries, C candidates, A width of a prepared key.
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
    """What queries may attend to, prepared once for a memory: most often its keys and values, one to one.

    `keep` is True where a candidate counts (None: all do). `last` is the last place of the memory that a candidate
    covers (None: candidate i covers place i alone).
    """

    keys: Float[Tensor, "B H C A"]
    values: Float[Tensor, "B H C D"]
    keep: Bool[Tensor, "B C"] | None = None
    last: Int[Tensor, "C"] | None = None

    def seen(self, queries: int, causal: bool) -> Bool[Tensor, "#B 1 #Q C"] | None:
        """True where a query may attend; None where all may, to all.

        `causal`: the query at place i sees the candidates that end there or before.
        """
        keep = None if self.keep is None else self.keep[:, None, None, :]
        if not causal:
            return keep
        device, count = self.keys.device, self.keys.shape[2]
        last_C = torch.arange(count, device=device) if self.last is None else self.last
        past = (last_C <= torch.arange(queries, device=device)[:, None])[None, None]
        return past if keep is None else keep & past


class Alignment(nn.Module, ABC):
    """Scores candidates for queries. All heads and positions at once; parameters have the heads in front.

    The class says what it demands, so that a bad choice can be refused before anything is built:

    equal_widths   queries must be as wide as keys
    fixed_length   there is a longest memory, given as `max_length`
    one_to_one     candidate i comes from key i alone, so that a growing memory can be prepared key by key; otherwise it
                   is prepared anew when it grows
    """

    equal_widths: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = False
    one_to_one: ClassVar[bool] = True

    def __init__(self, query_width: int, key_width: int, heads: int) -> None:
        super().__init__()
        if self.equal_widths and query_width != key_width:
            raise ValueError(
                f"{type(self).__name__} compares queries with keys as they are: their widths must be equal, but are "
                f"{query_width} and {key_width} (General takes any)"
            )

    def prepare(
        self,
        keys_BHLK: Float[Tensor, "B H L K"],
        values_BHLD: Float[Tensor, "B H L D"],
        keep_BL: Bool[Tensor, "B L"] | None = None,
    ) -> Candidates:
        """Do what does not depend on the query, once for a memory."""
        return Candidates(keys_BHLK, values_BHLD, keep_BL)

    @abstractmethod
    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Score all candidates for all queries, those that do not count as well."""

    def position_weights(self, weights_BHQC: Float[Tensor, "B H Q C"], length: int) -> Float[Tensor, "B H Q L"]:
        """The factor of each value of a memory of this length in what was attended to, from candidates' weights."""
        return weights_BHQC


def uniform_parameter(variance: float, *shape: int) -> nn.Parameter:
    """A parameter that starts uniform around zero."""
    bound = math.sqrt(3 * variance)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def glorot_parameter(heads: int, outputs: int, inputs: int) -> nn.Parameter:
    """A matrix a head, uniform by Glorot and Bengio 2010."""
    return uniform_parameter(2 / (outputs + inputs), heads, outputs, inputs)


def project(x_BHLI: Float[Tensor, "B H L I"], weight_HOI: Float[Tensor, "H O I"]) -> Float[Tensor, "B H L O"]:
    """W x with each head's own matrix, in the type of x."""
    return torch.einsum("bhli,hoi->bhlo", x_BHLI, weight_HOI.to(x_BHLI.dtype))
