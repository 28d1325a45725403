"""The bodies of requests: pydantic models, made from the same tables of options as the command line."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, get_origin

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from heedful.base.options import Option
from heedful.server.settings import LEAST, MOST, MOST_LETTERS_OF_TERM, MOST_TERMS, ServeSettings

_NAME: Final = 200  # letters of names: of models, of languages


class Body(BaseModel):
    """A JSON object with known fields."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


def body_of(
    name: str,
    inputs: Iterable[str],
    options: Mapping[str, Option],
    settings: ServeSettings,
    *,
    streams: bool = False,
    several: bool = True,
) -> type[Body]:
    """Return the body of a request for some inputs, with options; of `several` inputs a list is taken too."""
    fields: dict[str, Any] = {"model": (Annotated[str, Field(max_length=_NAME)] | None, None)}
    for role in inputs:
        letters = settings.max_body if role == "image" else settings.max_text
        one = Annotated[str, Field(max_length=letters)]
        kind: Any = one | Annotated[list[one], Field(min_length=1, max_length=settings.max_inputs)] if several else one
        about = "An image file, as base64 or as a data URI." if role == "image" else f"The {role}."
        fields[role] = (kind | None, Field(None, description=about))
    for key, each in options.items():
        fields[key] = (_kind(key, each, settings) | None, Field(None, description=each.meaning.split("\n")[0]))
    if streams:
        fields["stream"] = (bool, Field(False, description="Send the result as it grows, as server-sent events."))
    return create_model(name, __base__=Body, **fields)


def _kind(name: str, declared: Option, settings: ServeSettings) -> Any:
    """Return the type of an option, with its bounds and those of a server."""
    term = Annotated[str, StringConstraints(max_length=MOST_LETTERS_OF_TERM)]
    match name:
        case "to":
            return Annotated[str, Field(max_length=_NAME)]
        case "prefix":
            return Annotated[str, Field(max_length=settings.max_text)]
        case "terms":
            return Annotated[dict[term, term], Field(max_length=MOST_TERMS)]
        case "require" | "forbid" | "stop":
            return term | Annotated[list[term], Field(max_length=MOST_TERMS)]
    if declared.kind is bool:
        return bool
    if get_origin(declared.kind) is not None:
        return declared.kind  # one of several names
    most = min((bound for bound in (declared.most, MOST.get(name)) if bound is not None), default=None)
    least = LEAST.get(name) if declared.least is None else declared.least
    bounds = {"ge": least, "gt": declared.above, "le": most}
    given: Any = {key: bound for key, bound in bounds.items() if bound is not None}
    return Annotated[declared.kind, Field(**given)]


def document(body: type[BaseModel]) -> dict[str, Any]:
    """Return what an OpenAPI document says of a body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": body.model_json_schema()}}}}
