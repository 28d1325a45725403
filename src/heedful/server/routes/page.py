"""The page, in one file."""

from fastapi import APIRouter, Response

from heedful.pages.app import app_page


def page_routes() -> APIRouter:
    """Return the route of the page."""
    router = APIRouter(include_in_schema=False)
    page, policy = app_page()
    headers = {"Content-Security-Policy": policy, "X-Frame-Options": "DENY"}

    @router.get("/")
    async def show() -> Response:
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    @router.get("/favicon.ico")
    async def icon() -> Response:
        return Response(status_code=204)

    return router
