"""Whether the server lives and takes requests, and what it has done: for operators."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from heedful.server.asking import Asking, reply
from heedful.server.metrics import Metrics


def health_routes(asking: Asking, metrics: Metrics) -> APIRouter:
    """Return the routes of operators."""
    router = APIRouter(tags=["health"])

    @router.get("/health/live")
    async def live() -> Response:
        return reply({"status": "live"})

    @router.get("/health/ready")
    async def ready() -> Response:
        if asking.draining:
            return reply({"status": "stopping"}, 503, {"Retry-After": "5"})
        return reply({"status": "ready"})

    @router.get("/metrics")
    async def all_metrics() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router
