"""`/v1/VERB`: what the models of each task do, with the options of the command line."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, create_model

from heedful.base.errors import counted
from heedful.data.corpora.images import LabelledImage
from heedful.server.asking import Asking, reply
from heedful.server.errors import Refused
from heedful.server.html import HtmlTexts
from heedful.server.html_spans import plain, with_spans
from heedful.server.schemas import body_of, document
from heedful.server.served import Served
from heedful.server.settings import ServeSettings
from heedful.tasks.shared.answering.jobs import Job
from heedful.tasks.shared.answering.service import DETAILED
from heedful.tasks.table import RULES

_OWN: Final = ("model", "stream", "format")
TEXT: Final = "text"  # the role whose list makes several inputs; of image models it is `image`


def task_routes(asking: Asking) -> APIRouter:
    """Return a route for each verb, also for those that no model is served for, which say so."""
    router, models = APIRouter(tags=["tasks"]), asking.models
    verbs = {rules.verb: [one for one in models.served if one.verb == rules.verb] for rules in RULES.values()}
    for verb, served in sorted(verbs.items(), key=lambda each: (not each[1], each[0])):  # routes are looked for in turn
        body = verb_body(verb, served, asking.settings)
        does = RULES[served[0].recipe.rules.name].does if served else "no model is served for it"
        router.post(f"/v1/{verb}", name=verb, summary=f"{verb}: {does}", openapi_extra=document(body))(
            _handler(asking, verb, body)
        )
    return router


def _handler(asking: Asking, verb: str, body: type[BaseModel]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await _answer(asking, request, verb, await asking.body(request, body))

    return answer


def verb_body(verb: str, served: Sequence[Served], settings: ServeSettings) -> type[BaseModel]:
    """Return the body of a verb: the inputs and options of all models that are served for it."""
    roles = dict.fromkeys(role for one in served for role in one.service.roles) or {TEXT: None}
    options = {name: option for one in served for name, option in one.service.options.items()}
    streams = any(one.service.streams for one in served)
    made = body_of(f"{verb.title()}Request", roles, options, settings, streams=streams)
    return with_format(made) if verb == "translate" else made


def with_format(body: type[BaseModel]) -> type[BaseModel]:
    """Return a body that may have HTML."""
    more: Any = {"format": (Literal["text", "html"], Field("text", description="Of `html`, the tags stay."))}
    return create_model(body.__name__, __base__=body, **more)


async def _answer(asking: Asking, request: Request, verb: str, given: BaseModel) -> Response:
    values = {name: value for name, value in given if value is not None}
    served = asking.models.find(values.get("model"), verb, values)
    service = served.service
    own = {name: values.pop(name) for name in _OWN if name in values}
    inputs = inputs_of(values, service.roles)
    options = {name: value for name, value in values.items() if name not in ALL_ROLES}
    unknown = next((name for name in options if name not in service.options), None)
    if unknown is not None:
        raise Refused(422, f"`{unknown}` is not an option of {served.name}: leave it out.", unknown)
    fields = type(given).model_fields
    if own.get("format") == "html":
        return await _html(asking, request, served, inputs, options, stream=bool(own.get("stream")))
    if own.get("stream"):
        if not service.streams:
            raise Refused(422, f"{served.name} writes its answers at once: leave out `stream`.", "stream")
        if len(inputs) > 1 or options.get("samples", 1) > 1:
            raise Refused(422, "A stream has one text: send each by itself, or leave out `stream`.", "stream")
        begin = partial(service.job, inputs, options, watched=True)
        return asking.stream(served, begin, fields, dict, lambda job: {"type": "done", **results(served, job)})
    job = await asking.job(request, served, partial(service.job, inputs, options), fields)
    return reply(results(served, job))


def results(served: Served, job: Job) -> dict[str, Any]:
    """Return what a finished job is answered with."""
    return {"model": served.name, "results": job.results}


async def _html(
    asking: Asking,
    request: Request,
    served: Served,
    inputs: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    *,
    stream: bool,
) -> Response:
    if stream or options.get("details") or options.get("alternatives"):
        raise Refused(422, "HTML is translated as a whole: leave out `stream`, `details` and `alternatives`.", "format")
    found = await translate_html(asking, request, served, [one[TEXT] for one in inputs], options)
    return reply({"model": served.name, "results": [{"text": text} for text in found]})


async def translate_html(
    asking: Asking, request: Request, served: Served, pages: Sequence[str], options: Mapping[str, Any]
) -> list[str]:
    """Return pages with their texts translated, in one job."""
    read = [HtmlTexts(page) for page in pages]
    texts = [(text, spans) for page in read for text, spans in zip(page.texts, page.spans, strict=True)]
    if not texts:
        return list(pages)
    inputs = [{TEXT: text, DETAILED: bool(spans)} for text, spans in texts]
    fields = {TEXT: None, **served.service.options}
    job = await asking.job(request, served, partial(served.service.job, inputs, options), fields)
    written = iter(
        with_spans(text, spans, result) if spans else plain(result["text"])
        for (text, spans), result in zip(texts, job.results, strict=True)
    )
    return [page.with_markup([next(written) for _ in page.texts]) for page in read]


# --- inputs -----------------------------------------------------------------------------------------------------------

ALL_ROLES: Final = ("text", "second", "question", "image")


def inputs_of(values: Mapping[str, Any], roles: Sequence[str]) -> list[dict[str, Any]]:
    """Return the inputs of a request: one, or one for each item of its lists, which are equally long."""
    for role in ALL_ROLES:
        if role in values and role not in roles:
            raise Refused(422, f"`{role}` is not a part of what this model reads: leave it out.", role)
    missing = next((role for role in roles if role not in values), None)
    if missing is not None:
        raise Refused(422, f"`{missing}` is missing: add it.", missing)
    lists = {role: value for role, value in values.items() if role in roles and isinstance(value, list)}
    count = len(next(iter(lists.values()))) if lists else 1
    for role, value in lists.items():
        if len(value) != count:
            raise Refused(
                422, f"`{role}` has {counted(len(value), 'item')}, but `{next(iter(lists))}` has {count:,}.", role
            )
    columns = {role: lists.get(role, [values[role]] * count) for role in roles}
    return [{role: _value(role, column[row]) for role, column in columns.items()} for row in range(count)]


def _value(role: str, value: str) -> Any:
    return LabelledImage(image_bytes(value), where="`image`") if role == "image" else value


def image_bytes(given: str) -> bytes:
    """Return an image file that is written as base64, or as a data URI."""
    if given.startswith("data:"):
        head, _, given = given.partition(",")
        if not head.endswith(";base64"):
            raise Refused(422, "`image` is a data URI that is not base64: encode it as base64.", "image")
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(422, "`image` is not base64: send the bytes of an image file, encoded.", "image") from None
