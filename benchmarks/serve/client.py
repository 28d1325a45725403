"""A client that stands for many: connections that are kept, Poisson arrivals, requests that are given up."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ask:
    """A request, and what it is called in figures."""

    path: str
    body: Mapping[str, Any]
    kind: str = ""
    number: int = 0


@dataclass(frozen=True)
class Reply:
    """What became of a request."""

    ask: Ask
    status: int  # 0: it was given up
    seconds: float
    body: bytes = b""
    late: float = 0.0  # seconds between the time at which it was due and the one at which it was sent

    @property
    def content(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One connection to a server of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def close(self) -> None:
        self._writer.close()

    async def ask(self, ask: Ask) -> tuple[int, bytes]:
        content = json.dumps(ask.body).encode()
        head = f"POST {ask.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        headers = await self._reader.readuntil(b"\r\n\r\n")
        status, length = int(headers[9:12]), 0
        for line in headers.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, await self._reader.readexactly(length)


class Pool:
    """Connections that are free."""

    def __init__(self, port: int) -> None:
        self._port, self._free = port, list[Connection]()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        one = self._free.pop() if self._free else await Connection.open(self._port)
        try:
            yield one
        except BaseException:
            one.close()
            raise
        self._free.append(one)

    def close(self) -> None:
        for one in self._free:
            one.close()


async def _reply(pool: Pool, ask: Ask, patience: float | None = None, late: float = 0.0) -> Reply:
    began = time.perf_counter()
    try:
        async with pool.connection() as connection, asyncio.timeout(patience):
            status, body = await connection.ask(ask)
    except TimeoutError:
        return Reply(ask, 0, time.perf_counter() - began, late=late)
    return Reply(ask, status, time.perf_counter() - began, body, late)


def closed_loop(
    port: int, clients: int, asks: Callable[[], Ask | None], seconds: float, abort: float = 0.0, seed: int = 1
) -> list[Reply]:
    """Let clients ask one request after the other; each gives up some of them, soon after they are sent.

    `asks` returns the next request, or None if there is none left.
    """
    chance, until = random.Random(seed), time.perf_counter() + seconds

    async def client(pool: Pool, found: list[Reply]) -> None:
        while time.perf_counter() < until and (ask := asks()) is not None:
            patience = chance.uniform(0.001, 0.05) if chance.random() < abort else None
            found.append(await _reply(pool, ask, patience))

    async def run() -> list[Reply]:
        pool, found = Pool(port), list[Reply]()
        await asyncio.gather(*(client(pool, found) for _ in range(clients)))
        pool.close()
        return found

    return asyncio.run(run())


def poisson(port: int, rate: float, asks: Sequence[Ask], seed: int = 1) -> list[Reply]:
    """Send requests at random times, `rate` per second, whatever becomes of those before; wait for all answers."""
    chance = random.Random(seed)
    gaps = [chance.expovariate(rate) for _ in asks]

    async def run() -> list[Reply]:
        pool, tasks = Pool(port), list[asyncio.Task[Reply]]()
        due = time.perf_counter()
        for ask, gap in zip(asks, gaps, strict=True):
            due += gap
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late = time.perf_counter() - due
            tasks.append(asyncio.create_task(_reply(pool, ask, late=late)))
        found = list(await asyncio.gather(*tasks))
        pool.close()
        return found

    return asyncio.run(run())


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of all values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
