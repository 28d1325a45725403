"""`/v1/explain`: why a model answered as it did, as data, as an item of the explorer, or as its page."""

from functools import partial
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field, create_model

from heedful.base.options import Option
from heedful.explain.explanation import Explanation
from heedful.explain.pages.page import explorer_item, explorer_page
from heedful.server.asking import Asking, in_words, reply
from heedful.server.errors import Refused
from heedful.server.routes.tasks import ALL_ROLES, inputs_of
from heedful.server.schemas import body_of, document

_MOST: Final = 4000  # letters of a text: weights grow with the square of its length
_OPTIONS: Final = {
    "to": Option("Target language.", kind=str),
    "top": Option("Number of runners-up of each token.", 5, least=0, most=50, kind=int),
    "gradients": Option("Also how much each input token influences a prediction.", False, kind=bool),
    "search": Option("Also the beam search as a tree.", False, kind=bool),
    "beam": Option("Beam size.", least=1, kind=int),
}


def explain_routes(asking: Asking) -> APIRouter:
    """Return the route of explanations."""
    router = APIRouter(tags=["explanations"])
    plain = body_of("ExplainText", ALL_ROLES, _OPTIONS, asking.settings, several=False)
    target = (str | None, Field(None, max_length=_MOST, description="Explain this output, not the model's own."))
    form = (Literal["item", "page", "json"], Field("item", description="item: for the explorer of the page."))
    more: Any = {"target": target, "form": form}
    body = create_model("ExplainRequest", __base__=plain, **more)

    @router.post("/v1/explain", openapi_extra=document(body))
    async def explain(request: Request) -> Response:
        given = {name: value for name, value in await asking.body(request, body) if value is not None}
        served = asking.models.find(given.pop("model", None))
        form = given.pop("form")
        if not served.service.explains:
            raise Refused(422, f"{served.name} has answers that are not explained.", "model")
        (values,) = inputs_of(given, served.service.roles)
        for role, value in values.items():
            if isinstance(value, str) and len(value) > _MOST:
                raise Refused(422, f"`{role}` has {len(value):,} letters, but at most {_MOST:,} are explained.", role)
        if "image" in values:
            values["image"] = values["image"].source
        options = {name: value for name, value in given.items() if name not in ALL_ROLES}
        work = partial(_explained, served.service.explain, values, options, served.name, form)
        with in_words(served, body.model_fields):
            media, content = await asking.explain(work)
        if media == "page":
            headers = {"Content-Disposition": 'attachment; filename="explanation.html"'}
            return Response(content, media_type="text/html; charset=utf-8", headers=headers)
        return reply({"model": served.name, media: content})

    return router


def _explained(explain: Any, values: Any, options: Any, name: str, form: str) -> tuple[str, Any]:
    found: Explanation = explain(values, options)
    if form == "page":
        return "page", explorer_page([found], name)
    return ("item", explorer_item(found)) if form == "item" else ("explanation", found.to_json())
