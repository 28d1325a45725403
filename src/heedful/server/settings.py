"""What a server is told: where it listens, who may use it, and how much one request may ask for."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from heedful.base.errors import UserError, by_caller, option
from heedful.base.files import expand_user

MOST: Final = {  # of options that a machine cannot do in any number, or that make no difference any more
    "beam": 64,
    "coverage": 1000,
    "length_penalty": 1000,
    "length_shift": 1_000_000,
    "max_answer": 4096,
    "max_extra": 2048,
    "max_source": 4096,
    "max_tokens": 4096,
    "mbr": 256,
    "mbr_seed": 2**64 - 1,
    "min_length": 2048,
    "repetition_penalty": 1000,
    "samples": 32,
    "sentence": 1_000_000,
    "temperature": 1000,
    "threshold": 1000,
    "top_k": 1_000_000_000,
}
LEAST: Final = {"max_answer": 1, "threshold": -1000}
MOST_TERMS: Final = 256  # words that are required or forbidden, terms, strings that end a text
MOST_LETTERS_OF_TERM: Final = 1000
_ORIGIN: Final = re.compile(r"https?://[^/\s]+")
_PAIR: Final = re.compile(r"[A-Za-z_]{2,20}-[A-Za-z_]{2,20}")
_NAME: Final = re.compile(r"[\w.:-]+")
_KEY: Final = re.compile(r"[!-~]{8,512}")


@dataclass(frozen=True)
class ServeSettings:
    """How models are served."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: Sequence[str] = ()  # of which a request must have one, if there are any
    origins: Sequence[str] = ()  # of pages elsewhere that may use this server
    hosts: Sequence[str] = ()  # names by which requests may call this server, besides those of this machine
    queue: int = 128  # requests that wait or are under way; more are told to come back
    timeout: float = 60.0  # seconds after which a request ends
    max_body: int = 16 << 20  # bytes
    max_text: int = 20_000  # letters of one text
    max_inputs: int = 256  # texts or images of one request
    drain: float = 65.0  # seconds for requests that are under way when the server is told to stop
    # "en-de": source and target of translators that do not know them, in order; the last is of all that follow.
    languages: Sequence[str] = ()

    def __post_init__(self) -> None:
        for key in self.keys:
            if not _KEY.fullmatch(key):
                raise UserError("A key must have 8 to 512 ASCII characters without spaces: choose another.")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise UserError(
                    f"{by_caller('--allow-origin', '`origins`')} has `{origin}`, but must be like https://example.org."
                )
        for pair in self.languages:
            if not _PAIR.fullmatch(pair):
                raise UserError(f"{option('languages')} has `{pair}`, but must be like en-de.")
        if not self.is_local and not self.keys:
            raise UserError(
                f"{option('host')} is {self.host}, which other machines can reach: give {option('keys')}, or use "
                "127.0.0.1."
            )
        if not 0 <= self.port <= 65535:
            raise UserError(f"{option('port')} is {self.port}, but must be from 0 to 65,535.")
        for name in ("queue", "max_body", "max_text", "max_inputs"):
            if getattr(self, name) < 1:
                raise UserError(f"{option(name)} is {getattr(self, name):,}, but must be at least 1.")
        for name in ("timeout", "drain"):
            if not getattr(self, name) > 0:
                raise UserError(f"{option(name)} is {getattr(self, name):,}, but must be more than 0.")

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def names(self) -> frozenset[str]:
        """Names by which requests may call this server; none if any may."""
        if self.is_local or self.hosts:
            return frozenset({"127.0.0.1", "localhost", "[::1]", self.host, *self.hosts})
        return frozenset()


def named_folders(given: Iterable[str]) -> list[tuple[str, str]]:
    """Return the names and the folders of models, given as folders or as `name=folder`."""
    found = []
    for one in given:
        name, equals, folder = one.partition("=")
        if equals and _NAME.fullmatch(name):
            found.append((name, folder))
        else:
            found.append((expand_user(one).resolve().name, one))
    return found
