"""The application: routes, what stands before them, and models that begin and end with it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from heedful.server.asking import Asking, reply
from heedful.server.errors import Refused
from heedful.server.guard import Guard
from heedful.server.metrics import Metrics
from heedful.server.routes.explain import explain_routes
from heedful.server.routes.health import health_routes
from heedful.server.routes.libretranslate import libretranslate_routes
from heedful.server.routes.openai import openai_routes
from heedful.server.routes.page import page_routes
from heedful.server.routes.tasks import task_routes
from heedful.server.served import Models, load_models
from heedful.server.settings import ServeSettings
from heedful.version import __version__


def asgi(
    models: Sequence[str | Path] | Mapping[str, Any], device: str = "auto", precision: str = "auto", **settings: Any
) -> FastAPI:
    """Return an application that serves models, for a server of your own: see `heedful.serve`."""
    chosen = ServeSettings(**settings)
    return application(Models(load_models(models, device, precision, chosen.languages)), chosen)


def application(models: Models, settings: ServeSettings) -> FastAPI:
    """Return the application of some models."""
    asking, metrics = Asking(models, settings), Metrics(models)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        models.start()
        try:
            yield
        finally:
            asking.draining = True
            models.stop()

    app = FastAPI(
        title="Heedful",
        version=__version__,
        description="Models of all tasks over HTTP. Errors have one line that names the field.",
        lifespan=lifespan,
        docs_url=None,  # their pages load scripts of others
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.asking = asking
    for router in (
        task_routes(asking),
        explain_routes(asking),
        openai_routes(asking),
        libretranslate_routes(asking),
        health_routes(asking, metrics),
        page_routes(),
    ):
        app.include_router(router)

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return reply(error.body, error.status, error.headers)

    @app.exception_handler(HTTPException)
    async def wrong_route(request: Request, error: HTTPException) -> Response:
        told = Refused(error.status_code, f"There is no route {request.method} {request.url.path}: see /openapi.json.")
        return reply(told.body, told.status, error.headers)

    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    app.add_middleware(Guard, settings=settings, count=metrics.count)
    return app
