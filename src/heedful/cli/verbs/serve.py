"""`heedful serve MODEL...`: models of all tasks over HTTP, for programs and for a page in the browser."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from heedful.base.errors import UserError, counted
from heedful.base.files import expand_user, read_bytes
from heedful.cli import messages
from heedful.cli.options import DeviceOption, PrecisionOption, option
from heedful.config.reading.bundle_config import read_config

KEYS: Final = "HEEDFUL_KEYS"  # environment variable


def command(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Folders of trained models, each also as NAME=FOLDER.")
    ],
    host: Annotated[str, option("Address to listen on; all but those of this machine need keys.")] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on; 0 is any that is free.", metavar="N", min=0)] = 8000,
    keys: Annotated[
        Path | None,
        option(f"File of keys, one per line, of which each request needs one; or {KEYS}, with spaces between them."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        option("Let pages of this origin use the server, such as https://example.org; repeatable.", metavar="ORIGIN"),
    ] = None,
    allow_host: Annotated[
        list[str] | None, option("Also answer requests for this name, as of a proxy; repeatable.", metavar="NAME")
    ] = None,
    languages: Annotated[
        list[str] | None,
        option("Languages of translators whose recipes do not tell, such as en-de; repeatable.", metavar="FROM-TO"),
    ] = None,
    queue: Annotated[int, option("Requests that wait or are under way; more are told to come back.", min=1)] = 128,
    timeout: Annotated[float, option("Seconds after which a request ends.", metavar="SECONDS", min=0.001)] = 60.0,
    max_text: Annotated[int, option("Maximum letters of one text.", metavar="N", min=1)] = 20_000,
    max_inputs: Annotated[int, option("Maximum texts or images of one request.", metavar="N", min=1)] = 256,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Serve models over HTTP: a page for people, routes for programs, and those of OpenAI and LibreTranslate.

    Open http://127.0.0.1:8000 in a browser. Requests run together, step by step. On Ctrl-C or a signal to end, what was
    accepted is answered first.
    """
    from heedful.server.settings import ServeSettings, named_folders

    settings = ServeSettings(
        host=host,
        port=port,
        keys=_keys(keys),
        origins=allow_origin or (),
        hosts=allow_host or (),
        languages=languages or (),
        queue=queue,
        timeout=timeout,
        drain=timeout + 5,  # by then every request has an answer
        max_text=max_text,
        max_inputs=max_inputs,
    )
    for _, folder in named_folders(models):
        read_config(expand_user(folder))  # before torch is imported
    from heedful.server.run import listen, run
    from heedful.server.served import Models, load_models

    with listen(settings) as listening:
        with messages.busy(f"loading {', '.join(models)}"):
            served = Models(load_models(models, device, precision, settings.languages))
        address, port = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        for one in served.served:
            messages.note(f"{one.name}: {one.verb}, on {one.service.model.device}")
        messages.note(f"serving on http://{shown}:{port} (Ctrl-C stops)")
        dropped = run(served, settings, listening)
    if dropped:
        messages.note(f"stopped: {counted(dropped, 'request')} took more than {settings.drain:,.0f} seconds")
    else:
        messages.note("stopped: all requests that were accepted are answered")


def _keys(file: Path | None) -> tuple[str, ...]:
    """Return the keys of a file, or of the environment."""
    if file is None:
        return tuple(dict.fromkeys(os.environ.get(KEYS, "").split()))
    try:
        found = tuple(dict.fromkeys(read_bytes(expand_user(str(file))).decode().split()))
    except UnicodeDecodeError:
        raise UserError(f"{file} is not a text file in UTF-8: write one key on each line.") from None
    if not found:
        raise UserError(f"{file} has no key: write one on each line.")
    return found
