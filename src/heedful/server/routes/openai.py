"""OpenAI's routes, so that its clients work: models, completions, embeddings."""

import base64
import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from heedful.server.asking import Asking, reply
from heedful.server.errors import Refused
from heedful.server.schemas import document
from heedful.server.served import Served
from heedful.server.settings import MOST, MOST_LETTERS_OF_TERM
from heedful.tasks.shared.answering.jobs import Job, PassJob

_LETTERS: Final = 200_000
_CHAT: Final = (
    "These models continue texts and answer as they were trained: there is no chat. Use /v1/completions for language "
    "models, and /v1/VERB for others."
)
Text = Annotated[str, Field(max_length=_LETTERS)]
Number = Annotated[int, Field(ge=0, le=1_000_000)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Stop = Annotated[str, Field(min_length=1, max_length=MOST_LETTERS_OF_TERM)]
# What other servers know, and these models do not have: accepted where it asks for nothing.
_NEUTRAL: Final[Mapping[str, object]] = {
    "best_of": 1,
    "echo": False,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logprobs": 0,
    "suffix": "",
}


class CompletionRequest(BaseModel):
    """The body of `/v1/completions`."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, strict=True)

    model: Annotated[str, Field(max_length=200)]
    prompt: Text | Annotated[list[Text], Field(min_length=1, max_length=64)]
    max_tokens: Annotated[int | None, Field(ge=1, le=MOST["max_tokens"])] = 16
    temperature: Annotated[float | None, Field(ge=0, le=100)] = 1.0
    top_p: Annotated[float | None, Field(gt=0, le=1)] = 1.0
    n: Annotated[int | None, Field(ge=1, le=MOST["samples"])] = 1
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = None
    seed: Annotated[int | None, Field(ge=0, le=2**63 - 1)] = None
    stream: bool | None = False
    best_of: Number | None = None
    echo: bool | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logprobs: Number | None = None
    suffix: Text | None = None
    user: Text | None = None


class EmbeddingRequest(BaseModel):
    """The body of `/v1/embeddings`."""

    model_config = ConfigDict(extra="ignore", strict=True)

    model: Annotated[str, Field(max_length=200)]
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=2048)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Number | None = None
    user: Text | None = None


def openai_routes(asking: Asking) -> APIRouter:
    """Return the routes of OpenAI's clients."""
    router, models = APIRouter(tags=["OpenAI"]), asking.models

    @router.get("/v1/models")
    async def listed() -> Response:
        return reply({"object": "list", "data": [one.facts() for one in models.served]})

    @router.get("/v1/models/{name}")
    async def one(name: str) -> Response:
        return reply(models.find(name).facts())

    @router.post("/v1/completions", openapi_extra=document(CompletionRequest))
    async def complete(request: Request) -> Response:
        given = await asking.body(request, CompletionRequest)
        served = models.find(given.model, "generate")
        for name, value in _NEUTRAL.items():
            asked = getattr(given, name)
            if asked is not None and asked != value:
                raise Refused(422, f"`{name}` is not supported: leave it out.", name)
        prompts = [given.prompt] if isinstance(given.prompt, str) else given.prompt
        _check_letters(prompts, "prompt", asking)
        options = {
            "max_tokens": given.max_tokens or 16,
            "temperature": 1.0 if given.temperature is None else given.temperature,
            "top_p": given.top_p if given.temperature != 0 and given.top_p != 1 else None,
            "samples": given.n,
            "stop": given.stop or None,
            "seed": given.seed if given.temperature != 0 else None,
        }
        inputs = [{"text": prompt} for prompt in prompts]
        head = {
            "id": f"cmpl-{uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": served.name,
        }
        fields = CompletionRequest.model_fields
        if not given.stream:
            job = await asking.job(request, served, partial(served.service.job, inputs, options), fields)
            return reply(head | {"choices": _choices(job), "usage": _usage(job)})
        if len(prompts) > 1 or (given.n or 1) > 1:
            raise Refused(422, "A stream has one text: send each prompt by itself, with `n` 1.", "stream")
        begin = partial(served.service.job, inputs, options, watched=True)
        return asking.stream(
            served,
            begin,
            fields,
            lambda changes: head | {"choices": [_choice(0, changes["text"], None)]},
            lambda job: head | {"choices": [{**_choices(job)[0], "text": ""}]},
            b"data: [DONE]\n\n",
        )

    @router.post("/v1/embeddings", openapi_extra=document(EmbeddingRequest))
    async def embed(request: Request) -> Response:
        given = await asking.body(request, EmbeddingRequest)
        served = _embedding_model(asking, given.model)
        if given.dimensions is not None:
            raise Refused(422, "`dimensions` is fixed by the model: leave it out.", "dimensions")
        texts = [given.input] if isinstance(given.input, str) else given.input
        _check_letters(texts, "input", asking)
        begin = partial(served.service.embedding_job, texts, {})
        job = await asking.job(request, served, begin, EmbeddingRequest.model_fields)
        assert isinstance(job, PassJob)
        data = [
            {"object": "embedding", "index": index, "embedding": _written(vector, given.encoding_format)}
            for index, vector in enumerate(job.found)
        ]
        tokens = sum(len(text) for text in texts) // 4
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return reply({"object": "list", "data": data, "model": served.name, "usage": usage})

    @router.post("/v1/chat/completions")
    async def chat() -> Response:
        raise Refused(404, _CHAT)

    return router


def _embedding_model(asking: Asking, name: str) -> Served:
    served = asking.models.find(name)
    if not served.service.embeds:
        raise Refused(422, f"{name} does not write texts as vectors: choose another model.", "model")
    return served


def _check_letters(texts: list[str], field: str, asking: Asking) -> None:
    longest, most = max(map(len, texts)), asking.settings.max_text
    if longest > most:
        raise Refused(422, f"`{field}` has a text of {longest:,} letters, but at most {most:,} are read.", field)


def _written(vector: Any, form: str) -> Any:
    values = np.asarray(vector, "<f4")
    return base64.b64encode(values.tobytes()).decode() if form == "base64" else values.tolist()


def _choice(index: int, text: str, ended: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": ended}


def _choices(job: Job) -> list[dict[str, Any]]:
    found = [text for result in job.results for text in result.get("samples", [result])]
    ends = {"end": "stop", "stop": "stop", "length": "length"}
    return [_choice(index, text["text"], ends[text["ended"]]) for index, text in enumerate(found)]


def _usage(job: Job) -> dict[str, int]:
    prompt, written = job.tokens_read, job.tokens_written
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
