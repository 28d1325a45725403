"""An endless stream in pieces that fit into memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

CHUNK: Final = 1000  # sentences of a stream that are in work at once

Item = TypeVar("Item")


def chunks(items: Iterable[Item], size: int, ready: Callable[[], bool] = lambda: True) -> Iterator[list[Item]]:
    """Yield lists of `size` items, and shorter ones whenever `ready` says that the next item would have to be awaited.

    Where the items end with an error, what came before it is yielded first.
    """
    chunk: list[Item] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size or not ready():
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
