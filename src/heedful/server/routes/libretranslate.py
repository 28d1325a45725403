"""LibreTranslate's routes, so that its clients work: translations between languages that have codes."""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from heedful.server.asking import Asking, parse, reply
from heedful.server.errors import Refused
from heedful.server.guard import Keys
from heedful.server.routes.tasks import translate_html
from heedful.server.schemas import document
from heedful.server.served import Served

_FORM: Final = "application/x-www-form-urlencoded"
_UNKNOWN: Final = "und"  # the code of a language that nobody named
_LETTERS, _TEXTS = 200_000, 2048  # of any server; `max_text` and `max_inputs` are those of this one
_NAMES: Final = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese",
}  # fmt: skip


Text = Annotated[str, Field(max_length=_LETTERS)]


class TranslateBody(BaseModel):
    """The body of `/translate`."""

    model_config = ConfigDict(extra="ignore")

    q: Text | Annotated[list[Text], Field(max_length=_TEXTS)]
    source: Annotated[str, Field(max_length=20)]
    target: Annotated[str, Field(max_length=20)]
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, le=10)] = 0
    api_key: Annotated[str, Field(max_length=1000)] = ""


class DetectBody(BaseModel):
    """The body of `/detect`."""

    model_config = ConfigDict(extra="ignore")

    q: Text
    api_key: Annotated[str, Field(max_length=1000)] = ""


def libretranslate_routes(asking: Asking) -> APIRouter:
    """Return the routes of LibreTranslate's clients."""
    router, keys = APIRouter(tags=["LibreTranslate"]), Keys(asking.settings.keys)
    translators = [one for one in asking.models.served if one.verb == "translate"]

    async def read(request: Request) -> bytes:
        """Return a body as JSON, also that of a form; refuse a request without a key, wherever clients put it."""
        raw = await request.body()
        is_form = request.headers.get("content-type", "").startswith(_FORM)
        if keys and not request.headers.get("authorization"):  # which was checked before
            keys.check(request.query_params.get("api_key") or _key_in(raw, is_form))
        return json.dumps(_form(raw)).encode() if is_form else raw

    @router.post("/translate", openapi_extra=document(TranslateBody))
    async def translate(request: Request) -> Response:
        given = parse(await read(request), TranslateBody)
        texts = given.q if isinstance(given.q, list) else [given.q]
        _check_size(texts, asking)
        source = given.source
        if source == "auto":
            source = _detected(texts[0], translators)[0]["language"]
        served = _translator(translators, source, given.target)
        options: dict[str, Any] = {"to": given.target} if served.service.languages else {}
        if given.format == "html":
            if given.alternatives:
                raise Refused(422, "HTML has no alternatives: leave out `alternatives`.", "alternatives")
            found = await translate_html(asking, request, served, texts, options)
            return reply(_answer(given, found, {}, source))
        options |= {"alternatives": given.alternatives} if given.alternatives else {}
        inputs = [{"text": text} for text in texts]
        job = await asking.job(
            request, served, partial(served.service.job, inputs, options), TranslateBody.model_fields
        )
        others = [[one["text"] for one in result.get("alternatives", ())] for result in job.results]
        more = {"alternatives": others if isinstance(given.q, list) else others[0]} if given.alternatives else {}
        return reply(_answer(given, [result["text"] for result in job.results], more, source))

    @router.get("/languages")
    async def languages(request: Request) -> Response:
        await read(request)
        targets: dict[str, list[str]] = {}
        for one in translators:
            targets.setdefault(one.source or _UNKNOWN, []).extend(one.targets or [_UNKNOWN])
        return reply(
            [{"code": code, "name": _name(code), "targets": [*dict.fromkeys(some)]} for code, some in targets.items()]
        )

    @router.post("/detect", openapi_extra=document(DetectBody))
    async def detect(request: Request) -> Response:
        given = parse(await read(request), DetectBody)
        _check_size([given.q], asking)
        return reply(_detected(given.q, translators))

    @router.get("/frontend/settings")
    async def settings(request: Request) -> Response:
        await read(request)
        first = translators[0] if translators else None
        source = (first.source if first else None) or _UNKNOWN
        target = (first.targets[0] if first and first.targets else None) or _UNKNOWN
        return reply(
            {
                "apiKeys": bool(keys),
                "charLimit": asking.settings.max_text,
                "filesTranslation": False,
                "frontendTimeout": 500,
                "keyRequired": bool(keys),
                "language": {
                    "source": {"code": source, "name": _name(source)},
                    "target": {"code": target, "name": _name(target)},
                },
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    return router


def _answer(given: TranslateBody, found: list[str], more: Mapping[str, Any], source: str) -> dict[str, Any]:
    several = isinstance(given.q, list)
    detected = {"confidence": 100, "language": source}
    told = {"detectedLanguage": [detected] * len(found) if several else detected} if given.source == "auto" else {}
    return {"translatedText": found if several else found[0], **more, **told}


def _form(raw: bytes) -> dict[str, Any]:
    """Return the fields of a form as JSON has them."""
    try:
        fields = parse_qs(raw.decode(), keep_blank_values=True, max_num_fields=1000, errors="strict")
    except ValueError:
        raise Refused(400, "The body is not a form: send JSON, or URL-encoded UTF-8.") from None
    found: dict[str, Any] = {name: values[-1] for name, values in fields.items()}
    if len(fields.get("q", ())) > 1:
        found["q"] = fields["q"]
    if str(found.get("alternatives", "")).isdecimal():
        found["alternatives"] = int(found["alternatives"])
    return found


def _key_in(raw: bytes, is_form: bool) -> str | None:
    """Return the key in a body, whatever else is in it."""
    try:
        found = _form(raw) if is_form else from_json(raw)
    except (Refused, ValueError):
        return None
    key = found.get("api_key") if isinstance(found, dict) else None
    return key if isinstance(key, str) else None


def _check_size(texts: list[str], asking: Asking) -> None:
    if not 1 <= len(texts) <= asking.settings.max_inputs:
        raise Refused(422, f"`q` has {len(texts):,} texts, but must have 1 to {asking.settings.max_inputs:,}.", "q")
    longest, most = max(map(len, texts)), asking.settings.max_text
    if longest > most:
        raise Refused(422, f"`q` has a text of {longest:,} letters, but at most {most:,} are translated.", "q")


def _translator(translators: Iterable[Served], source: str, target: str) -> Served:
    for one in translators:
        if source in (one.source or _UNKNOWN, _UNKNOWN) and target in (one.targets or (_UNKNOWN,)):
            return one
    raise Refused(400, f"No model translates from `{source}` into `{target}`: see /languages.", "target")


def _detected(text: str, translators: Iterable[Served]) -> list[dict[str, Any]]:
    """Return the source languages of the models, the likeliest first: the one whose vocabulary spells it shortest."""
    lengths: dict[str, int] = {}
    for one in translators:
        tokens = len(one.service.model.vocabularies["source"].encode(text))
        code = one.source or _UNKNOWN
        lengths[code] = min(tokens, lengths.get(code, tokens))
    if not lengths:
        raise Refused(404, "No model translates: there are no languages to tell apart.")
    shares = {code: 1 / max(1, length) ** 4 for code, length in lengths.items()}
    total = sum(shares.values())
    ranked = sorted(shares, key=lambda code: -shares[code])
    return [{"confidence": round(100 * shares[code] / total, 1), "language": code} for code in ranked]


def _name(code: str) -> str:
    return _NAMES.get(code, "Unknown" if code == _UNKNOWN else code)
