"""The server: models of all tasks over HTTP, for programs and for a page in the browser."""

from importlib.util import find_spec
from typing import Final

from heedful.base.errors import UserError, by_caller

_NEEDED: Final = ("fastapi", "uvicorn", "prometheus_client")

if missing := [name for name in _NEEDED if find_spec(name) is None]:
    raise UserError(
        f"{by_caller('`heedful serve`', 'A server')} needs {', '.join(missing)}: install them with pip install "
        "'heedful[serve]'."
    )
