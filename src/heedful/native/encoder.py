"""Blocks of encoders that kernels run: one call per block, over packed sentences."""

import sys
from collections.abc import Mapping
from types import MethodType
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.models.transformer.blocks import EncoderBlock
from heedful.native.floats import FloatMap, versions_of
from heedful.native.int8 import is_int8
from heedful.native.library import Frame, library
from heedful.native.memory import workspace
from heedful.native.plan import Plan, X, encoder_block
from heedful.native.weights import NotNativeError
from heedful.nn.evaluation_mode import computes_by_equation, has_hook_here

_MOST: Final = 512  # rows in float32: PyTorch is as fast with more, and later faster
_LONGEST: Final = 64  # tokens of a sentence in float32: attention of PyTorch reads longer ones faster


class NativeBlock:
    """What a block computes, by kernels; by its modules where something looks at them, or where there are none."""

    def __init__(self, block: EncoderBlock, plan: Plan) -> None:
        self._block, self._plan, self._hooks = block, plan, hooks_of(block)
        self._versions = versions_of(block)
        in_int8 = is_int8(block)
        self._most, self._longest = (sys.maxsize, sys.maxsize) if in_int8 else (_MOST, _LONGEST)

    def __call__(self, x: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Transform all tokens."""
        kernels = library()
        has_gradient = torch.is_grad_enabled() and x.requires_grad
        if (
            kernels is None
            or not 0 < len(x) <= self._most
            or layout.bound > self._longest
            or has_gradient
            or computes_by_equation()
            or has_hook_here(self._hooks)
            or versions_of(self._block) != self._versions  # weights have changed since they were packed
        ):
            return type(self._block).forward(self._block, x, layout)
        width = self._plan.width
        y = F.pad(x.detach().float(), (0, self._plan.stride(X) - width))
        frame = workspace(self._plan, len(x), layout.bound).frame(len(x), layout.bound, y)
        ops = self._plan.array()
        kept = place_rows(frame, layout), self._plan.give_waves(ops, layout.bound)
        kernels.run(ops, frame)
        del kept
        return y[:, :width].to(x.dtype)

    def __reduce__(self) -> tuple[Any, ...]:  # a copy of the block computes by its modules: its weights are others
        return MethodType, (type(self._block).forward, self._block)


def place_rows(frame: Frame, layout: Layout) -> list[Tensor]:
    """Say where the sentence of each row begins and how long it is; the tensors must live until the kernels ran."""
    lengths = layout.lengths.long()
    first = layout.offsets[:-1].long().repeat_interleave(lengths).to(torch.int32)
    count = lengths.repeat_interleave(lengths).to(torch.int32)
    position = layout.positions.to(torch.int32)
    frame.first, frame.count, frame.position = first.data_ptr(), count.data_ptr(), position.data_ptr()
    return [first, count, position]


def hooks_of(module: nn.Module) -> list[Mapping[int, Any]]:
    """Return the tables of hooks on a module and its parts: where one is not empty, something looks at that part."""
    return [hooks for part in module.modules() for hooks in (part._forward_hooks, part._forward_pre_hooks)]


def use_native_blocks(network: nn.Module) -> dict[str, str]:
    """Let kernels run the blocks of a network whose maps they multiply by; return what they cannot run, and why."""
    refused = {}
    for name, module in network.named_modules():
        if isinstance(module, EncoderBlock):
            try:
                plan = encoder_block(module, _width(module))
            except NotNativeError as reason:
                refused[name] = str(reason)
                continue
            forward: Any = NativeBlock(module, plan)
            module.forward = forward  # type: ignore[method-assign]  # the module stays, for whoever looks inside
    return refused


def forget_kernels(network: nn.Module) -> None:
    """Let the modules of a network compute again: their weights are about to change."""
    for module in network.modules():
        if isinstance(module.__dict__.get("forward"), FloatMap | NativeBlock):
            del module.__dict__["forward"]


def _width(block: EncoderBlock) -> int:
    into = getattr(block.network, "into", None)
    if into is None:
        raise NotNativeError(f"{type(block.network).__name__} is not among their networks")
    width: int = into.in_features
    return width
