"""Attention of one decoding step: one query per row, over the tokens decoded so far and over the memory.

    y = sum_j p_j v_j,   p_j = softmax_j(q . k_j / sqrt(D)),   row by row, head by head

Each of S slots decodes one sentence with K beams: row r = s * K + k. Every slot has its own position. Grids depend on
shapes only; positions, starts and lengths are read from the device, so that a step can be captured in a CUDA graph.

Shape letters of this file: S  slots    P  positions that a slot has room for
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.nn.kernels import use_kernels


def attend_past(
    q_RHD: Float[Tensor, "R H D"],
    k_RHD: Float[Tensor, "R H D"],
    v_RHD: Float[Tensor, "R H D"],
    cache_2SPKHD: Float[Tensor, "2 S P K H D"],
    ancestors_SKP: Int[Tensor, "S K P"],
    positions_S: Int[Tensor, "S"],
    radius: int | None = None,
) -> Float[Tensor, "R H D"]:
    """Attend to the new key of a row and to the keys of its history; write the new key and value to the cache.

    With a radius, a row sees that many positions of its history, the last ones.

    Entry (s, p, k) of the cache holds the key and value that row k of slot s computed at position p. Nothing moves when
    beams are reordered: for each earlier position t, `ancestors` is the row that computed the entry of row k at t.
    Nothing is written for a slot whose position exceeds its room.
    """
    if use_kernels(q_RHD):
        from heedful.nn.kernels.step_attention import attend_past_kernel

        return attend_past_kernel(q_RHD, k_RHD, v_RHD, cache_2SPKHD, ancestors_SKP, positions_S, radius)
    _, slots, room, beams, _, width = cache_2SPKHD.shape
    slot_S, time_P = (torch.arange(size, device=q_RHD.device) for size in (slots, room))
    new_2SKHD = torch.stack((k_RHD, v_RHD)).unflatten(1, (slots, beams))
    place_S = positions_S.clamp(max=room - 1).long()
    there_S111 = (positions_S < room)[:, None, None, None]
    cache_2SPKHD[:, slot_S, place_S] = torch.where(there_S111, new_2SKHD, cache_2SPKHD[:, slot_S, place_S])

    past_SP = time_P < positions_S[:, None]
    if radius is not None:
        past_SP = past_SP & (time_P >= positions_S[:, None] - radius)
    origin_SKP = ancestors_SKP.long().where(past_SP[:, None], 0)  # undefined from the slot's position on
    gathered_2SKPHD = cache_2SPKHD[:, slot_S[:, None, None], time_P, origin_SKP].float()
    k_SKTHD, v_SKTHD = torch.cat((gathered_2SKPHD, new_2SKHD[:, :, :, None].float()), 3)
    seen_SKT = torch.nn.functional.pad(past_SP, (0, 1), value=True)[:, None].expand(-1, beams, -1)
    y_RHD = _attend(q_RHD[:, None], k_SKTHD.flatten(0, 1), v_SKTHD.flatten(0, 1), seen_SKT.flatten(0, 1), width**-0.5)
    return y_RHD[:, 0].to(q_RHD.dtype)


def attend_memory(
    q_RHD: Float[Tensor, "R H D"],
    k_MHD: Float[Tensor, "M H D"],
    v_MHD: Float[Tensor, "M H D"],
    starts_S: Int[Tensor, "S"],
    lengths_S: Int[Tensor, "S"],
) -> Float[Tensor, "R H D"]:
    """Attend from the rows of slot s to lengths[s] rows of the memory, starting at starts[s]; none give zeros."""
    if use_kernels(q_RHD):
        from heedful.nn.kernels.step_attention import attend_memory_kernel

        return attend_memory_kernel(q_RHD, k_MHD, v_MHD, starts_S, lengths_S)
    q_SKHD, attended = q_RHD.unflatten(0, (len(starts_S), -1)), []
    for q_KHD, start, length in zip(q_SKHD, starts_S.tolist(), lengths_S.tolist(), strict=True):
        k_LHD, v_LHD = k_MHD[start : start + length], v_MHD[start : start + length]
        seen_1L = torch.ones(1, length, dtype=torch.bool, device=q_RHD.device)
        attended.append(_attend(q_KHD[None], k_LHD[None], v_LHD[None], seen_1L, q_RHD.shape[-1] ** -0.5))
    return torch.cat(attended, 1)[0].to(q_RHD.dtype)


def _attend(
    q_BQHD: Float[Tensor, "B Q H D"],
    k_BLHD: Float[Tensor, "B L H D"],
    v_BLHD: Float[Tensor, "B L H D"],
    seen_BL: Tensor,
    scale: float,
) -> Float[Tensor, "B Q H D"]:
    """Attend in float32 to the keys that are seen; zeros if there are none. Other keys may contain anything."""
    seen_BLHD, seen_BHQL = seen_BL[:, :, None, None], seen_BL[:, None, None, :]
    scores_BHQL = torch.einsum("bqhd,blhd->bhql", q_BQHD.float(), k_BLHD.float()) * scale
    weights_BHQL = scores_BHQL.masked_fill(~seen_BHQL, -1.0e30).softmax(-1).masked_fill(~seen_BHQL, 0.0)
    return torch.einsum("bhql,blhd->bqhd", weights_BHQL, v_BLHD.float().masked_fill(~seen_BLHD, 0.0))
