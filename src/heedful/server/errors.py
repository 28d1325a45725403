"""Refusals: a status, one line that names the field, and when to come back."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from heedful.base.errors import suggestion

_INPUTS: Final = ("text", "question", "image", "prompt", "input", "q")  # the first one that a request has is meant
_IN_WORDS: Final = (*_INPUTS, "second", "prefix", "shortlist")  # fields that messages may name without a sign


_BOUNDS: Final = {"less_than_equal": "at most", "greater_than_equal": "at least", "greater_than": "more than"}


class Refused(Exception):  # noqa: N818 - a refusal is an answer
    """A request that is not answered."""

    def __init__(self, status: int, message: str, field: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"

    @property
    def body(self) -> dict[str, Any]:
        """The error as OpenAI's clients read it."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": self.message, "type": kind, "param": self.field, "code": None}}


def of_user(message: str, fields: Mapping[str, Any]) -> Refused:
    """Return the refusal of a request that the model cannot answer, with the first field that the message names."""
    line = " ".join(message.split())
    quoted = next((name for name in re.findall(r"`(\w+)`", line) if name in fields), None)
    if quoted is not None:
        return Refused(422, line, quoted)
    named = next((word for word in re.findall(r"\w+", line) if word in fields and word in _IN_WORDS), None)
    field = named or next((name for name in _INPUTS if name in fields), None)
    return Refused(422, line if field is None else f"`{field}`: {line}", field)


def of_schema(error: ValidationError, known: list[str]) -> Refused:
    """Return the refusal of a body that does not fit the schema: its first mistake."""
    mistakes = error.errors(include_url=False)
    first = mistakes[0]
    if first["type"] == "json_invalid":
        return Refused(400, f"The body is not JSON: {first.get('ctx', {}).get('error', 'it cannot be read')}.")
    if not first["loc"]:
        return Refused(422, f"The body must be a JSON object: {_plain(first['msg'])}.")
    # Of a field that takes a value or a list, what is wrong with the one that was given.
    same = [one for one in mistakes if one["loc"][0] == first["loc"][0]]
    first = max(same, key=lambda one: (not one["type"].endswith("_type"), len(one["loc"])))
    place = [str(part) for part in first["loc"]]
    name = place[0]
    if first["type"] == "extra_forbidden":
        return Refused(422, f"`{name}` is not a field of this request.{suggestion(name, known)}", name)
    if first["type"] == "missing":
        return Refused(422, f"`{name}` is missing: add it.", name)
    index = next((f", item {int(part) + 1:,}" for part in place[1:] if part.isdecimal()), "")
    return Refused(422, f"`{name}`{index}{_what_is_wrong(first)}.", name)


def _what_is_wrong(mistake: Any) -> str:
    """Return what follows the name of a field: its value or its length, and what it must be."""
    given, bounds = mistake["input"], mistake.get("ctx", {})
    for kind, words in (
        ("less_than_equal", "at most"),
        ("greater_than_equal", "at least"),
        ("greater_than", "more than"),
    ):
        if mistake["type"] == kind:
            (bound,) = bounds.values()
            return f" is {given:,}, but must be {words} {bound:,}"
    if mistake["type"] == "string_too_long":
        return f" has {len(given):,} characters, but may have {bounds['max_length']:,}: split it"
    if mistake["type"] == "too_long":
        return f" has {len(given):,} items, but may have {bounds['max_length']:,}: send fewer at once"
    return f": {_plain(mistake['msg'])}"


def _plain(message: str) -> str:
    """Return pydantic's words as a sentence without its end."""
    text = message.removeprefix("Value error, ").removeprefix("Input ").replace(" after validation", "").rstrip(".")
    return text[:1].lower() + text[1:]
