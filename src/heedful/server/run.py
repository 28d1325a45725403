"""A server of one's own process: it listens, stops in order, and loses no request that it has accepted."""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from heedful.base.errors import MachineError, UserError, option
from heedful.server.app import application
from heedful.server.asking import Asking
from heedful.server.served import Models, load_models
from heedful.server.settings import ServeSettings

_LOOK: Final = 0.05  # seconds between two looks whether all requests are answered
_BACKLOG: Final = 2048


def serve(
    models: Sequence[str | Path] | Mapping[str, Any], device: str = "auto", precision: str = "auto", **settings: Any
) -> None:
    """Serve models over HTTP until the process is told to stop.

    `models` are folders that `heedful train` wrote, or a mapping from names to folders or loaded models. `settings` are
    those of `ServeSettings`: `host`, `port`, `keys`, `origins`, `queue`, `timeout` and others.
    """
    chosen = ServeSettings(**settings)
    listening = listen(chosen)
    with listening:
        run(Models(load_models(models, device, precision, chosen.languages)), chosen, listening)


def listen(settings: ServeSettings) -> socket.socket:
    """Take the port, before any model is loaded."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said, so that asyncio never delays a part
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((settings.host, settings.port))
        taken.listen(_BACKLOG)
    except OSError as error:
        taken.close()
        if isinstance(error, socket.gaierror):
            raise UserError(f"{option('host')} is `{settings.host}`, but no machine has that name.") from None
        reason = error.strerror or str(error)
        raise MachineError(
            f"{settings.host}:{settings.port} cannot be used ({reason}): choose another {option('port')}."
        ) from None
    return taken


def run(models: Models, settings: ServeSettings, listening: socket.socket) -> int:
    """Answer requests until a signal ends it; return how many were accepted and not answered."""
    server = server_of(application(models, settings))
    server.run(sockets=[listening])
    return server.dropped


def server_of(app: FastAPI) -> "Draining":
    """Return the server of an application."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # bodies and addresses of clients are nobody's business
        server_header=False,
        date_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        lifespan="on",
        h11_max_incomplete_event_size=64 << 10,
    )
    return Draining(config, app.state.asking)


class Draining(uvicorn.Server):
    """A server that answers what it has accepted before it stops."""

    def __init__(self, config: uvicorn.Config, asking: Asking) -> None:
        super().__init__(config)
        self._asking, self._models = asking, asking.models
        self._waiting: asyncio.Task[None] | None = None  # kept, as a loop does not
        self.dropped = 0  # requests that took longer than there is time when a server stops

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse new requests, and stop once the others are answered; on a second signal these are refused too."""
        if self._asking.draining:
            super().handle_exit(sig, frame)
            self._models.halt()
            return
        self._asking.draining = True
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_task(self._drain(loop.time() + self._asking.settings.drain))

    async def _drain(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        quiet = 0  # looks: between a translation and its explanation nothing is under way for a moment
        while quiet < 2 and loop.time() < until:
            await asyncio.sleep(_LOOK)
            quiet = 0 if self._models.under_way else quiet + 1
        self.dropped = self._models.under_way
        if self.dropped:
            self._models.halt()
        self.should_exit = True
