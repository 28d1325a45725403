"""What stands before every route: who may ask, from where, and how large a request may be."""

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from hashlib import sha256
from typing import Any, Final

from pydantic_core import to_json
from starlette.requests import ClientDisconnect

from heedful.server.errors import Refused
from heedful.server.settings import ServeSettings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN: Final = ("/", "/health/live", "/health/ready", "/favicon.ico")  # routes that need no key
OWN_KEYS: Final = ("/translate", "/languages", "/detect", "/frontend/settings")  # routes that look for it in `api_key`
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


_LOG: Final = logging.getLogger("heedful.server")


class Keys:
    """The keys of a server."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._hashes = [sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def has(self, key: str) -> bool:
        """Whether a key is one of them; it takes as long for any other."""
        given = sha256(key.encode("utf-8", "replace")).digest()
        return sum([hmac.compare_digest(given, known) for known in self._hashes]) > 0

    def check(self, key: str | None) -> None:
        """Refuse a request without a key, or with a wrong one."""
        if self and not key:
            raise Refused(401, "This server needs a key: send it as `Authorization: Bearer KEY`.")
        if self and not self.has(key or ""):
            raise Refused(401, "That key is none of this server's.")


class Guard:
    """Refuses requests before any route sees them, and adds headers to every answer."""

    def __init__(self, app: App, settings: ServeSettings, count: Callable[[str, int, float], None]) -> None:
        """`count` is told the route, the status and the seconds of every request."""
        self._app, self._settings, self._keys, self._count = app, settings, Keys(settings.keys), count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        began, status, told = time.perf_counter(), 0, [*HEADERS]
        origin = dict(scope["headers"]).get(b"origin", b"").decode("latin-1")
        if origin in self._settings.origins:  # what is refused to its pages can be read by them
            told += [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in told if one[0] not in present)]
            await send(message)

        try:
            await self._pass(scope, receive, send_with_headers)
        except ClientDisconnect:  # before the whole body had arrived
            status = 499
        except Exception as error:
            _LOG.error("%s %s failed", scope["method"], _route(scope), exc_info=error)
            if status:
                raise  # the answer has begun: the connection ends in the middle of it
            await refuse(Refused(500, "The server failed to answer: its log says why."), send_with_headers)
        finally:
            self._count(_route(scope), status or 500, time.perf_counter() - began)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            self._check_host(headers)
            self._check_origin(headers)
            path = scope["path"].removeprefix(scope.get("root_path", ""))  # of an application that mounts this one
            if path not in OPEN and scope["method"] != "OPTIONS":
                self._check_key(path, headers)
            limited = self._limited(headers, receive)
        except Refused as refused:
            await refuse(refused, send)
            return
        await self._app(scope, limited, send)

    def _check_host(self, headers: Mapping[bytes, str]) -> None:
        """A page elsewhere may call its own name by our address; our answer would be its own."""
        names, given = self._settings.names, _without_port(headers.get(b"host", ""))
        if names and given not in names:
            raise Refused(403, f"`Host` is `{given}`, which is no name of this server: see --allow-host.")

    def _check_origin(self, headers: Mapping[bytes, str]) -> None:
        """A page elsewhere must not use a server of this machine through its visitor's browser."""
        origin = headers.get(b"origin")
        if origin is None or origin in self._settings.origins:
            return
        if origin.partition("://")[2] != headers.get(b"host"):
            raise Refused(
                403,
                f"Pages of `{origin}` may not use this server: allow them with --allow-origin. A proxy must pass on "
                "`Host`.",
            )

    def _check_key(self, path: str, headers: Mapping[bytes, str]) -> None:
        given = headers.get(b"authorization", "")
        scheme, _, key = given.partition(" ")
        if path in OWN_KEYS and not given:
            return
        self._keys.check(key.strip() if scheme.lower() == "bearer" else None)

    def _limited(self, headers: Mapping[bytes, str], receive: Receive) -> Receive:
        """Return a body that ends with a refusal once it is too large."""
        most, said = self._settings.max_body, headers.get(b"content-length", "0")
        if not said.isdecimal() or int(said) > most:
            raise _too_large(most)
        arrived = 0

        async def limited() -> MutableMapping[str, Any]:
            nonlocal arrived
            message = await receive()
            if message["type"] == "http.request":
                arrived += len(message.get("body", b""))
                if arrived > most:
                    raise _too_large(most)
            return message

        return limited


async def refuse(refused: Refused, send: Send) -> None:
    """Send a refusal."""
    headers = [(name.lower().encode(), value.encode()) for name, value in refused.headers.items()]
    headers.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": to_json(refused.body)})


def _route(scope: Scope) -> str:
    """Return the route that a request has found: what its client wrote is in no log and no metric."""
    return getattr(scope.get("route"), "path", "other")


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return name if name and port.isdecimal() else host


def _too_large(most: int) -> Refused:
    return Refused(413, f"The body is larger than this server takes, {most:,} bytes: send less at once.")
