"""Attention to areas: groups of adjacent keys, of all sizes up to a maximum.

Li et al. 2019. Here areas are spans of a sequence (in the paper also rectangles of an image), ordered by size and then
by position: L areas of one key, L - 1 of two, and so on.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.nn.alignments.base import Alignment, Candidates, glorot_parameter, project, uniform_parameter

_EPSILON: Final = 1e-6  # added to variances: that of one key is 0, where the square root has no gradient


class Area(Alignment):
    """score(q, area) = q . key(area) / sqrt(D);  the value of an area is the sum of its values      Li et al. 2019

    The key of an area comes from the mean, the standard deviation and the size of the area, as `features` says: see
    `AREA_KEYS`. An area is kept if all its keys are. With a causal mask, a query sees the areas that end at or before
    its position.
    """

    equal_widths: ClassVar[bool] = True
    one_to_one: ClassVar[bool] = False

    def __init__(
        self, query_width: int, key_width: int, heads: int, largest: int = 3, features: str = "parametric"
    ) -> None:
        super().__init__(query_width, key_width, heads)
        if largest < 1:
            raise ValueError(f"the largest area must have at least 1 key, but has {largest}")
        self.largest = largest
        self.scale = query_width**-0.5
        self.area_key = AREA_KEYS[features](key_width, heads, largest)

    def prepare(
        self,
        keys_BHLK: Float[Tensor, "B H L K"],
        values_BHLD: Float[Tensor, "B H L D"],
        keep_BL: Bool[Tensor, "B L"] | None = None,
    ) -> Candidates:
        """Build all areas."""
        length, device = keys_BHLK.shape[2], keys_BHLK.device
        sizes = range(1, min(self.largest, length) + 1)
        size_C = torch.cat([torch.full((length - size + 1,), size, device=device) for size in sizes])
        last_C = torch.cat([torch.arange(size - 1, length, device=device) for size in sizes])
        mean_BHCK, deviation_BHCK = _statistics(keys_BHLK, sizes)
        keys_BHCK = self.area_key(mean_BHCK, deviation_BHCK, size_C)
        return Candidates(keys_BHCK, _sums(values_BHLD, sizes), _all_kept(keep_BL, sizes), last_C)

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Multiply queries with the area keys."""
        return q_BHQD * self.scale @ candidates.keys.mT

    def position_weights(self, weights_BHQC: Float[Tensor, "B H Q C"], length: int) -> Float[Tensor, "B H Q L"]:
        """Sum the weights of all areas that contain a position: this is the factor of its value in the result."""
        counts = [length - size + 1 for size in range(1, min(self.largest, length) + 1)]
        # `_sums` in reverse: an area is the area without its last key, and that key.
        areas, *shorter = reversed(weights_BHQC.split(counts, dim=3))
        places = F.pad(areas, (len(counts) - 1, 0))
        for size, weights in zip(range(len(counts) - 1, 0, -1), shorter, strict=True):
            areas = weights + F.pad(areas, (0, 1))
            places = places + F.pad(areas, (size - 1, 0))
        return places


class MeanKey(nn.Module):
    """key = mean      Li et al. 2019, the basic form, without parameters"""

    def __init__(self, width: int, heads: int, largest: int) -> None:
        super().__init__()

    def forward(
        self,
        mean_BHCK: Float[Tensor, "B H C K"],
        deviation_BHCK: Float[Tensor, "B H C K"],
        size_C: Int[Tensor, "C"],
    ) -> Float[Tensor, "B H C K"]:
        """Return the mean."""
        return mean_BHCK


class ParametricKey(nn.Module):
    """key = W_2 relu(W_1 [mean; deviation; e_size] + b_1) + b_2      Li et al. 2019, as in the authors' code"""

    def __init__(self, width: int, heads: int, largest: int) -> None:
        super().__init__()
        self.sizes = uniform_parameter(1.0, heads, largest, width)
        self.into = glorot_parameter(heads, width, 3 * width)
        self.into_bias = nn.Parameter(torch.zeros(heads, 1, width))
        self.out = glorot_parameter(heads, width, width)
        self.out_bias = nn.Parameter(torch.zeros(heads, 1, width))

    def forward(
        self,
        mean_BHCK: Float[Tensor, "B H C K"],
        deviation_BHCK: Float[Tensor, "B H C K"],
        size_C: Int[Tensor, "C"],
    ) -> Float[Tensor, "B H C K"]:
        """Combine the three features."""
        size_BHCK = self.sizes[:, size_C - 1].to(mean_BHCK.dtype).expand_as(mean_BHCK)
        features_BHCX = torch.cat((mean_BHCK, deviation_BHCK, size_BHCK), dim=3)
        inner_BHCK = F.relu(project(features_BHCX, self.into) + self.into_bias.to(mean_BHCK.dtype))
        return project(inner_BHCK, self.out) + self.out_bias.to(mean_BHCK.dtype)


AREA_KEYS: Final[Mapping[str, type[MeanKey] | type[ParametricKey]]] = {"mean": MeanKey, "parametric": ParametricKey}


def _statistics(
    x_BHLK: Float[Tensor, "B H L K"], sizes: range
) -> tuple[Float[Tensor, "B H C K"], Float[Tensor, "B H C K"]]:
    """Return the mean and the standard deviation of all areas, computed in float32 or wider.

    Areas grow by one key at a time (Welford 1962). Differences of cumulative sums, as in the paper, cost the same, but
    lose precision in long sequences, and let padding affect all later areas.
    """
    x = x_BHLK.to(torch.promote_types(x_BHLK.dtype, torch.float32))
    mean, squares = x, torch.zeros_like(x)
    means, variances = [mean], [squares]
    for size in sizes[1:]:
        step = x[:, :, size - 1 :] - mean[:, :, :-1]
        mean = mean[:, :, :-1] + step / size
        squares = squares[:, :, :-1] + step.square() * ((size - 1) / size)
        means.append(mean)
        variances.append(squares / size)
    deviations = (torch.cat(variances, dim=2) + _EPSILON).sqrt()
    return torch.cat(means, dim=2).to(x_BHLK.dtype), deviations.to(x_BHLK.dtype)


def _sums(x_BHLD: Float[Tensor, "B H L D"], sizes: range) -> Float[Tensor, "B H C D"]:
    total = x_BHLD
    sums = [total]
    for size in sizes[1:]:
        total = total[:, :, :-1] + x_BHLD[:, :, size - 1 :]
        sums.append(total)
    return torch.cat(sums, dim=2)


def _all_kept(keep_BL: Bool[Tensor, "B L"] | None, sizes: range) -> Bool[Tensor, "B C"] | None:
    if keep_BL is None:
        return None
    kept = keep_BL
    found = [kept]
    for size in sizes[1:]:
        kept = kept[:, :-1] & keep_BL[:, size - 1 :]
        found.append(kept)
    return torch.cat(found, dim=1)
