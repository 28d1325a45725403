"""The thread of one model: it moves all requests for the model, step by step, and tells the event loop what is new."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

from heedful.base.errors import HeedfulError
from heedful.server.errors import Refused
from heedful.tasks.shared.answering.jobs import Changes, Job
from heedful.tasks.shared.answering.service import Service

ROOM: Final = {"cpu": 48, "cuda": 512}  # sequences that are under way at once
_SHARE: Final = {"cpu": 8, "cuda": 128}  # of these, the most that one request has
Aside = Callable[[Callable[[], None]], Awaitable[None]]
_LOG: Final = logging.getLogger("heedful.server")


class Call:
    """One request to a model. The event loop makes it and waits for it; the thread of the model moves it."""

    def __init__(self, begin: Callable[[], Job], seconds: float, aside: Aside, *, watched: bool = False) -> None:
        """`aside` does beside the thread what adds details to a job: they are a part of the call."""
        self.begin, self.watched, self._aside = begin, watched, aside
        self.deadline = time.monotonic() + seconds
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Job] = self.loop.create_future()
        self.news: asyncio.Queue[Changes | None] = asyncio.Queue()  # None: it is over
        self.gone = False  # whether nobody waits for it any more
        self.job: Job | None = None

    def abandon(self) -> None:
        """Say that nobody waits for it: it stops before the next step."""
        self.gone = True

    def settle(self, result: Job | Exception) -> None:
        """End it, once it has its details; in the event loop."""
        if isinstance(result, Job) and result.detailed and not self.gone:
            self._adding = asyncio.ensure_future(self._add_details(result))
        else:
            self._end(result)

    async def _add_details(self, job: Job) -> None:
        try:
            await self._aside(lambda: None if self.gone else job.details())
        except asyncio.CancelledError:
            self._end(Refused(503, "The server is stopping.", retry_after=5))
            raise
        except Exception as error:
            self._end(_refusal(error))
            if not isinstance(error, HeedfulError | Refused):
                _LOG.exception("a request failed")
        else:
            self._end(job)

    def _end(self, result: Job | Exception) -> None:
        if not self.done.done():
            if isinstance(result, Exception):
                self.done.set_exception(result)
                self.done.exception()  # whoever waited may be gone: then it is nobody's
            else:
                self.done.set_result(result)
        self.news.put_nowait(None)


class Worker:
    """Moves the calls of one model."""

    def __init__(self, service: Service, name: str) -> None:
        self.service = service
        self._inbox: SimpleQueue[Call | None] = SimpleQueue()
        self._live: list[Call] = []
        kind = service.model.device.type
        self._room, self._share = ROOM.get(kind, ROOM["cpu"]), _SHARE.get(kind, _SHARE["cpu"])
        self.under_way = 0  # calls that are not over, as the event loop counts them
        self._thread = Thread(target=self._run, name=f"heedful-serve-{name}", daemon=True)

    def start(self) -> None:
        """Begin to move calls, once: an application that mounts this one may not say that it starts."""
        if self._thread.ident is None:
            self._thread.start()

    def halt(self) -> None:
        """Refuse what is under way, and let the thread end, when its current step is done."""
        self._inbox.put(None)

    def stop(self) -> None:
        """Halt, and wait for the end of the thread."""
        self.halt()
        self._thread.join()

    def submit(self, call: Call) -> None:
        """Take a call."""
        self.under_way += 1
        call.done.add_done_callback(self._over)
        self.start()
        self._inbox.put(call)

    def _over(self, future: "asyncio.Future[Job]") -> None:
        self.under_way -= 1

    # --- in the thread of the model ---

    def _run(self) -> None:
        while self._receive():
            self._advance()
            try:
                self.service.tick()
            except Exception as error:  # a fault of ours ends the calls, not the server
                _LOG.exception("a step of a model failed")
                self._end([(call, _refusal(error)) for call in self._live])
                self._live = []
        while not self._inbox.empty():
            self._live += filter(None, [self._inbox.get()])
        self._end([(call, Refused(503, "The server is stopping.", retry_after=5)) for call in self._live])

    def _receive(self) -> bool:
        """Take the calls that have arrived; wait for one if there is nothing to do. Return whether to go on."""
        wait = not self._live
        while True:
            try:
                call = self._inbox.get(block=wait)
            except Empty:
                return True
            if call is None:
                return False
            self._live.append(call)
            wait = False

    def _advance(self) -> None:
        """Move all calls: each gets an equal share of the room."""
        now, settled = time.monotonic(), list[tuple[Call, Job | Exception]]()
        share = max(1, min(self._share, self._room // max(1, len(self._live))))
        changed: list[tuple[Call, Changes]] = []
        for call in self._live:
            try:
                if call.gone or now > call.deadline:
                    raise Refused(504, "The request took longer than the server allows: ask for less.")
                if call.job is None:
                    call.job = call.begin()
                done = call.job.advance(share)
                if call.watched and (changes := call.job.changes()) is not None:
                    changed.append((call, changes))
                if done:
                    settled.append((call, call.job))
            except Exception as error:
                settled.append((call, _refusal(error)))
                if settled[-1][1] is not error:
                    _LOG.exception("a request failed")
        _tell([(call, partial(call.news.put_nowait, changes)) for call, changes in changed])
        if settled:
            over = {id(call) for call, _ in settled}
            self._live = [call for call in self._live if id(call) not in over]
            self._end(settled)

    def _end(self, settled: Sequence[tuple[Call, Job | Exception]]) -> None:
        for call, result in settled:
            if isinstance(result, Exception) and call.job is not None:
                call.job.cancel()
        _tell([(call, partial(call.settle, result)) for call, result in settled])


def _tell(news: Sequence[tuple[Call, Callable[[], None]]]) -> None:
    """Do all this in the event loops of the calls: each is woken once, which costs more than most news."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
    for call, each in news:
        by_loop.setdefault(call.loop, []).append(each)
    for loop, some in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(_do_all, some)


def _do_all(news: Sequence[Callable[[], None]]) -> None:
    for each in news:
        each()


def _refusal(error: Exception) -> Exception:
    if isinstance(error, Refused | HeedfulError):
        return error
    return Refused(500, "The server failed to answer: its log says why.")
