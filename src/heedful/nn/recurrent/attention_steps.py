"""Attention to one memory at every step of a loop; the gradients of the memory are computed once for all steps.

Sentences are in the order of time, the longest first: step t has one query for each of the first sizes[t] sentences.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.nn.alignments.additive_scores import additive_step, shared_gradients
from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.networks import Additive
from heedful.nn.alignments.products import Dot, General
from heedful.nn.recurrent.attention import AttendedMemory, RecurrentAttention
from heedful.nn.recurrent.deferred_gradients import add_to_slot, defer_gradients, zero_addends
from heedful.nn.recurrent.stack import TimeMajor
from heedful.nn.recurrent.step_products import StepProducts


class AttentionSteps:
    """Attends with one query per row, step by step."""

    def __init__(self, reader: RecurrentAttention, readable: AttendedMemory, time: TimeMajor) -> None:
        self._reader, self._readable = reader, readable
        self._scores = STEP_SCORES.get(type(reader.alignment), AnyScores)(reader.alignment, readable, time)
        self._reads = _Reads(readable.candidates.values.squeeze(1), time)

    def __call__(self, step: int, q_RE: Float[Tensor, "R E"]) -> Float[Tensor, "R D"]:
        """Return what the queries of one step read."""
        scores_R1C = self._scores(step, q_RE).unsqueeze(1)
        position = torch.full((1,), step, device=q_RE.device)
        weights_R1C = self._reader.weigh(scores_R1C, q_RE.unsqueeze(1), self._readable.first(len(q_RE)), position)
        return self._reads(step, weights_R1C).to(self._readable.dtype)


class _Reads:
    """r(t) = w(t) V;  dV = sum_t w(t)^T dr(t)"""

    def __init__(self, values_BCD: Float[Tensor, "B C D"], time: TimeMajor) -> None:
        sizes = time.sizes.tolist()
        self._values = values_BCD.detach()
        self._weights = weights = [self._values] * len(sizes)  # replaced by each step

        def gradient(g_ND: Tensor) -> tuple[Tensor]:
            return (torch.bmm(time.padded(torch.cat(weights)).mT, time.padded(g_ND)),)

        slots_ND = defer_gradients(zero_addends(sum(sizes), values_BCD.shape[2], values_BCD), gradient, values_BCD)
        self._slots = slots_ND.split(sizes)

    def __call__(self, step: int, weights_R1C: Float[Tensor, "R 1 C"]) -> Float[Tensor, "R D"]:
        weights_R1C = weights_R1C.to(self._values.dtype)
        self._weights[step] = weights_R1C.detach().squeeze(1)
        read_R1D = torch.bmm(weights_R1C, self._values[: len(weights_R1C)])
        return add_to_slot(read_R1D.squeeze(1), self._slots[step])


# --- scores -----------------------------------------------------------------------------------------------------------


class StepScores(Protocol):
    """Scores the candidates of each row for one query per row, step by step."""

    def __init__(self, alignment: Alignment, readable: AttendedMemory, time: TimeMajor) -> None: ...

    def __call__(self, step: int, q_RE: Float[Tensor, "R E"]) -> Float[Tensor, "R C"]:
        """Return the scores of one step."""


class AnyScores:
    """Any alignment, by its own equation at every step: the reference for the others."""

    def __init__(self, alignment: Alignment, readable: AttendedMemory, time: TimeMajor) -> None:
        self._alignment, self._readable = alignment, readable

    def __call__(self, step: int, q_RE: Float[Tensor, "R E"]) -> Float[Tensor, "R C"]:
        """Return the scores of one step."""
        candidates = self._readable.first(len(q_RE)).candidates
        scores: Tensor = self._alignment(q_RE[:, None, None].to(candidates.keys.dtype), candidates)
        return scores[:, 0, 0]


class ProductScores:
    """q(t) . k;  dk = sum_t s'(t) q(t)      for alignments that multiply queries with prepared keys"""

    def __init__(self, alignment: Alignment, readable: AttendedMemory, time: TimeMajor) -> None:
        keys_BCE, sizes = readable.candidates.keys.squeeze(1), time.sizes.tolist()
        self._keys = keys_BCE.detach()
        self._queries = queries = [self._keys] * len(sizes)

        def gradient(g_NC: Tensor) -> tuple[Tensor]:
            return (torch.bmm(time.padded(g_NC).mT, time.padded(torch.cat(queries))),)

        slots_NC = defer_gradients(zero_addends(sum(sizes), keys_BCE.shape[1], keys_BCE), gradient, keys_BCE)
        self._slots = slots_NC.split(sizes)

    def __call__(self, step: int, q_RE: Float[Tensor, "R E"]) -> Float[Tensor, "R C"]:
        """Return the scores of one step."""
        q_RE = q_RE.to(self._keys.dtype)
        self._queries[step] = q_RE.detach()
        scores_R1C = torch.bmm(q_RE.unsqueeze(1), self._keys[: len(q_RE)].mT)
        return add_to_slot(scores_R1C.squeeze(1), self._slots[step])


class AdditiveScores:
    """v . tanh(W q(t) + U k), in float32 or wider; see `additive_scores`"""

    def __init__(self, alignment: Alignment, readable: AttendedMemory, time: TimeMajor) -> None:
        assert isinstance(alignment, Additive)
        sizes, keys_BCA = time.sizes.tolist(), readable.candidates.keys.squeeze(1)
        keys_BCA = keys_BCA.to(torch.promote_types(keys_BCA.dtype, torch.float32))
        vector_A = alignment.vector[0, 0].to(keys_BCA.dtype)
        self._projected = StepProducts(alignment.query_weight[0].to(readable.dtype), sizes)
        self._keys, self._vector = keys, vector = keys_BCA.detach(), vector_A.detach()
        self._queries = queries = [keys] * len(sizes)

        def gradients(g_NC: Tensor) -> tuple[Tensor, Tensor]:
            return shared_gradients(time.padded(g_NC), time.padded(torch.cat(queries)), keys, vector)

        slots_NC = defer_gradients(zero_addends(sum(sizes), keys.shape[1], keys), gradients, keys_BCA, vector_A)
        self._slots = slots_NC.split(sizes)

    def __call__(self, step: int, q_RE: Float[Tensor, "R E"]) -> Float[Tensor, "R C"]:
        """Return the scores of one step."""
        q_RA = self._projected(step, q_RE).to(self._keys.dtype)
        self._queries[step] = q_RA.detach()
        scores_R1C = additive_step(q_RA.unsqueeze(1), self._keys[: len(q_RE)], self._vector)
        return add_to_slot(scores_R1C.squeeze(1), self._slots[step])


STEP_SCORES: Final[Mapping[type[Alignment], type[StepScores]]] = {
    Additive: AdditiveScores,
    Dot: ProductScores,
    General: ProductScores,
}
