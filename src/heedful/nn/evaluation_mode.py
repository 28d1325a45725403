"""How networks compute outside of training: without dropout, and for one thread in other ways than for the rest.

Several threads may use one network at the same time. A call never changes how the network computes for another one: the
evaluation mode is never left, and what a call needs besides is kept per thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from threading import get_ident
from typing import Any, Final, Generic, TypeVar

import torch
from torch import nn

Value = TypeVar("Value")


@contextmanager
def evaluation_mode(*networks: nn.Module) -> Iterator[None]:
    """Disable dropout, and select the networks' GPU inside the block.

    Dropout stays disabled afterwards, because another thread may be in such a block: who trains calls `train()`.
    """
    for network in networks:
        for module in network.modules():
            if module.training:  # `eval()` sets what is set, module by module, which takes longer than a short search
                module.training = False
    weight = next(networks[0].parameters())
    with torch.cuda.device(weight.device) if weight.is_cuda else nullcontext():
        yield


class PerThread(Generic[Value]):
    """Values that a thread has for as long as a block lasts; other threads do not see them."""

    def __init__(self) -> None:
        self._values: dict[int, list[Value]] = {}

    def here(self) -> Sequence[Value]:
        """Return the values of this thread, those of the outermost block first."""
        return self._values.get(get_ident(), ()) if self._values else ()  # the usual case asks for no thread

    @contextmanager
    def having(self, value: Value) -> Iterator[None]:
        """Add a value inside the block."""
        thread = get_ident()
        self._values.setdefault(thread, []).append(value)
        try:
            yield
        finally:
            self._values[thread].pop()
            if not self._values[thread]:
                del self._values[thread]


class HookHere:
    """A hook on a module for the thread that makes it: calls of other threads do not see it."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.thread, self._hook = get_ident(), hook

    def __call__(self, *given: Any) -> Any:
        """Do what the hook does, in its thread."""
        return self._hook(*given) if get_ident() == self.thread else None


def has_hook_here(tables: Iterable[Mapping[int, Any]]) -> bool:
    """Whether a table of hooks has one that sees the calls of this thread."""
    here = get_ident()
    return any(getattr(hook, "thread", here) == here for table in tables if table for hook in [*table.values()])


_WRITTEN_OUT: Final = PerThread[bool]()


@contextmanager
def by_equation() -> Iterator[None]:
    """Compute attention as its equation is written, and everything in float32 or wider, in this thread's block."""
    with _WRITTEN_OUT.having(True):
        yield


def computes_by_equation() -> bool:
    """Whether this thread is in a block of `by_equation`."""
    return bool(_WRITTEN_OUT.here())


class WithPrecision(nn.Module):
    """A module that sets the type in which values are computed after it; at least float32 in `by_equation`."""

    _precision: torch.dtype

    @property
    def precision(self) -> torch.dtype:
        """The type of values after this module, for calls of this thread."""
        own = self._precision
        return torch.promote_types(own, torch.float32) if computes_by_equation() else own

    @precision.setter
    def precision(self, precision: torch.dtype) -> None:
        self._precision = precision
