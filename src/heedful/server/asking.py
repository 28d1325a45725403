"""From a request to its answer: the body, a call to a model, and what a client that goes away leaves behind."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from heedful.base.errors import MachineError, UserError
from heedful.server.errors import Refused, of_schema, of_user
from heedful.server.served import Models, Served
from heedful.server.settings import ServeSettings
from heedful.server.worker import Call
from heedful.tasks.shared.answering.jobs import Job

Body = TypeVar("Body", bound=BaseModel)
Found = TypeVar("Found")
_MOST_EXPLANATIONS: Final = 8  # that wait or are computed
_BACK: Final = 1  # seconds after which a refused client may come back


class Asking:
    """Answers requests with the models of a server."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.models, self.settings = models, settings
        self.draining = False  # whether the server is told to stop

    async def body(self, request: Request, kind: type[Body]) -> Body:
        """Read the body of a request."""
        return parse(await request.body(), kind)

    async def job(self, request: Request, served: Served, begin: Callable[[], Job], fields: Mapping[str, Any]) -> Job:
        """Return the finished job of a request; it stops when its client goes away."""
        call = self._submit(served, begin)
        watch = asyncio.ensure_future(_gone(request))
        waiting: set[asyncio.Future[Any]] = {call.done, watch}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not call.done.done():
                raise Refused(499, "The client went away.")
            with in_words(served, fields):
                return call.done.result()
        finally:
            call.abandon()
            watch.cancel()

    def stream(
        self,
        served: Served,
        begin: Callable[[], Job],
        fields: Mapping[str, Any],
        event: Callable[[Mapping[str, Any]], Any],
        last: Callable[[Job], Any],
        end: bytes = b"",
    ) -> Response:
        """Return a stream of events: what `event` makes of changes, then what `last` makes of the finished job."""
        call = self._submit(served, begin, watched=True)

        async def events() -> AsyncIterator[bytes]:
            try:
                while (changes := await call.news.get()) is not None:
                    yield _event(event(changes))
                try:
                    with in_words(served, fields):
                        yield _event(last(call.done.result())) + end
                except Refused as refused:
                    yield _event({"type": "error", **refused.body})
            finally:
                call.abandon()

        return StreamingResponse(events(), media_type="text/event-stream")

    async def explain(self, work: Callable[[], Found]) -> Found:
        """Answer a request for an explanation."""
        self.refuse_more()
        if self.models.explaining >= _MOST_EXPLANATIONS:
            raise Refused(
                429, f"{_MOST_EXPLANATIONS} explanations are waiting already: try again later.", retry_after=_BACK
            )
        self.models.asked_to_explain += 1
        self.models.most = max(self.models.most, self.models.accepted)
        try:
            return await self._aside(work)
        finally:
            self.models.asked_to_explain -= 1

    async def _aside(self, work: Callable[[], Found]) -> Found:
        """Do what explains, beside the threads of the models."""
        self.models.explaining += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.models.beside, work)
        finally:
            self.models.explaining -= 1

    def refuse_more(self) -> None:
        """Refuse work that the server has no room for, or no time."""
        if self.draining:
            raise Refused(503, "The server is stopping: try again later.", retry_after=5)
        if self.models.accepted >= self.settings.queue:
            raise Refused(
                429, f"The queue is full ({self.settings.queue:,} requests): try again later.", retry_after=_BACK
            )

    def _submit(self, served: Served, begin: Callable[[], Job], *, watched: bool = False) -> Call:
        self.refuse_more()
        call = Call(begin, self.settings.timeout, self._aside, watched=watched)
        served.worker.submit(call)
        self.models.most = max(self.models.most, self.models.accepted)
        return call


def parse(body: bytes, kind: type[Body]) -> Body:
    """Return a body as its schema has it."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise of_schema(error, list(kind.model_fields)) from None


def reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    return Response(to_json(content, inf_nan_mode="null"), status, headers, "application/json")


def _event(content: Any) -> bytes:
    return b"data: " + to_json(content, inf_nan_mode="null") + b"\n\n"


async def _gone(request: Request) -> None:
    """Return when the client has gone away."""
    with suppress(Refused):
        while (await request.receive())["type"] != "http.disconnect":
            pass


class in_words:  # noqa: N801 - it reads as a statement
    """Turn errors of a model into refusals that name a field."""

    def __init__(self, served: Served, fields: Mapping[str, Any]) -> None:
        self._served, self._fields = served, fields

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UserError):
            raise of_user(self._served.without_folder(str(error)), self._fields) from None
        if isinstance(error, MachineError):
            raise Refused(503, self._served.without_folder(str(error)), retry_after=5) from None
